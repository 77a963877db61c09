//! What crosses the host's socket: one request a connection, and lines of JSON as the answer (PROTOCOL.md, "The
//! host's socket").

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize, Serializer};

use crate::json::{At, Fields, Json, MAX_DEPTH, Problem, Read};
use crate::report::{Outcome, Reported};
use crate::sealed::Sealed;
use crate::signed::{Base64, Envelope};

/// The largest request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// How deep a value may be nested, so that the request around it is not nested deeper than JSON may be.
pub const MAX_VALUE_DEPTH: usize = MAX_DEPTH - 5;

/// What the host is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Make the machine match.
    Apply(Box<Apply>),
    /// Say what an apply would do, and do nothing.
    Plan(Box<Apply>),
    /// What was applied, what is held, waiting, failed, owed.
    Status,
    /// The public sealing key.
    Key,
    /// The bus was reached again, so what could have cut it off stays.
    Confirm {
        /// The declaration's sequence.
        sequence: u64,
    },
    /// The vault refuses these values: their copies are wiped. By module, `kind:name`.
    Drop(BTreeMap<String, Vec<String>>),
}

/// The body of an apply or a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apply {
    /// The signed declaration.
    pub declaration: Envelope,
    /// The exact bytes of each module's assignment.
    pub assignments: BTreeMap<String, Vec<u8>>,
    /// The exact bytes of each module's settings.
    pub settings: BTreeMap<String, Vec<u8>>,
    /// The values of each module's needs that the declaration does not cover. A module that is missing here waits.
    pub values: BTreeMap<String, ModuleValues>,
    /// Only these modules are looked at. Absent: all.
    pub only: Option<Vec<String>>,
}

/// The values of one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleValues {
    /// Those that the host has from before.
    Same,
    /// These, by `kind:name`.
    Given(BTreeMap<String, Given>),
}

/// One value from outside: of kind `secret`, `consumers` or `bound`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// Sealed to this host: one for a secret, one for each consumer.
    Sealed(Vec<Sealed>),
    /// A text.
    Text(String),
    /// JSON, of which dotted paths take members.
    Json(Json),
}

/// Reads one request.
///
/// ```
/// use mesh_model::host_api::Request;
/// use mesh_model::json::Read;
/// assert_eq!(Request::from_json_bytes(br#"{"key":{}}"#), Ok(Request::Key));
/// assert_eq!(
///     Request::from_json_bytes(br#"{"staus":{}}"#).unwrap_err().to_string(),
///     "staus: unknown field; nearest known: status"
/// );
/// ```
impl Read for Request {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let mut requests = Vec::new();
        requests.extend(fields.optional("apply")?.map(|apply| Request::Apply(Box::new(apply))));
        requests.extend(fields.optional("plan")?.map(|plan| Request::Plan(Box::new(plan))));
        requests.extend(fields.optional::<Nothing>("status")?.map(|_| Request::Status));
        requests.extend(fields.optional::<Nothing>("key")?.map(|_| Request::Key));
        requests.extend(
            fields.optional::<Confirm>("confirm")?.map(|confirm| Request::Confirm { sequence: confirm.0 }),
        );
        requests.extend(fields.optional("drop")?.map(Request::Drop));
        fields.done()?;
        match (requests.pop(), requests.pop()) {
            (Some(request), None) => Ok(request),
            _ => Err(at.problem("is not one request: apply, plan, status, key, confirm or drop")),
        }
    }
}

struct Nothing;

impl Read for Nothing {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        Fields::of(json, at)?.done().map(|()| Nothing)
    }
}

struct Confirm(u64);

impl Read for Confirm {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let confirm = Confirm(fields.required("sequence")?);
        fields.done()?;
        Ok(confirm)
    }
}

impl Read for Apply {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let bytes = |map: BTreeMap<String, Base64>| {
            map.into_iter().map(|(module, bytes)| (module, bytes.0)).collect()
        };
        let apply = Apply {
            declaration: fields.required("declaration")?,
            assignments: bytes(fields.or_default("assignments")?),
            settings: bytes(fields.or_default("settings")?),
            values: fields.or_default("values")?,
            only: fields.optional("only")?,
        };
        fields.done()?;
        Ok(apply)
    }
}

impl Read for ModuleValues {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        if json.get("same") == Some(&Json::Bool(true)) {
            let mut fields = Fields::of(json, at)?;
            fields.required::<bool>("same")?;
            fields.done()?;
            return Ok(ModuleValues::Same);
        }
        Read::read(json, at).map(ModuleValues::Given)
    }
}

impl Read for Given {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let sealed = fields.optional("sealed")?.map(Given::Sealed);
        let text = fields.optional("text")?.map(Given::Text);
        let json = fields.optional("json")?.map(Given::Json);
        fields.done()?;
        match (sealed, text, json) {
            (Some(given), None, None) | (None, Some(given), None) | (None, None, Some(given)) => Ok(given),
            _ => Err(at.problem("is not one value: sealed, text or json")),
        }
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nothing = BTreeMap::<&str, u64>::new();
        match self {
            Request::Apply(apply) => serializer.collect_map([("apply", apply)]),
            Request::Plan(plan) => serializer.collect_map([("plan", plan)]),
            Request::Status => serializer.collect_map([("status", nothing)]),
            Request::Key => serializer.collect_map([("key", nothing)]),
            Request::Confirm { sequence } => {
                serializer.collect_map([("confirm", BTreeMap::from([("sequence", sequence)]))])
            }
            Request::Drop(drop) => serializer.collect_map([("drop", drop)]),
        }
    }
}

impl Serialize for Apply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            declaration: &'a Envelope,
            assignments: BTreeMap<&'a str, String>,
            settings: BTreeMap<&'a str, String>,
            values: &'a BTreeMap<String, ModuleValues>,
            #[serde(skip_serializing_if = "Option::is_none")]
            only: &'a Option<Vec<String>>,
        }
        fn coded(map: &BTreeMap<String, Vec<u8>>) -> BTreeMap<&str, String> {
            map.iter().map(|(module, bytes)| (module.as_str(), BASE64.encode(bytes))).collect()
        }
        Body {
            declaration: &self.declaration,
            assignments: coded(&self.assignments),
            settings: coded(&self.settings),
            values: &self.values,
            only: &self.only,
        }
        .serialize(serializer)
    }
}

impl Serialize for ModuleValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ModuleValues::Same => serializer.collect_map([("same", true)]),
            ModuleValues::Given(values) => values.serialize(serializer),
        }
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Given::Sealed(sealed) => serializer.collect_map([("sealed", sealed)]),
            Given::Text(text) => serializer.collect_map([("text", text)]),
            Given::Json(json) => serializer.collect_map([("json", json)]),
        }
    }
}

/// One line of the host's answer. The last line of an apply or a plan is a report, `superseded` or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// One resource, as it happens; of a plan, what would happen.
    Outcome(Box<Outcome>),
    /// The end of an apply or a plan.
    Report(Reported),
    /// A newer apply took the place of this one, which was not begun.
    Superseded {},
    /// The public sealing key.
    Key(String),
    /// What was applied, held, waits, failed and is owed.
    Status(Json),
    /// Done: a confirmation or a drop.
    Done {},
    /// The request was not carried out.
    Error {
        /// As in HTTP: 400 the request is wrong, 403 it is refused, 500 the host is at fault, 503 it cannot now.
        code: u16,
        /// Why, as a fragment.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed::PayloadType;
    use nkeys::KeyPair;

    fn apply() -> Apply {
        let declaration =
            Envelope::sign(PayloadType::Declaration, b"{}".to_vec(), &KeyPair::new_operator()).unwrap();
        let json = Json::parse(r#"{"host":"h","weight":1.50}"#).unwrap();
        let given = BTreeMap::from([
            ("secret:k".to_owned(), Given::Sealed(vec![Sealed::sample()])),
            ("bound:database.host".to_owned(), Given::Text("10.0.0.2".into())),
            ("bound:other".to_owned(), Given::Json(json)),
        ]);
        Apply {
            declaration,
            assignments: BTreeMap::from([("web".into(), b"{\"a\": 1}".to_vec())]),
            settings: BTreeMap::from([("web".into(), b"{}".to_vec())]),
            values: BTreeMap::from([
                ("web".into(), ModuleValues::Given(given)),
                ("mail".into(), ModuleValues::Same),
                ("shell".into(), ModuleValues::Given(BTreeMap::new())),
            ]),
            only: Some(vec!["web".into()]),
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let apply = Box::new(apply());
        let drop = BTreeMap::from([("web".to_owned(), vec!["secret:db".to_owned()])]);
        for request in [
            Request::Apply(apply.clone()),
            Request::Plan(apply),
            Request::Status,
            Request::Key,
            Request::Confirm { sequence: u64::MAX },
            Request::Drop(drop),
        ] {
            let text = serde_json::to_vec(&request).unwrap();
            assert_eq!(Request::from_json_bytes(&text), Ok(request));
        }
        assert_eq!(
            serde_json::to_string(&Request::Confirm { sequence: 3 }).unwrap(),
            r#"{"confirm":{"sequence":3}}"#
        );
    }

    #[test]
    fn what_is_wrong_in_a_request_is_told_with_its_place() {
        let text = serde_json::to_string(&Request::Apply(Box::new(apply()))).unwrap();
        for (from, to, what) in [
            (
                "\"web\":\"eyJhIjogMX0=\"",
                "\"web\":\"eyJhIjogMX0\"",
                "apply.assignments.web: is not padded standard base64",
            ),
            (
                "{\"same\":true}",
                "{\"same\":true,\"x\":1}",
                "apply.values.mail.x: unknown field; known are same",
            ),
            (
                "\"text\":",
                "\"txt\":",
                "apply.values.web.bound:database.host.txt: unknown field; nearest known: text",
            ),
            (
                "sealed:v1",
                "sealed:v2",
                "apply.values.web.secret:k.sealed[0]: is not a sealed value (sealed:v1:X…:X…:base64)",
            ),
            (
                "{\"apply\"",
                "{\"key\":{},\"apply\"",
                "is not one request: apply, plan, status, key, confirm or drop",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let problem = Request::from_json_bytes(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert_eq!(problem.to_string(), what);
        }
        assert!(Request::from_json_bytes(b"{}").is_err());
    }

    #[test]
    fn answers_have_one_shape() {
        for (line, text) in [
            (Line::Report(Reported::Same), r#"{"report":{"same":true}}"#),
            (Line::Superseded {}, r#"{"superseded":{}}"#),
            (Line::Key("X".into()), r#"{"key":"X"}"#),
            (
                Line::Status(Json::Object(vec![("a".into(), Json::Number("1.0".into()))])),
                r#"{"status":{"a":1.0}}"#,
            ),
            (Line::Done {}, r#"{"done":{}}"#),
            (Line::Error { code: 403, message: "no".into() }, r#"{"error":{"code":403,"message":"no"}}"#),
        ] {
            assert_eq!(serde_json::to_string(&line).unwrap(), text);
            assert_eq!(serde_json::from_str::<Line>(text).unwrap(), line);
        }
    }
}

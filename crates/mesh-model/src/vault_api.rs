//! What crosses the bus between the vault and those who ask it (docs/mesh-vault.md).
//!
//! Requests are read strictly. Answers are read leniently: a newer vault may say more.

use serde::{Deserialize, Serialize};

use crate::assignment::Consumer;
use crate::json::{At, Fields, Json, Problem, Read};
use crate::resource::words;
use crate::sealed::Sealed;

/// The largest secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 256 * 1024;

/// Asks for one secret: the verb `mesh-vault.secret`.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::vault_api::SecretRequest;
/// let text = br#"{"node":"attic","module":"web","name":"session-key"}"#;
/// assert_eq!(SecretRequest::from_json_bytes(text).unwrap().name, "session-key");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SecretRequest {
    /// The node that uses it.
    pub node: String,
    /// The module that uses it.
    pub module: String,
    /// Its name; of a credential that of the `requires` entry.
    pub name: String,
}

impl Read for SecretRequest {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let request = SecretRequest {
            node: fields.required("node")?,
            module: fields.required("module")?,
            name: fields.required("name")?,
        };
        fields.done()?;
        Ok(request)
    }
}

/// The answer. It repeats what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretAnswer {
    /// As asked.
    pub node: String,
    /// As asked.
    pub module: String,
    /// As asked.
    pub name: String,
    /// The secret's revision.
    pub revision: u64,
    /// The value, sealed to the node.
    pub sealed: Sealed,
    /// After how many seconds to ask again, where no bucket tells of a new revision.
    pub again_after: u64,
}

impl SecretAnswer {
    /// Whether it answers that request.
    pub fn fits(&self, request: &SecretRequest) -> bool {
        self.node == request.node && self.module == request.module && self.name == request.name
    }
}

/// Asks for the credentials of all consumers of a provider: the verb `mesh-vault.consumers`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ConsumersRequest {
    /// The provider's node.
    pub node: String,
    /// The provider.
    pub module: String,
    /// What it provides.
    pub provision: String,
}

impl Read for ConsumersRequest {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let request = ConsumersRequest {
            node: fields.required("node")?,
            module: fields.required("module")?,
            provision: fields.required("provision")?,
        };
        fields.done()?;
        Ok(request)
    }
}

/// The answer. No consumers are an empty list, which is a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumersAnswer {
    /// As asked.
    pub node: String,
    /// As asked.
    pub module: String,
    /// As asked.
    pub provision: String,
    /// The revision of the list as a whole.
    pub revision: u64,
    /// Each consumer and its credential, sealed to the provider's node.
    pub sealed: Vec<SealedConsumer>,
    /// Those whose node has no sealing key yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Consumer>,
    /// After how many seconds to ask again, where no bucket tells of a new revision.
    pub again_after: u64,
}

/// A consumer and its sealed credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedConsumer {
    /// Who has it.
    #[serde(rename = "for")]
    pub of: Consumer,
    /// `{"user":…,"password":…}`, sealed to the provider's node.
    pub sealed: Sealed,
}

impl ConsumersAnswer {
    /// Whether it answers that request.
    pub fn fits(&self, request: &ConsumersRequest) -> bool {
        self.node == request.node && self.module == request.module && self.provision == request.provision
    }
}

/// Why the vault does not give what was asked for: the body of an answer with an error.
///
/// ```
/// use mesh_model::vault_api::Refusal;
/// let text = r#"{"error":{"code":404,"message":"not accepted yet","sequence":17}}"#;
/// let refusal: Refusal = serde_json::from_str(text).unwrap();
/// assert!(!refusal.error.takes_away(17), "404 never does");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub error: RefusalError,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalError {
    /// As in HTTP: 403 not assigned, 404 nothing there yet, 503 cannot now.
    pub code: u16,
    /// Why, as a fragment.
    pub message: String,
    /// The sequence of the declaration by which it was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl RefusalError {
    /// Whether a client that has the declaration `own` drops its copy: only when the vault refused by one that is at
    /// least as new, and never because nothing is there.
    pub fn takes_away(&self, own: u64) -> bool {
        self.code == 403 && self.sequence.is_some_and(|judged| judged >= own)
    }
}

words!(
    /// A verb of the vault that needs the mesh key's signature.
    Verb, "signed verb" {
        /// Takes a value that the mesh cannot make.
        Accept = "accept",
        /// Makes a new revision.
        Rotate = "rotate",
        /// Gives every recovery copy, page by page.
        Export = "export",
    }
);

/// The payload of a signed request (`application/vnd.mesh.vault-request.v1+json`). Each id is good once.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::vault_api::{SignedRequest, Verb};
/// let text = r#"{"mesh":"m","verb":"rotate","id":"1","at":"2026-11-30T20:00:00Z","node":"attic","module":"web","name":"k"}"#;
/// let request = SignedRequest::from_json_bytes(text.as_bytes()).unwrap();
/// assert_eq!(request.verb, Verb::Rotate);
/// assert_eq!(serde_json::to_string(&request).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedRequest {
    /// The mesh's id.
    pub mesh: String,
    /// What is asked.
    pub verb: Verb,
    /// Good once.
    pub id: String,
    /// When it was signed, RFC 3339.
    pub at: String,
    /// Of accept and rotate: the node that uses the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Of accept and rotate: the module that uses the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Of accept and rotate: the secret. Of export: the place after which the page begins, if it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of accept: the value, sealed to the vault with a key that is thrown away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Sealed>,
}

impl Read for SignedRequest {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let request = SignedRequest {
            mesh: fields.required("mesh")?,
            verb: fields.required("verb")?,
            id: fields.required("id")?,
            at: fields.required("at")?,
            node: fields.optional("node")?,
            module: fields.optional("module")?,
            name: fields.optional("name")?,
            value: fields.optional("value")?,
        };
        fields.done()?;
        let place = request.node.is_some() && request.module.is_some() && request.name.is_some();
        let no_place = request.node.is_none() && request.module.is_none();
        let right = match request.verb {
            Verb::Accept => place && request.value.is_some(),
            Verb::Rotate => place && request.value.is_none(),
            Verb::Export => no_place && request.value.is_none(),
        };
        if right { Ok(request) } else { Err(at.problem(format!("has not the fields of {}", request.verb))) }
    }
}

/// The answer to accept and rotate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionAnswer {
    /// As asked.
    pub id: String,
    /// The secret's new revision.
    pub revision: u64,
}

/// A page of recovery copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportAnswer {
    /// As asked.
    pub id: String,
    /// The copies.
    pub copies: Vec<RecoveryCopy>,
    /// The `name` of the next request, where there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The second copy of a secret, which the operator's key alone opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCopy {
    /// The mesh's id.
    pub mesh: String,
    /// The node that uses it.
    pub node: String,
    /// The module that uses it.
    pub module: String,
    /// `secret`, or `consumers`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its revision.
    pub revision: u64,
    /// The copy.
    pub sealed: Sealed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat_what_was_asked() {
        let sealed = Sealed::sample();
        let text = format!(
            r#"{{"node":"a","module":"web","name":"k","revision":3,"sealed":"{sealed}","again_after":300}}"#
        );
        let answer: SecretAnswer = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        let request = SecretRequest { node: "a".into(), module: "web".into(), name: "k".into() };
        assert!(answer.fits(&request));
        assert!(!answer.fits(&SecretRequest { node: "b".into(), ..request.clone() }));
        assert!(!answer.fits(&SecretRequest { name: "l".into(), ..request }));

        let text = format!(
            r#"{{"node":"a","module":"db","provision":"postgres","revision":1,"sealed":[{{"for":{{"node":"b","module":"web","name":"database"}},"sealed":"{sealed}"}}],"left_out":[{{"node":"c","module":"web","name":"database"}}],"again_after":300}}"#
        );
        let answer: ConsumersAnswer = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert!(answer.fits(&ConsumersRequest {
            node: "a".into(),
            module: "db".into(),
            provision: "postgres".into()
        }));
    }

    #[test]
    fn a_copy_is_dropped_only_by_a_refusal_that_is_new_enough() {
        let refusal = |code, sequence| RefusalError { code, message: String::new(), sequence };
        assert!(refusal(403, Some(17)).takes_away(17) && refusal(403, Some(18)).takes_away(17));
        assert!(!refusal(403, Some(16)).takes_away(17) && !refusal(403, None).takes_away(17));
        assert!(!refusal(404, Some(18)).takes_away(17) && !refusal(503, Some(18)).takes_away(17));
    }

    #[test]
    fn each_verb_has_its_own_fields() {
        let sealed = Sealed::sample();
        let place = r#","node":"a","module":"web","name":"k""#;
        let value = format!(r#","value":"{sealed}""#);
        let read = |verb: &str, rest: &str| {
            let text = format!(r#"{{"mesh":"m","verb":"{verb}","id":"1","at":"now"{rest}}}"#);
            SignedRequest::from_json_bytes(text.as_bytes()).map(|_| ()).map_err(|problem| problem.to_string())
        };
        assert_eq!(read("accept", &format!("{place}{value}")), Ok(()));
        assert_eq!(read("export", ""), Ok(()));
        assert_eq!(read("export", r#","name":"a.web.k""#), Ok(()));
        assert_eq!(read("accept", place), Err("has not the fields of accept".into()));
        assert_eq!(read("rotate", &format!("{place}{value}")), Err("has not the fields of rotate".into()));
        assert_eq!(read("export", place), Err("has not the fields of export".into()));
        assert_eq!(
            read("acept", place),
            Err("verb: \"acept\" is not a signed verb; nearest known: accept".into())
        );
    }
}

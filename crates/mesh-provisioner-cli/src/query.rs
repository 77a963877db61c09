//! The seat, as commands ask it: whole pages of bytes for those that show them, typed entries for those that reason.

use super::connect::{Environment, Inbox, connect, explain};
use mesh_bus::client::{CallError, Client};
use mesh_bus::config::Flags;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;
use mesh_model::provisioner::VERB;
use mesh_provisioner_api::request::{self, What};
use mesh_provisioner_api::response;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;

/// How long a response is awaited: the seat gives up after 4 s and says so.
const TIMEOUT: Duration = Duration::from_secs(6);

/// How many pages are followed at most.
pub(super) const MAX_PAGES: usize = 100_000;

/// A connection to the seat.
pub(super) struct Seat {
    client: Client,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The bus brought none.
    Call(CallError),
    /// The seat gave an error; its body as it came.
    Error(String, String, Vec<u8>),
    /// What came cannot be read.
    Foreign(String),
}

impl NoAnswer {
    /// Reports it; gives how to end.
    pub(super) fn report(&self) -> Exit {
        match self {
            NoAnswer::Call(error) => {
                return explain(error, VERB, "nobody holds the seat: start mesh-provisioner serve", "reader");
            }
            NoAnswer::Error(code, message, _) => complain(&format!("error {code}: {message}")),
            NoAnswer::Foreign(why) => complain(why),
        }
        Exit::Failed
    }
}

impl Seat {
    /// Connects as the flags and the environment say; reports why not.
    pub(super) fn connect(
        flags: &Flags,
        environment: Environment<'_>,
        inbox: &Inbox<'_>,
    ) -> Result<Self, Exit> {
        Ok(Seat { client: connect(flags, environment, inbox)? })
    }

    /// Ends the connection.
    pub(super) fn close(self) {
        self.client.close();
    }

    /// One page, as it came.
    pub(super) fn page(&mut self, ask: &request::Ask) -> Result<Vec<u8>, NoAnswer> {
        let request = ask.to_json().into_bytes();
        let reply = self.client.call(VERB, Vec::new(), request, TIMEOUT).map_err(NoAnswer::Call)?;
        if let Some((code, message)) = reply.error {
            return Err(NoAnswer::Error(code, message, reply.body));
        }
        let expected = response::response_type(ask.what.word());
        match kind_of(&reply.body) {
            Some(kind) if kind == expected => Ok(reply.body),
            _ => Err(NoAnswer::Foreign(foreign(&reply.body, &expected))),
        }
    }

    /// All entries of `ask` and all malformed keys, from its `after` to the end.
    pub(super) fn all<T: DeserializeOwned>(&mut self, ask: &request::Ask) -> Result<All<T>, NoAnswer> {
        let mut ask = ask.clone();
        let mut all = All { ok: true, entries: Vec::new(), malformed: Vec::new(), malformed_total: 0 };
        for _ in 0..MAX_PAGES {
            let body = self.page(&ask)?;
            let page: Page<T> = serde_json::from_slice(&body).map_err(|why| {
                NoAnswer::Foreign(format!(
                    "the seat's answer cannot be read: {why}: is it of the same version?"
                ))
            })?;
            all.ok &= page.ok != Some(false);
            all.entries.extend(page.entries);
            all.malformed.extend(page.malformed);
            all.malformed_total += page.malformed_total;
            match page.next {
                Some(next) => ask.after = Some(next),
                None => break,
            }
        }
        Ok(all)
    }

    /// The seat's report on itself.
    pub(super) fn health(&mut self) -> Result<Health, NoAnswer> {
        let body = self.page(&request::Ask::new(What::Health))?;
        serde_json::from_slice::<HealthAnswer>(&body)
            .map(|answer| Health { seat: answer.seat, ..answer.health })
            .map_err(|why| NoAnswer::Foreign(format!("the seat's report cannot be read: {why}")))
    }
}

/// The type that an answer says it is.
fn kind_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    serde_json::from_slice::<Typed>(body).ok().map(|typed| typed.r#type)
}

/// What a reply is if it is not a response of the seat.
fn foreign(body: &[u8], expected: &str) -> String {
    acknowledged(body, VERB).unwrap_or_else(|| {
        format!("something that is not a seat answered on {VERB}: its reply is not a {expected}")
    })
}

/// A sentence, if a reply is a stream's acknowledgement of a stored message rather than an answer of `verb`.
pub(super) fn acknowledged(body: &[u8], verb: &str) -> Option<String> {
    let reply: Value = serde_json::from_slice(body).ok()?;
    let stream = reply["stream"].as_str().filter(|_| reply["seq"].is_u64())?;
    Some(format!(
        "the stream {stream} stores requests to {verb} and acknowledges them, so that they have no answer: take that subject out of it (nats stream edit {stream})"
    ))
}

/// All entries of a question.
#[derive(Debug)]
pub(super) struct All<T> {
    /// Whether all is well, where the question says so.
    pub(super) ok: bool,
    pub(super) entries: Vec<T>,
    pub(super) malformed: Vec<Malformed>,
    pub(super) malformed_total: usize,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    ok: Option<bool>,
    entries: Vec<T>,
    malformed: Vec<Malformed>,
    malformed_total: usize,
    next: Option<String>,
}

#[derive(Deserialize)]
struct HealthAnswer {
    health: Health,
    seat: Option<Identity>,
}

/// The seat's report, as far as commands read it.
#[derive(Debug, Deserialize)]
pub(super) struct Health {
    pub(super) ready: bool,
    pub(super) missing: Vec<String>,
    pub(super) server: Option<String>,
    pub(super) uptime_seconds: u64,
    pub(super) other_seats: Vec<Value>,
    pub(super) counters: std::collections::BTreeMap<String, u64>,
    /// Which seat answered.
    #[serde(skip)]
    pub(super) seat: Option<Identity>,
}

/// Which seat answered.
#[derive(Debug, Deserialize)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) version: String,
}

/// A malformed key.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Malformed {
    pub(super) key: String,
    pub(super) detail: String,
}

/// A need, or a gap.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Need {
    pub(super) key: String,
    pub(super) node: String,
    pub(super) module: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) value: Option<Box<RawValue>>,
    /// For a gap: which one.
    pub(super) gap: Option<String>,
    /// For a gap: why it waits, in the words of its node.
    pub(super) why: Option<String>,
    pub(super) revision: u64,
    pub(super) at: String,
}

/// What a node says of a need of its own.
#[derive(Debug, Deserialize)]
pub(super) struct Claim {
    state: String,
    why: Option<String>,
    provider: Option<Claimed>,
}

/// Who is to give a value, as far as it is known here.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Claimed {
    Module(Provider),
    /// The name of the module that answers the kind, which the registry says too.
    Other(IgnoredAny),
}

/// Who is to give a value.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Provider {
    pub(super) node: String,
    pub(super) module: String,
}

impl Need {
    /// What its node says of it, if its value says that.
    pub(super) fn claim(&self) -> Option<Claim> {
        serde_json::from_str(self.value.as_ref()?.get()).ok()
    }

    /// Why it waits, if its node says that it does.
    pub(super) fn waits(&self) -> Option<String> {
        self.claim()?.waits()
    }
}

impl Claim {
    /// Who is to give the value, if that is another module of the mesh.
    pub(super) fn provider(self) -> Option<Provider> {
        match self.provider? {
            Claimed::Module(provider) => Some(provider),
            Claimed::Other(_) => None,
        }
    }

    /// Why the need waits, if it does.
    pub(super) fn waits(&self) -> Option<String> {
        (self.state == "waiting")
            .then(|| self.why.clone().unwrap_or_else(|| "it does not say why".to_owned()))
    }
}

/// A row of `drift`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ModuleRow {
    pub(super) node: String,
    pub(super) module: String,
    pub(super) state: String,
    pub(super) needs: usize,
    pub(super) needed_at: Option<String>,
    pub(super) applied_at: Option<String>,
}

/// A row of `nodes`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NodeRow {
    pub(super) node: String,
    #[serde(default)]
    pub(super) malformed: usize,
    pub(super) age_seconds: Option<u64>,
    pub(super) stale: Option<bool>,
}

/// A row of `collections`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CollectionRow {
    pub(super) node: String,
    pub(super) collection: String,
    pub(super) state: String,
    pub(super) contributors: Vec<String>,
    pub(super) readers: Vec<String>,
}

/// An entry of the registry. One that another client wrote may lack everything but its kind.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct KindRow {
    pub(super) kind: String,
    pub(super) domain: Option<String>,
    pub(super) module: Option<String>,
    pub(super) verb: Option<String>,
    pub(super) bucket: Option<String>,
    pub(super) key: Option<String>,
}

/// A question narrowed to a node, a module, or both.
pub(super) fn about(what: What, node: Option<&str>, module: Option<&str>) -> request::Ask {
    request::Ask {
        node: node.map(str::to_owned),
        module: module.map(str::to_owned),
        ..request::Ask::new(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_no_answer_and_names_its_stream() {
        let reply = br#"{"stream":"EVERYTHING","seq":7}"#;
        assert_eq!(kind_of(reply), None);
        let said = foreign(reply, "x");
        assert!(said.contains("the stream EVERYTHING stores requests"), "{said}");
        for reply in [&b"{}"[..], b"[]", br#"{"error":"no"}"#, b""] {
            assert!(foreign(reply, "x").starts_with("something that is not a seat answered"));
        }
    }

    #[test]
    fn a_need_waits_if_its_value_says_so() {
        let need = |value: &str| -> Need {
            let json = format!(
                r#"{{"key":"k","node":"n","module":"m","kind":"secret","name":"x","value":{value},"revision":1,"at":"t"}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        assert_eq!(need(r#"{"state":"waiting","why":"silent"}"#).waits(), Some("silent".to_owned()));
        assert_eq!(need(r#"{"state":"waiting"}"#).waits(), Some("it does not say why".to_owned()));
        for value in [r#"{"state":"filled"}"#, "1", "null", r#""waiting""#] {
            assert_eq!(need(value).waits(), None, "{value}");
        }
    }
}

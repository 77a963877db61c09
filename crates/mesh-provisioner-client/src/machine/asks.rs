//! What is asked of a verb: one request for each value, a back-off for each provider, and for a value that was refused
//! one of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_model::host_api::Given;
use mesh_model::json::Json;
use mesh_model::standing::Why;
use mesh_model::vault_api::{ConsumersAnswer, ConsumersRequest, Refusal, SecretAnswer, SecretRequest};

/// How many requests are under way at a time.
pub(super) const MOST: usize = 32;

const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(60);

/// How long an ask may be under way until its need says that it waits.
pub(super) const PATIENT: Duration = Duration::from_millis(700);

/// Module, kind and name.
pub(super) type Asked = (String, String, String);

/// One value that a verb has.
#[derive(Debug)]
pub(super) struct Ask {
    /// The verb's subject.
    pub(super) verb: String,
    /// The module that answers it.
    pub(super) provider: String,
    pub(super) held: Option<Held>,
    /// Why nothing came of the last request.
    pub(super) why: Option<Why>,
    /// The call under way, and since when.
    pub(super) call: Option<(u64, Duration)>,
    /// Not before then, after a refusal.
    pub(super) not_before: Duration,
    /// When what is held is asked for again, where no bucket tells of a new revision.
    pub(super) again: Option<Duration>,
    /// The newest revision that the bucket tells of.
    pub(super) newest: u64,
    /// Whether the bytes are needed, and not only known to be with the host.
    pub(super) needs_bytes: bool,
    pub(super) tries: u64,
    pub(super) refusals: u32,
    /// Since when it waits.
    pub(super) since: Duration,
    /// The last answer, in words for people.
    pub(super) last: String,
}

/// A value that is held here, or known to be held by the host.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) revision: u64,
    pub(super) given: Option<Given>,
}

impl Ask {
    pub(super) fn new(verb: &str, provider: &str, now: Duration) -> Self {
        Ask {
            verb: verb.to_owned(),
            provider: provider.to_owned(),
            held: None,
            why: None,
            call: None,
            not_before: Duration::ZERO,
            again: None,
            newest: 0,
            needs_bytes: false,
            tries: 0,
            refusals: 0,
            since: now,
            last: String::new(),
        }
    }

    /// Whether a request is wanted now, but for the provider's back-off.
    pub(super) fn is_wanted(&self, now: Duration, told: bool) -> bool {
        if self.call.is_some() || now < self.not_before {
            return false;
        }
        match &self.held {
            None => true,
            Some(held) => {
                self.newest > held.revision
                    || self.needs_bytes && held.given.is_none()
                    || !told && self.again.is_some_and(|again| again <= now)
            }
        }
    }
}

/// The body of a request.
pub(super) fn request(node: &str, (module, kind, name): &Asked) -> Vec<u8> {
    let (node, module) = (node.to_owned(), module.clone());
    if kind == "consumers" {
        serde_json::to_vec(&ConsumersRequest { node, module, provision: name.clone() })
    } else {
        serde_json::to_vec(&SecretRequest { node, module, name: name.clone() })
    }
    .expect("texts")
}

/// What an answer says.
#[derive(Debug)]
pub(super) enum Answer {
    /// The value, and after how long to ask again.
    Value(Held, Duration),
    /// A refusal: whether what is held is to be dropped, why the need waits, and the words.
    Refused { drop: bool, why: Why, words: String },
    /// Not what was agreed.
    Nonsense(String),
}

/// Reads an answer; `sequence` is that of the own declaration.
pub(super) fn parse(node: &str, asked: &Asked, body: &[u8], failed: bool, sequence: u64) -> Answer {
    let refusal = Json::parse_bytes(body).ok().filter(|json| json.get("error").is_some());
    if let Some(json) = &refusal
        && let Ok(Refusal { error }) = serde_json::from_str::<Refusal>(&json.to_string())
    {
        let why = match error.code {
            404 => Why::NotAcceptedYet,
            _ => Why::Refused,
        };
        let words = format!("{} {}", error.code, shown(&error.message));
        return Answer::Refused { drop: error.takes_away(sequence), why, words };
    }
    if failed || refusal.is_some() {
        return Answer::Nonsense("an error without a code".to_owned());
    }
    let (module, kind, name) = asked;
    let nonsense = |_| Answer::Nonsense("an answer of another form".to_owned());
    let other = || Answer::Nonsense("an answer to something else".to_owned());
    if kind == "consumers" {
        let request =
            ConsumersRequest { node: node.to_owned(), module: module.clone(), provision: name.clone() };
        return match serde_json::from_slice::<ConsumersAnswer>(body).map_err(nonsense) {
            Err(nonsense) => nonsense,
            Ok(answer) if !answer.fits(&request) => other(),
            Ok(answer) => {
                let sealed = answer.sealed.into_iter().map(|one| one.sealed).collect();
                let held = Held { revision: answer.revision, given: Some(Given::Sealed(sealed)) };
                Answer::Value(held, Duration::from_secs(answer.again_after))
            }
        };
    }
    let request = SecretRequest { node: node.to_owned(), module: module.clone(), name: name.clone() };
    match serde_json::from_slice::<SecretAnswer>(body).map_err(nonsense) {
        Err(nonsense) => nonsense,
        Ok(answer) if !answer.fits(&request) => other(),
        Ok(answer) => {
            let held = Held { revision: answer.revision, given: Some(Given::Sealed(vec![answer.sealed])) };
            Answer::Value(held, Duration::from_secs(answer.again_after))
        }
    }
}

/// Text of another program, short and in one line.
fn shown(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// How a provider answers.
#[derive(Debug, Default)]
pub(super) struct Provider {
    pub(super) failures: u32,
    pub(super) until: Duration,
}

/// The providers of verbs, by their modules' names.
#[derive(Debug, Default)]
pub(super) struct Providers(pub(super) BTreeMap<String, Provider>);

impl Providers {
    /// How many requests it may have beside those under way.
    pub(super) fn room(&self, provider: &str, under_way: usize, now: Duration) -> usize {
        match self.0.get(provider) {
            Some(state) if now < state.until => 0,
            // One request finds out whether it is back.
            Some(state) if state.failures > 0 => 1usize.saturating_sub(under_way),
            _ => MOST.saturating_sub(under_way),
        }
    }

    pub(super) fn failed(&mut self, provider: &str, jitter: f64, now: Duration) {
        let state = self.0.entry(provider.to_owned()).or_default();
        if now < state.until {
            return;
        }
        state.until = now + backoff(state.failures, jitter);
        state.failures = state.failures.saturating_add(1);
    }

    pub(super) fn answered(&mut self, provider: &str) {
        self.0.remove(provider);
    }
}

/// From 1 s to 60 s, doubling, with full jitter but for a floor.
pub(super) fn backoff(failures: u32, jitter: f64) -> Duration {
    let most = FIRST.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LAST);
    most.mul_f64(jitter.clamp(0.1, 1.0))
}

//! Asking the controller: until it answers or refuses, always with the same keys.

use super::{Failure, Wanted};
use crate::site::connection;
use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config::{Auth, BusConfig, Secret};
use mesh_bus::gate::REFUSES_CREDENTIALS;
use mesh_bus::message::Incoming;
use mesh_model::join::{Answer, Request};
use mesh_model::json::Json;
use mesh_model::rights::{Inbox, JOIN};
use mesh_model::signed::{Envelope, PayloadType};
use mesh_model::token::Token;
use nkeys::KeyPair;
use std::time::{Duration, Instant};

/// How long one request may take. The controller itself answers within 15 s.
const ONE: Duration = Duration::from_secs(20);

/// How long after a first refusal of the account it is tried again: the server may load a new file of accounts.
const ACCOUNT: Duration = Duration::from_secs(5);

/// The pauses between requests.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What one request came to.
enum Came {
    Answer(Answer),
    /// Final.
    Failed(Failure),
    /// To be tried again.
    Again(Failure),
}

/// Asks until there is an answer, a refusal, or no time left.
pub(super) fn ask(
    wanted: &Wanted,
    request: &Request,
    bus: &KeyPair,
    say: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let token = &wanted.token;
    let until = Instant::now() + wanted.within;
    let joiner = Secret::from(token.joiner.expose().to_owned());
    let config = connection(&token.servers, token.pin, wanted.ca.clone(), Auth::Seed(joiner))
        .map_err(|why| Failure::Here(format!("the token's servers: {why}")))?;
    let proven = request.clone().prove(&token.key.pair(), bus);
    let proven = proven.map_err(|error| Failure::Here(format!("the request cannot be signed: {error}")))?;
    let body = serde_json::to_vec(&proven).expect("JSON and texts");
    let mut pause = PAUSE;
    let mut refused_since = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let failure = match once(&config, token, request, &body, ONE.min(left)) {
            Came::Answer(answer) => return Ok(answer),
            Came::Failed(failure) => return Err(failure),
            Came::Again(failure) => failure,
        };
        let now = Instant::now();
        let is_over = match failure {
            Failure::Denied(_) => now > *refused_since.get_or_insert(now) + ACCOUNT,
            _ => false,
        };
        if is_over || now + pause >= until {
            return Err(failure);
        }
        say(&format!("{}; asking again", failure.why()));
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn once(config: &BusConfig, token: &Token, request: &Request, body: &[u8], within: Duration) -> Came {
    let inbox = Inbox::Joiner.prefix();
    let client = Client::connect(config.clone(), "mesh-provisioner-client join", &[&inbox], &nuid::next());
    let mut client = match client {
        Ok(client) => client,
        Err(ConnectError::Unreachable(why)) if why.contains(REFUSES_CREDENTIALS) => {
            return Came::Again(Failure::Denied(format!(
                "the bus does not know the token's account ({why}): an account for joining is kept for two days: issue a new token"
            )));
        }
        Err(ConnectError::Unreachable(why)) => {
            return Came::Again(Failure::Unavailable(format!("the bus cannot be reached: {why}")));
        }
        Err(ConnectError::NoInbox(words)) => {
            return Came::Failed(Failure::Denied(format!("the bus lets nobody answer: {words}")));
        }
    };
    let called = client.call(JOIN, Vec::new(), body.to_vec(), within);
    client.close();
    match called {
        Ok(incoming) => answered(token, request, &incoming),
        Err(CallError::Denied(words)) => Came::Failed(Failure::Denied(format!(
            "the bus says: {words}: the token's account may not ask to join"
        ))),
        Err(CallError::NoResponders) => Came::Again(Failure::Unavailable(
            "no controller listens on the bus: is mesh-controller serve running?".into(),
        )),
        Err(CallError::Silent) => {
            Came::Again(Failure::Unavailable("the controller did not answer in time".into()))
        }
        Err(CallError::Lost(why)) => {
            Came::Again(Failure::Unavailable(format!("the connection broke: {why}")))
        }
    }
}

/// What an answer says. Only one that the mesh's key signed counts, and only for these keys.
fn answered(token: &Token, request: &Request, incoming: &Incoming) -> Came {
    let json = Json::parse_bytes(&incoming.body).ok();
    if let Some((code, words)) = coded(json.as_ref(), incoming) {
        let why = format!("the controller says: {code} {words}");
        return match code {
            503 | 504 | 429 => Came::Again(Failure::Unavailable(why)),
            _ => Came::Failed(Failure::Refused(why)),
        };
    }
    // A machine with a token of today reads these answers, and could answer too: what is not signed is passed over.
    let odd = |why: String| {
        Came::Again(Failure::Unavailable(format!(
            "an answer does not count: {why}: another program may answer in the controller's place"
        )))
    };
    let Some(envelope) = json.as_ref().and_then(|json| json.get("answer")) else {
        return odd("it holds no answer".into());
    };
    let opened = Envelope::parse(envelope.to_string().as_bytes())
        .map_err(|problem| problem.to_string())
        .and_then(|envelope| {
            envelope.open::<Answer>(PayloadType::JoinAnswer, &token.mesh).map_err(|why| why.to_string())
        });
    match opened {
        Ok(answer) if answer.fits(request) => Came::Answer(answer),
        Ok(_) => odd("it is for another request".into()),
        Err(why) => odd(why),
    }
}

/// The code and the words of an error, from the body or from the headers.
fn coded(json: Option<&Json>, incoming: &Incoming) -> Option<(u16, String)> {
    #[derive(serde::Deserialize)]
    struct Error {
        code: u16,
        #[serde(default)]
        message: String,
    }
    let in_body = json.and_then(|json| json.get("error"));
    let error = in_body.and_then(|error| serde_json::from_str::<Error>(&error.to_string()).ok());
    let in_header = || {
        let (code, words) = incoming.error.as_ref()?;
        Some((code.parse().unwrap_or(500), words.clone()))
    };
    error.map(|error| (error.code, error.message)).or_else(in_header)
}

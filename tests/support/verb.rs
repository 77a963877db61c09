//! The verb `mesh-provisioner.provisioning`, asked as anybody on the bus may ask it.

use std::cell::OnceCell;
use std::time::Duration;

use mesh_provisioner_api::reason::Reason;
use serde_json::{Map, Value};

use super::client::{Client, Inbox, Unanswered};
use super::wire::Message;

/// What the seat answers on.
pub(crate) const VERB: &str = "mesh-provisioner.provisioning";

/// The seat gives up a request after four seconds and says so; the rest is for the machine the tests run on.
pub(crate) const ANSWER_BOUND: Duration = Duration::from_secs(8);

/// One answer of the seat, whole or an error.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Code and text of `Nats-Service-Error-Code` and `Nats-Service-Error`.
    pub(crate) error: Option<(u16, String)>,
    /// The body to the byte: numbers are passed through digit for digit, and a parser would round them.
    pub(crate) raw: Vec<u8>,
    parsed: OnceCell<Value>,
}

impl Answer {
    /// Reads an answer; panics if headers and body disagree on whether it is an error.
    #[track_caller]
    pub(crate) fn of(message: &Message) -> Self {
        let error = message.header("Nats-Service-Error-Code").map(|code| {
            let code = code.parse().unwrap_or_else(|_| panic!("an error code, not {code:?}"));
            (code, message.header("Nats-Service-Error").unwrap_or_default())
        });
        let answer = Self { error, raw: message.body.clone(), parsed: OnceCell::new() };
        if let Some((code, text)) = &answer.error {
            let body = &answer.body()["error"];
            assert!(
                body["code"] == *code
                    && Reason::ALL
                        .iter()
                        .any(|reason| body["reason"] == reason.word() && reason.code() == *code)
                    && body["message"].is_string()
                    && !text.is_empty()
                    && !text.contains('\n'),
                "headers ({code}, {text:?}) and body disagree: {}",
                answer.text()
            );
        }
        answer
    }

    /// The body parsed; panics with it if it is not JSON, or holds a number that a parser cannot hold
    /// (`1e400`).
    #[track_caller]
    pub(crate) fn body(&self) -> &Value {
        self.parsed.get_or_init(|| {
            serde_json::from_slice(&self.raw).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
        })
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// The error code, if it is an error.
    pub(crate) fn code(&self) -> Option<u16> {
        self.error.as_ref().map(|(code, _)| *code)
    }

    /// Itself, if it is not an error; panics with the error otherwise.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert!(self.error.is_none(), "an error where an answer was expected: {}", self.text());
        self
    }

    /// The text of the error, if it has this code; panics otherwise.
    #[track_caller]
    pub(crate) fn expect_error(&self, code: u16) -> &str {
        match &self.error {
            Some((found, text)) if *found == code => text,
            _ => panic!("expected an error {code}, got {}", self.text()),
        }
    }

    /// The entries of an answer that is not an error.
    #[track_caller]
    pub(crate) fn entries(&self) -> &[Value] {
        self.list("entries")
    }

    /// What is said as malformed.
    #[track_caller]
    pub(crate) fn malformed(&self) -> &[Value] {
        self.list("malformed")
    }

    /// What is said as malformed: each key, and why.
    #[track_caller]
    pub(crate) fn complaints(&self) -> Vec<(&str, &str)> {
        let said = self.malformed().iter().map(complaint).collect::<Option<_>>();
        said.unwrap_or_else(|| panic!("a complaint without key and why in {}", self.text()))
    }

    /// The keys of the entries, in order.
    #[track_caller]
    pub(crate) fn keys(&self) -> Vec<String> {
        let key = |entry: &Value| entry["key"].as_str().map(str::to_owned);
        let keys = self.entries().iter().map(key).collect::<Option<_>>();
        keys.unwrap_or_else(|| panic!("an entry without a key in {}", self.text()))
    }

    /// Where the next page begins, if there is one.
    #[track_caller]
    pub(crate) fn next(&self) -> Option<&str> {
        self.body()["next"].as_str()
    }

    #[track_caller]
    fn list(&self, field: &str) -> &[Value] {
        match self.body()[field].as_array() {
            Some(list) => list,
            None => panic!("no {field} in {}", self.text()),
        }
    }
}

fn complaint(said: &Value) -> Option<(&str, &str)> {
    Some((said["key"].as_str()?, said["why"].as_str()?))
}

/// What a client asks the seat.
pub(crate) trait AsksTheSeat {
    /// Asks the seat with a JSON object and waits for its answer, an error answer too.
    #[track_caller]
    fn ask(&self, body: &Value) -> Answer;

    /// Asks with whatever body.
    #[track_caller]
    fn ask_bytes(&self, body: impl AsRef<[u8]>) -> Answer;

    /// Asks a seat that may not be there.
    #[track_caller]
    fn try_ask(&self, body: impl AsRef<[u8]>) -> Result<Answer, Unanswered>;

    /// Asks now and leaves the waiting to the caller. A second answer would be in the inbox too.
    fn ask_later(&self, body: &Value) -> Inbox;

    /// Follows `next` to the end; gives every page. Panics at an error, and when pages never end.
    #[track_caller]
    fn ask_all(&self, body: &Value) -> Vec<Answer>;
}

impl AsksTheSeat for Client {
    #[track_caller]
    fn ask(&self, body: &Value) -> Answer {
        self.ask_bytes(body.to_string())
    }

    #[track_caller]
    fn ask_bytes(&self, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        match self.try_ask(body) {
            Ok(answer) => answer,
            Err(error) => panic!("asked {VERB} {}: {error}", String::from_utf8_lossy(body)),
        }
    }

    #[track_caller]
    fn try_ask(&self, body: impl AsRef<[u8]>) -> Result<Answer, Unanswered> {
        self.request(VERB, body, ANSWER_BOUND).map(|message| Answer::of(&message))
    }

    fn ask_later(&self, body: &Value) -> Inbox {
        self.request_later(VERB, &[], body.to_string())
    }

    #[track_caller]
    fn ask_all(&self, body: &Value) -> Vec<Answer> {
        const MOST_PAGES: usize = 100_000;
        let mut asked: Map<String, Value> = body.as_object().cloned().expect("an object to ask with");
        let mut pages: Vec<Answer> = Vec::new();
        while pages.len() < MOST_PAGES {
            let page = self.ask_bytes(Value::Object(asked.clone()).to_string()).good();
            let next = page.next().map(str::to_owned);
            pages.push(page);
            match next {
                Some(next) => asked.insert("after".to_owned(), Value::String(next)),
                None => return pages,
            };
        }
        panic!("{MOST_PAGES} pages of {body}, and no end")
    }
}

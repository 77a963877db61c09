//! What the seat says of itself, asked over the bus.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::verb::{Answer, VERB};
use super::wait;

/// An ask that went to a connection which broke is never answered, so none is waited for long.
const EACH: Duration = Duration::from_secs(1);

/// What a client sees of the seat's health.
pub(crate) trait SeesHealth {
    /// The seat's report on itself, with `ok` put beside its fields.
    fn try_health(&self) -> Result<Value, String>;

    /// Waits until the seat says of itself what `is_so` looks for, and gives the whole report.
    #[track_caller]
    fn wait_for_health(&self, awaited: &str, within: Duration, is_so: impl Fn(&Value) -> bool) -> Value;

    /// Waits until something that the seat says is missing holds these words.
    #[track_caller]
    fn wait_for_missing(&self, words: &str, within: Duration) -> Value;
}

impl SeesHealth for Client {
    fn try_health(&self) -> Result<Value, String> {
        let asked = json!({"what": "health"}).to_string();
        let answer = self.request(VERB, asked, EACH).map_err(|error| error.to_string())?;
        let answer = Answer::of(&answer);
        let body = answer.body();
        let mut health = body["health"].clone();
        match health.as_object_mut() {
            Some(fields) => fields.insert("ok".to_owned(), body["ok"].clone()),
            None => return Err(answer.text()),
        };
        Ok(health)
    }

    #[track_caller]
    fn wait_for_health(&self, awaited: &str, within: Duration, is_so: impl Fn(&Value) -> bool) -> Value {
        wait::until(awaited, within, || {
            let health = self.try_health()?;
            if is_so(&health) { Ok(health) } else { Err(health.to_string()) }
        })
    }

    #[track_caller]
    fn wait_for_missing(&self, words: &str, within: Duration) -> Value {
        self.wait_for_health(&format!("health to say that {words:?} is missing"), within, |health| {
            is_missing(health, words)
        })
    }
}

/// Whether the report says that something with these words is missing.
pub(crate) fn is_missing(health: &Value, words: &str) -> bool {
    let missing = health["missing"].as_array().into_iter().flatten();
    missing.filter_map(Value::as_str).any(|line| line.contains(words))
}

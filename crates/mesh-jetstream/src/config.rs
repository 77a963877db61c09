//! The settings of a stream, as far as they make it a bucket or none, and one that keeps what was written or does not.

use crate::bucket::Kv;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a stream's description says of its settings. What is left out is as if it were zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) max_msgs_per_subject: i64,
    subjects: Option<Vec<String>>,
    mirror: Option<IgnoredAny>,
    sources: Option<Vec<IgnoredAny>>,
    max_age: i64,
    max_msgs: i64,
    max_bytes: i64,
    discard: String,
}

impl Config {
    /// Why this is not a bucket that is written key by key; `None` if it is.
    pub(crate) fn fault(&self, bucket: Kv<'_>) -> Option<String> {
        let wanted = format!("{}>", bucket.subject_prefix());
        if self.mirror.is_some() {
            Some("it is a mirror of another stream".to_owned())
        } else if self.sources.as_ref().is_some_and(|sources| !sources.is_empty()) {
            Some("it takes messages from other streams (sources)".to_owned())
        } else {
            let subjects = self.subjects.as_ref().filter(|subjects| **subjects != [wanted.as_str()])?;
            Some(format!("it takes the subjects [{}], where a bucket has [{wanted}]", subjects.join(", ")))
        }
    }

    /// The settings by which it loses data.
    pub(crate) fn losses(&self) -> Vec<String> {
        let drops_old = self.discard != "new";
        [
            (self.max_age > 0).then(|| format!("max_age is {} s", self.max_age / 1_000_000_000)),
            (self.max_msgs > 0 && drops_old)
                .then(|| format!("max_msgs is {} and discard old", self.max_msgs)),
            (self.max_bytes > 0 && drops_old)
                .then(|| format!("max_bytes is {} and discard old", self.max_bytes)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> Config {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_stream_is_a_bucket_if_it_has_its_subjects_and_nothing_else_fills_it() {
        let fault = |json: &str| config(json).fault(Kv::new("b"));
        assert_eq!(fault(r#"{"subjects":["$KV.b.>"],"mirror":null,"sources":[]}"#), None);
        for (json, why) in [
            (r#"{"mirror":{"name":"KV_a"}}"#, "it is a mirror of another stream"),
            (
                r#"{"subjects":["$KV.b.>"],"sources":[{"name":"KV_a"}]}"#,
                "it takes messages from other streams (sources)",
            ),
            (
                r#"{"subjects":["$KV.b.>","x"]}"#,
                "it takes the subjects [$KV.b.>, x], where a bucket has [$KV.b.>]",
            ),
            (r#"{"subjects":["x"]}"#, "it takes the subjects [x], where a bucket has [$KV.b.>]"),
        ] {
            assert_eq!(fault(json).as_deref(), Some(why), "{json}");
        }
    }

    #[test]
    fn settings_that_lose_what_was_written_are_told() {
        let kept = r#"{"max_age":0,"max_msgs":-1,"max_bytes":1000,"discard":"new"}"#;
        assert_eq!(config(kept).losses(), [""; 0]);
        let lost = r#"{"max_age":4000000000,"max_msgs":10,"max_bytes":1000,"discard":"old"}"#;
        assert_eq!(
            config(lost).losses(),
            ["max_age is 4 s", "max_msgs is 10 and discard old", "max_bytes is 1000 and discard old"]
        );
    }
}

//! Writing one value by compare-and-set, as requests and what their answers mean. Nothing here waits.

use crate::store::sent::Sent;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_jetstream::message::Request;

/// How often a value is written again after another client wrote it meanwhile.
const MAX_CONFLICTS: u32 = 5;

/// One value on its way.
#[derive(Debug)]
pub struct Write {
    sent: Sent,
    expected: u64,
    conflicts: u32,
    reads: bool,
    foreign: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this, and hand in the body of the answer.
    Call(Request),
    /// The bus has it.
    Done {
        /// Its sequence in the bucket.
        revision: u64,
        /// Whether something else stood there that is not ours.
        foreign: bool,
    },
    /// It cannot be written: why.
    Failed(String),
}

impl Write {
    /// Begins with a value and its first request.
    pub fn begin(sent: Sent) -> (Write, Step) {
        let write = Write { expected: sent.revision, sent, conflicts: 0, reads: false, foreign: false };
        let step = write.put();
        (write, step)
    }

    /// The value.
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    fn kv(&self) -> Kv<'static> {
        Kv::new(self.sent.bucket.name())
    }

    fn put(&self) -> Step {
        Step::Call(match self.sent.value.as_deref().map(std::str::from_utf8) {
            Some(Ok(text)) => kv::put(self.kv(), &self.sent.key, text, self.expected),
            Some(Err(_)) => {
                return Step::Failed(format!("{} {} is not UTF-8", self.sent.bucket, self.sent.key));
            }
            None => kv::delete(self.kv(), &self.sent.key, self.expected),
        })
    }

    /// Takes the answer to the request before.
    pub fn on_reply(&mut self, body: &[u8]) -> Step {
        let place = format!("{} {}", self.sent.bucket, self.sent.key);
        if self.reads {
            self.reads = false;
            return match kv::parse_message(body) {
                Ok(found) => self.found(found.as_ref()),
                Err(error) => Step::Failed(format!("{place} cannot be read: {error}")),
            };
        }
        match kv::parse_write(self.kv(), body) {
            WriteAnswer::Stored(revision) => Step::Done { revision, foreign: self.foreign },
            WriteAnswer::Conflict if self.conflicts >= MAX_CONFLICTS => Step::Failed(format!(
                "{place}: another client keeps writing this key: find out who may write there"
            )),
            WriteAnswer::Conflict => {
                self.conflicts += 1;
                self.reads = true;
                Step::Call(kv::get(self.kv(), &self.sent.key))
            }
            WriteAnswer::Refused(error) => {
                Step::Failed(format!("{place} cannot be written: the bus refuses: {error}"))
            }
            WriteAnswer::Unknown(why) => Step::Failed(format!("{place}: {why}")),
        }
    }

    fn found(&mut self, found: Option<&kv::Message>) -> Step {
        let Some(found) = found else {
            self.expected = 0;
            return match self.sent.value {
                Some(_) => self.put(),
                // There is nothing to delete.
                None => Step::Done { revision: 0, foreign: false },
            };
        };
        let is_there = match &self.sent.value {
            Some(value) => !found.deleted && found.value == *value,
            None => found.deleted,
        };
        if is_there {
            return Step::Done { revision: found.sequence, foreign: self.foreign };
        }
        self.foreign = self.foreign || !found.deleted;
        self.expected = found.sequence;
        self.put()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sent::Bucket;

    fn value(value: Option<&str>, revision: u64) -> Sent {
        Sent {
            bucket: Bucket::Settings,
            key: "attic.web".into(),
            node: "attic".into(),
            module: "web".into(),
            value: value.map(|text| text.as_bytes().to_vec()),
            sequence: 1,
            fence: 1,
            done: false,
            revision,
            at: 0,
        }
    }

    const CONFLICT: &[u8] = br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}"#;

    fn stored(sequence: u64) -> Vec<u8> {
        format!(r#"{{"stream":"KV_mesh-controller_settings","seq":{sequence}}}"#).into_bytes()
    }

    fn message(sequence: u64, text: &str) -> Vec<u8> {
        let data = data_encoding::BASE64.encode(text.as_bytes());
        format!(
            r#"{{"message":{{"subject":"$KV.mesh-controller_settings.attic.web","seq":{sequence},"data":"{data}","time":"t"}}}}"#
        )
        .into_bytes()
    }

    fn expected(step: &Step) -> String {
        let Step::Call(request) = step else { panic!("{step:?}") };
        request
            .headers
            .iter()
            .find(|(name, _)| name.ends_with("Subject-Sequence"))
            .map_or("-".into(), |(_, value)| value.clone())
    }

    #[test]
    fn b08_what_somebody_else_wrote_is_told_and_replaced() {
        let (mut write, step) = Write::begin(value(Some("{}"), 4));
        assert_eq!(expected(&step), "4");
        assert!(
            matches!(write.on_reply(CONFLICT), Step::Call(request) if request.subject.starts_with("$JS.API.STREAM.MSG.GET"))
        );
        assert_eq!(expected(&write.on_reply(&message(9, "junk"))), "9");
        assert_eq!(write.on_reply(&stored(10)), Step::Done { revision: 10, foreign: true });
    }

    #[test]
    fn a_value_that_is_there_after_all_is_done() {
        let (mut write, _) = Write::begin(value(Some("{}"), 0));
        write.on_reply(CONFLICT);
        assert_eq!(write.on_reply(&message(9, "{}")), Step::Done { revision: 9, foreign: false });
        let (mut write, _) = Write::begin(value(None, 3));
        write.on_reply(CONFLICT);
        let none = br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        assert_eq!(write.on_reply(none), Step::Done { revision: 0, foreign: false });
    }

    #[test]
    fn a_fight_ends() {
        let (mut write, mut step) = Write::begin(value(Some("{}"), 0));
        let mut rounds = 0;
        while !matches!(step, Step::Failed(_)) {
            step = write.on_reply(CONFLICT);
            if matches!(step, Step::Call(_)) {
                step = write.on_reply(&message(rounds + 9, "junk"));
            }
            rounds += 1;
            assert!(rounds < 20);
        }
    }
}

//! What removed nodes had written of themselves is deleted from the bus: one node, one key at a time.
//!
//! A node is let in no more by then, so nobody writes there. Each key is deleted over the message that was read: what a
//! node that comes back under the name has written meanwhile stays.

use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, Message, WriteAnswer};
use mesh_jetstream::message::Outgoing;
use mesh_model::name;
use std::collections::BTreeSet;
use std::time::Duration;

/// The buckets that nodes write, and whether the node's keys have more tokens than its own.
const BUCKETS: [(&str, bool); 4] = [
    ("mesh-provisioner_needs", true),
    ("mesh-provisioner_applied", true),
    ("mesh-provisioner_collect", true),
    ("mesh-controller_reports", false),
];

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// When it is tried again after a failure.
const AGAIN: Duration = Duration::from_secs(30);

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// To be sent, with a reply subject; its call is told with [`Cleaning::asked`].
    Send(Outgoing),
    /// Nothing of that node is left.
    Done(String),
}

#[derive(Debug)]
struct At {
    node: String,
    /// The place of the bucket that is being looked at.
    bucket: usize,
    /// The sequence from which on it is looked for the next key.
    from: u64,
    /// What was asked: the sequence that is being deleted, or the next message.
    deletes: Option<u64>,
    call: Option<u64>,
    until: Duration,
}

/// The nodes that are to be cleaned up after.
#[derive(Debug, Default)]
pub struct Cleaning {
    leaving: BTreeSet<String>,
    at: Option<At>,
    again: Duration,
    /// How many keys were deleted since the start.
    pub deleted: u64,
}

impl Cleaning {
    /// These are the nodes from now on. One that is no longer among them came back, or is done.
    pub fn want(&mut self, leaving: BTreeSet<String>) {
        if self.at.as_ref().is_some_and(|at| !leaving.contains(&at.node)) {
            self.at = None;
        }
        if leaving != self.leaving {
            self.again = Duration::ZERO;
        }
        self.leaving = leaving;
    }

    /// The connection is gone.
    pub fn down(&mut self) {
        self.at = None;
    }

    /// What is to be done now: the server has given the rights for it by then.
    pub fn next(&mut self, now: Duration) -> Option<Step> {
        if self.at.is_none() && self.again <= now {
            let node = self.leaving.first()?.clone();
            self.at = Some(At { node, bucket: 0, from: 1, deletes: None, call: None, until: now });
        }
        let at = self.at.as_mut()?;
        if at.call.is_some() {
            return None;
        }
        let Some((bucket, _)) = BUCKETS.get(at.bucket) else {
            // Until the store has written that down, and tells it by `want`.
            self.again = now + AGAIN;
            return self.at.take().map(|at| Step::Done(at.node));
        };
        at.until = now + PATIENCE;
        let request = kv::next_of(Kv::new(bucket), &keys(&at.node, at.bucket), at.from);
        Some(Step::Send(request.into()))
    }

    /// What was to be sent has this call's number.
    pub fn asked(&mut self, call: u64) {
        if let Some(at) = &mut self.at {
            at.call = Some(call);
        }
    }

    /// Whether an answer to that call is for [`Cleaning::answered`].
    pub fn awaits(&self, call: u64) -> bool {
        self.at.as_ref().is_some_and(|at| at.call == Some(call))
    }

    /// The answer: what follows from it, or what went wrong.
    pub fn answered(
        &mut self,
        no_responders: bool,
        body: &[u8],
        now: Duration,
    ) -> Result<Option<Step>, String> {
        let Some(at) = &mut self.at else { return Ok(None) };
        at.call = None;
        let bucket = Kv::new(BUCKETS[at.bucket].0);
        if no_responders {
            return Err(self.fail("there is no JetStream", now));
        }
        if let Some(sequence) = at.deletes.take() {
            match kv::parse_write(bucket, body) {
                WriteAnswer::Stored(_) => self.deleted += 1,
                // Somebody else wrote there: that is looked at next.
                WriteAnswer::Conflict => {}
                WriteAnswer::Refused(why) => return Err(self.fail(&why.to_string(), now)),
                WriteAnswer::Unknown(why) => return Err(self.fail(&why, now)),
            }
            at.from = sequence + 1;
            return Ok(None);
        }
        match kv::parse_message(body) {
            Ok(None) => (at.bucket, at.from) = (at.bucket + 1, 1),
            // There is nothing where nobody ever made the bucket.
            Err(error) if error.err_code() == Some(ApiError::NO_STREAM) => {
                (at.bucket, at.from) = (at.bucket + 1, 1);
            }
            Err(error) => return Err(self.fail(&error.to_string(), now)),
            Ok(Some(Message { sequence, deleted: true, .. })) => at.from = sequence + 1,
            Ok(Some(Message { subject, sequence, .. })) => {
                let own = format!("{}{}", bucket.subject_prefix(), name::encode(&at.node));
                let is_own =
                    subject.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                let key = subject.strip_prefix(&bucket.subject_prefix()).filter(|_| is_own);
                let Some(key) = key else {
                    return Err(self.fail("the answer has another key", now));
                };
                at.deletes = Some(sequence);
                at.until = now + PATIENCE;
                return Ok(Some(Step::Send(kv::delete(bucket, key, sequence).into())));
            }
        }
        Ok(None)
    }

    /// Gives up an answer that does not come. Gives the words for the log.
    pub fn due(&mut self, now: Duration) -> Option<String> {
        let is_late = self.at.as_ref().is_some_and(|at| at.call.is_some() && at.until <= now);
        is_late.then(|| self.fail("no answer: the right may be missing", now))
    }

    /// When it has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        match &self.at {
            Some(at) if at.call.is_some() => Some(at.until),
            Some(_) => None,
            None => self.leaving.first().map(|_| self.again),
        }
    }

    fn fail(&mut self, why: &str, now: Duration) -> String {
        self.again = now + AGAIN;
        let Some(at) = self.at.take() else { return why.to_owned() };
        let bucket = BUCKETS.get(at.bucket).map_or("", |(bucket, _)| bucket);
        format!("the keys of the removed node {} in {bucket} are not deleted yet: {why}", at.node)
    }
}

/// The keys of a node in a bucket, as a filter.
fn keys(node: &str, bucket: usize) -> String {
    let token = name::encode(node);
    if BUCKETS[bucket].1 { format!("{token}.>") } else { token }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::BASE64;

    /// Buckets with keys, as the server answers of them.
    struct Bus(Vec<(String, u64, bool)>);

    impl Bus {
        fn answer(&mut self, message: &Outgoing) -> Vec<u8> {
            if let Some(at) = self.0.iter().position(|(subject, ..)| *subject == message.subject) {
                let next = self.0.iter().map(|(_, sequence, _)| *sequence).max().unwrap() + 1;
                let expected = &message.headers[1].1;
                if *expected != self.0[at].1.to_string() {
                    return br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}"#
                        .to_vec();
                }
                self.0[at] = (message.subject.clone(), next, true);
                let stream = message.subject.split('.').nth(1).unwrap();
                return format!(r#"{{"stream":"KV_{stream}","seq":{next}}}"#).into_bytes();
            }
            let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
            let (from, filter) = (body["seq"].as_u64().unwrap(), body["next_by_subj"].as_str().unwrap());
            let fits = |subject: &str| match filter.strip_suffix('>') {
                Some(prefix) => subject.starts_with(prefix),
                None => subject == filter,
            };
            let found = self.0.iter().filter(|(subject, sequence, _)| *sequence >= from && fits(subject));
            match found.min_by_key(|(_, sequence, _)| *sequence) {
                None => {
                    br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#.to_vec()
                }
                Some((subject, sequence, deleted)) => {
                    let headers = if *deleted { "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n" } else { "" };
                    let headers = BASE64.encode(headers.as_bytes());
                    format!(
                        r#"{{"message":{{"subject":"{subject}","seq":{sequence},"hdrs":"{headers}","data":"","time":"t"}}}}"#
                    )
                    .into_bytes()
                }
            }
        }
    }

    fn run(cleaning: &mut Cleaning, bus: &mut Bus) -> Vec<String> {
        let (mut done, mut call) = (Vec::new(), 0);
        let mut step = cleaning.next(Duration::ZERO);
        while let Some(now) = step.take() {
            match now {
                Step::Done(node) => done.push(node),
                Step::Send(message) => {
                    call += 1;
                    cleaning.asked(call);
                    assert!(
                        cleaning.awaits(call) && cleaning.next(Duration::ZERO).is_none(),
                        "one at a time"
                    );
                    step = cleaning.answered(false, &bus.answer(&message), Duration::ZERO).unwrap();
                }
            }
            step = step.or_else(|| cleaning.next(Duration::ZERO));
        }
        done
    }

    fn set(nodes: &[&str]) -> BTreeSet<String> {
        nodes.iter().map(|node| (*node).to_owned()).collect()
    }

    #[test]
    fn all_keys_of_the_removed_go_and_no_others() {
        let key = |key: &str, sequence: u64| (format!("$KV.{key}"), sequence, false);
        let mut bus = Bus(vec![
            key("mesh-provisioner_needs.attic.web.port.http", 1),
            key("mesh-provisioner_needs.attic.web.config.x", 2),
            key("mesh-provisioner_needs.attic2.web.config.x", 3),
            key("mesh-provisioner_applied.attic.web", 4),
            key("mesh-provisioner_collect.cellar.shell=3Azsh.web", 5),
            key("mesh-controller_reports.attic", 6),
            key("mesh-controller_reports.cellar", 7),
            key("mesh-controller_reports.attic2", 8),
        ]);
        let mut cleaning = Cleaning::default();
        cleaning.want(set(&["attic", "cellar"]));
        assert_eq!(run(&mut cleaning, &mut bus), ["attic"]);
        cleaning.want(set(&["cellar"]));
        assert_eq!(run(&mut cleaning, &mut bus), ["cellar"]);
        cleaning.want(set(&[]));
        let left: Vec<&str> =
            bus.0.iter().filter(|(.., deleted)| !deleted).map(|(subject, ..)| subject.as_str()).collect();
        assert_eq!(
            left,
            ["$KV.mesh-provisioner_needs.attic2.web.config.x", "$KV.mesh-controller_reports.attic2"]
        );
        assert_eq!((cleaning.deleted, cleaning.next_deadline()), (6, None));
    }

    #[test]
    fn j09_a_late_leave_takes_nothing_of_the_node_that_came_back() {
        let mut bus = Bus(vec![("$KV.mesh-provisioner_applied.attic.web".to_owned(), 4, false)]);
        let mut cleaning = Cleaning::default();
        cleaning.want(set(&["attic"]));
        let send = |cleaning: &mut Cleaning, bus: &mut Bus, step: Step, change: bool| {
            let Step::Send(message) = step else { panic!("{step:?}") };
            if change {
                bus.0[0].1 = 9;
            }
            cleaning.asked(1);
            cleaning.answered(false, &bus.answer(&message), Duration::ZERO).unwrap()
        };
        let first = cleaning.next(Duration::ZERO).unwrap();
        assert!(send(&mut cleaning, &mut bus, first, false).is_none(), "no needs");
        let second = cleaning.next(Duration::ZERO).unwrap();
        let deletes = send(&mut cleaning, &mut bus, second, false).expect("a deletion");
        // The node has come back and writes, before the deletion of what its former self wrote is there.
        assert!(send(&mut cleaning, &mut bus, deletes, true).is_none());
        assert!(!bus.0[0].2, "what it wrote is left");
        // It is a node again: nothing of it is to go.
        cleaning.want(set(&[]));
        assert!(cleaning.next(Duration::ZERO).is_none() && cleaning.next_deadline().is_none());
    }

    #[test]
    fn an_answer_that_does_not_come_is_said_and_asked_for_again() {
        let mut cleaning = Cleaning::default();
        cleaning.want(set(&["attic"]));
        assert!(cleaning.next(Duration::ZERO).is_some());
        cleaning.asked(1);
        assert_eq!(cleaning.due(PATIENCE / 2), None);
        let words = cleaning.due(PATIENCE).unwrap();
        assert!(words.contains("removed node attic in mesh-provisioner_needs"), "{words}");
        assert!(cleaning.next(PATIENCE).is_none());
        assert_eq!(cleaning.next_deadline(), Some(PATIENCE + AGAIN));
        assert!(cleaning.next(PATIENCE + AGAIN).is_some());
    }
}

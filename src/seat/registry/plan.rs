//! The changes that make a bucket the registry: computed here, written by the pass, shown by the command `plan`.
//! Nothing is computed before the bucket was read completely.

use crate::seat::call::{Budget, Call, Tag};
use crate::seat::read::bucket_reader::{BucketReader, Step};
use crate::seat::read::found::Found;
use mesh_jetstream::kv;
use mesh_jetstream::message::Request;
use mesh_jetstream::stream_info::State;
use mesh_model::name;
use mesh_model::registry::{self, Entry};
use mesh_provisioner_api::failure::Cause;

/// How much of a stored value is shown, in bytes.
const SHOWN_BYTES: usize = 400;

/// All changes: stored keys in the order of the list, then missing kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The keys to correct.
    pub changes: Vec<Change>,
    /// Keys that are not kinds and cannot be deleted, because their name cannot be used in a call or is too long for
    /// a protocol line.
    pub unnameable: Vec<String>,
}

/// A key to correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The new value; `None` to delete the key.
    pub entry: Option<&'static Entry<'static>>,
    /// The stored value.
    pub old: Option<Vec<u8>>,
    /// The sequence that the key's newest message must still have.
    pub expected: u64,
}

/// Reads the registry bucket and computes the plan.
#[derive(Debug)]
pub struct Planning {
    reader: BucketReader,
    stored: Vec<(String, Found)>,
}

impl Planning {
    /// Starts to read.
    #[expect(clippy::new_without_default, reason = "starting is a step, not a value")]
    pub fn new() -> Self {
        Planning { reader: BucketReader::of_registry(None, None), stored: Vec::new() }
    }

    /// The next call and the tag of its reply, if there is one to send now.
    pub fn request(&mut self) -> Option<(Tag, Request)> {
        self.next_call(Budget { listing: true, batch: false, large_bytes: usize::MAX })
            .map(|want| (want.tag, want.request))
    }

    /// The state of the bucket that was read, once its keys were listed.
    pub(in crate::seat) fn state(&self) -> Option<State> {
        self.reader.state().cloned()
    }

    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        self.reader.next_call(budget)
    }

    /// Handles the reply for `tag`; returns the plan once the bucket was read completely. An error ends it: an
    /// incomplete read is never a plan.
    pub fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) -> Result<Option<Plan>, Cause> {
        self.reader.on_reply(tag, body)?;
        loop {
            match self.reader.poll() {
                Step::Waiting => return Ok(None),
                Step::Listed => self.reader.pick(usize::MAX, |_| true),
                Step::Cached | Step::Entry(..) | Step::Told => {}
                Step::Key(key, found) => self.stored.push((key, found)),
                Step::End => return Ok(Some(decide(std::mem::take(&mut self.stored)))),
            }
        }
    }
}

/// The changes that make `stored` the registry.
fn decide(stored: Vec<(String, Found)>) -> Plan {
    let mut plan = Plan::default();
    let mut there = Vec::new();
    for (key, found) in stored {
        let entry = registry::ENTRIES.iter().find(|entry| name::encode(entry.kind) == key);
        let (old, expected) = match found {
            Found::Message(_) if !kv::can_be_written(&key) => {
                plan.unnameable.push(key);
                continue;
            }
            Found::Message(message) => {
                if entry.is_some_and(|entry| entry.says_the_same_as(&message.value)) {
                    there.push(key);
                    continue;
                }
                (Some(message.value), message.sequence)
            }
            // A deletion marker of a key that is not a kind is correct.
            Found::Gone { .. } if entry.is_none() => continue,
            Found::Gone { marker } => (None, marker.map_or(0, |marker| marker.sequence)),
            Found::Unnameable => {
                plan.unnameable.push(key);
                continue;
            }
        };
        there.push(key.clone());
        plan.changes.push(Change { key, entry, old, expected });
    }
    for entry in &registry::ENTRIES {
        let key = name::encode(entry.kind);
        if !there.contains(&key) {
            plan.changes.push(Change { key, entry: Some(entry), old: None, expected: 0 });
        }
    }
    plan
}

/// The report of a key that cannot be deleted.
pub fn unnameable(key: &str) -> String {
    format!(
        "registry: the key {key:?} is not a kind and cannot be deleted by name: purge it as an administrator"
    )
}

/// A stored value as text for people.
pub fn show(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some([]) => "an empty value".to_owned(),
        Some(value) => {
            let shown = String::from_utf8_lossy(&value[..value.len().min(SHOWN_BYTES)]);
            let rest = value.len().saturating_sub(SHOWN_BYTES);
            if rest == 0 { shown.into_owned() } else { format!("{shown}… ({rest} bytes more)") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_jetstream::kv::Message;

    fn message(key: &str, sequence: u64, value: &str) -> (String, Found) {
        (key.to_owned(), stored(key, sequence, value, false).into())
    }

    fn gone(key: &str, sequence: u64) -> (String, Found) {
        (key.to_owned(), stored(key, sequence, "", true).into())
    }

    fn stored(key: &str, sequence: u64, value: &str, deleted: bool) -> Message {
        Message {
            subject: format!("$KV.mesh-provisioner_registry.{key}"),
            sequence,
            at: "2026-11-29T13:26:00Z".to_owned(),
            deleted,
            header_fault: None,
            value: value.as_bytes().to_vec(),
        }
    }

    fn whole() -> Vec<(String, Found)> {
        registry::ENTRIES.iter().map(|entry| message(entry.kind, 7, &entry.to_json())).collect()
    }

    #[test]
    fn an_empty_bucket_wants_every_kind_and_a_whole_one_wants_nothing() {
        let plan = decide(Vec::new());
        let wanted: Vec<&str> = plan.changes.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(wanted, registry::ENTRIES.map(|entry| entry.kind));
        assert!(plan.changes.iter().all(|change| change.expected == 0 && change.old.is_none()));
        assert_eq!(decide(whole()), Plan::default());
    }

    #[test]
    fn each_key_has_its_own_change() {
        let mut stored = whole();
        stored[0] = message("config", 21, "{}");
        stored[1] = gone("secret", 22);
        stored.push(message("licence", 23, "[1]"));
        stored.push(gone("gone", 24));
        stored.push(("\u{fffd}".to_owned(), Found::Unnameable));
        let long = "x".repeat(4000);
        stored.push(message(&long, 25, "[2]"));
        let plan = decide(stored);
        assert_eq!(plan.unnameable, ["\u{fffd}", &long]);
        let changes = plan.changes.iter().map(|change| {
            (
                change.key.as_str(),
                change.entry.map(|entry| entry.kind),
                change.old.as_deref(),
                change.expected,
            )
        });
        assert_eq!(
            changes.collect::<Vec<_>>(),
            [
                ("config", Some("config"), Some(&b"{}"[..]), 21),
                ("secret", Some("secret"), None, 22),
                ("licence", None, Some(&b"[1]"[..]), 23),
            ]
        );
    }

    #[test]
    fn a_reading_that_breaks_off_is_no_plan() {
        let mut planning = Planning::new();
        let (tag, _) = planning.request().unwrap();
        let listed =
            br#"{"total":1,"state":{"last_seq":1,"subjects":{"$KV.mesh-provisioner_registry.port":1}}}"#;
        assert_eq!(planning.on_reply(tag, Ok(listed)), Ok(None));
        let (tag, _) = planning.request().unwrap();
        assert_eq!(planning.request(), None);
        assert_eq!(planning.on_reply(tag, Err(Cause::Silent)), Err(Cause::Silent));
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(show(None), "nothing");
        assert_eq!(show(Some(b"")), "an empty value");
        assert_eq!(show(Some(b"{}")), "{}");
        let shown = show(Some(&[b'x'; 500]));
        assert!(shown.ends_with("x… (100 bytes more)"), "{shown}");
    }
}

//! What the host says of an apply: a line for each outcome, and the report (PROTOCOL.md, "Reports").
//!
//! Reading is lenient: a newer host may say more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::json::Json;
use crate::resource::{Kind, words};

/// The largest report in a bucket, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// How many failures a report in a bucket has in full.
pub const MAX_FAILURES: usize = 20;
/// How many bytes the text of each has.
pub const MAX_FAILURE_BYTES: usize = 2 * 1024;

words!(
    /// What became of a resource.
    Word, "word for an outcome" {
        /// It was not there and is now.
        Created = "created",
        /// It was there in another form.
        Updated = "updated",
        /// It had been changed on the machine, and was put back.
        Corrected = "corrected",
        /// It was as declared.
        Unchanged = "unchanged",
        /// It was left as it is: a create-once file that is there, a directory with content, a file changed by hand.
        Kept = "kept",
        /// What was found is left as found, until its module is taken.
        Held = "held",
        /// It is no longer declared, and what the host made is undone.
        Removed = "removed",
        /// Its record is dropped, and nothing on the machine is touched.
        Forgotten = "forgotten",
        /// A value of its module is missing.
        Waiting = "waiting",
        /// It could not be done.
        Failed = "failed",
        /// The machine gave no answer, so nothing was concluded.
        NotAnswered = "not-answered",
        /// A gate of its module closed before it.
        NotAttempted = "not-attempted",
        /// It has no meaning below another root.
        Skipped = "skipped",
    }
);

words!(
    /// How a module stands after an apply.
    ModuleState, "state of a module" {
        /// Everything is as declared.
        Applied = "applied",
        /// Something failed.
        Failed = "failed",
        /// An action or a run-once container failed, and what follows it was not attempted.
        Gated = "gated",
        /// Something is missing; what runs stays.
        Waiting = "waiting",
        /// It cannot be applied as it is.
        Refused = "refused",
    }
);

/// What became of one resource. `from` and `to` are digests, modes, states or owners, never content.
///
/// ```
/// use mesh_model::report::{Outcome, Word};
/// let text = r#"{"module":"web","id":"web.site","type":"file","target":"/a","word":"updated","from":"0644","to":"0600","ms":2}"#;
/// let outcome: Outcome = serde_json::from_str(text).unwrap();
/// assert_eq!(outcome.word, Word::Updated);
/// assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The module, or the bundle.
    pub module: String,
    /// The resource's id.
    pub id: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// What it acts on.
    pub target: String,
    /// What became of it.
    pub word: Word,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// More for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What was asked to read it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// How one module stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleReport {
    /// How it stands.
    pub state: ModuleState,
    /// Why, where it is not applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The digest of the assignment that this is about.
    pub assignment: Digest,
    /// How many resources it has.
    pub resources: u64,
    /// How many of them moved.
    pub changed: u64,
}

/// What the machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The architecture, such as `x86_64`.
    #[serde(default)]
    pub arch: String,
    /// The service manager and its version, such as `systemd 252`.
    #[serde(default)]
    pub service_manager: Option<String>,
    /// The container runtime and its version, such as `podman 4.3.1`.
    #[serde(default)]
    pub runtime: Option<String>,
    /// The package manager, such as `apt`.
    #[serde(default)]
    pub package_manager: Option<String>,
    /// The firewall that was found: `nftables`, `ufw` or `firewalld`.
    #[serde(default)]
    pub firewall: Option<String>,
    /// The ports that declared containers bind on the machine.
    #[serde(default)]
    pub ports_held: Vec<HeldPort>,
    /// The first and the last port that the machine gives to outgoing connections.
    #[serde(default)]
    pub ephemeral: Option<(u16, u16)>,
}

/// A port that a resource holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeldPort {
    /// The port.
    pub port: u16,
    /// The id of the resource.
    pub id: String,
}

/// How a scheduled resource stands. Times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleReport {
    /// The resource's id.
    pub id: String,
    /// When it runs next.
    #[serde(default)]
    pub next: Option<String>,
    /// When it ran last.
    #[serde(default)]
    pub last: Option<String>,
    /// Whether that run was well.
    #[serde(default)]
    pub well: Option<bool>,
    /// How many runs were skipped, since one was still under way.
    #[serde(default)]
    pub skipped: u64,
}

/// What the host says of an apply as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this form.
    pub v: u32,
    /// The sequence of the declaration.
    pub sequence: u64,
    /// Its fence.
    pub fence: u64,
    /// Whether anything moved.
    pub changed: bool,
    /// Whether a gate closed.
    pub gated: bool,
    /// How many resources had which outcome.
    pub totals: BTreeMap<Word, u64>,
    /// Each module.
    pub modules: BTreeMap<String, ModuleReport>,
    /// The first outcome that failed.
    pub first_failure: Option<Outcome>,
    /// The outcomes in the order in which they were done; in a bucket the failures alone.
    pub outcomes: Vec<Outcome>,
    /// What the machine is.
    #[serde(default)]
    pub facts: Facts,
    /// Its schedules.
    #[serde(default)]
    pub schedules: Vec<ScheduleReport>,
}

impl Report {
    /// An empty report of that declaration.
    pub fn new(sequence: u64, fence: u64) -> Report {
        Report {
            v: 1,
            sequence,
            fence,
            changed: false,
            gated: false,
            totals: BTreeMap::new(),
            modules: BTreeMap::new(),
            first_failure: None,
            outcomes: Vec::new(),
            facts: Facts::default(),
            schedules: Vec::new(),
        }
    }

    /// Reads a report. Numbers that a bucket cannot hold are not a report.
    pub fn parse(bytes: &[u8]) -> Result<Report, String> {
        let report: Report = serde_json::from_slice(bytes).map_err(|error| format!("no report: {error}"))?;
        match report.v {
            1 => Ok(report),
            other => Err(format!("a report of version {other}, and only 1 is known here")),
        }
    }

    /// The report as it goes into the bucket: at most [`MAX_FAILURES`] failures in full, each text at most
    /// [`MAX_FAILURE_BYTES`], everything else in numbers.
    #[must_use]
    pub fn for_the_bus(&self) -> Report {
        let mut report = self.clone();
        report.outcomes.retain(|outcome| outcome.word == Word::Failed);
        report.outcomes.truncate(MAX_FAILURES);
        for outcome in report.outcomes.iter_mut().chain(&mut report.first_failure) {
            shorten(&mut outcome.cause);
            shorten(&mut outcome.detail);
        }
        report
    }
}

/// Cuts a text to [`MAX_FAILURE_BYTES`], at a character, and says so with an ellipsis.
fn shorten(text: &mut String) {
    if text.len() > MAX_FAILURE_BYTES {
        let end = (0..=MAX_FAILURE_BYTES - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
}

/// What the host answers when nothing was to be done: `{"same":true}`; or the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// Equal to what was applied last, without a failure.
    Same,
    /// The report.
    Report(Box<Report>),
}

impl Serialize for Reported {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reported::Same => Json::Object(vec![("same".into(), Json::Bool(true))]).serialize(serializer),
            Reported::Report(report) => report.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Reported {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        if json.get("same") == Some(&Json::Bool(true)) {
            return Ok(Reported::Same);
        }
        let report = Report::parse(json.to_string().as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Reported::Report(Box::new(report)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(word: Word) -> Outcome {
        Outcome {
            module: "web".into(),
            id: "web.a".into(),
            kind: Kind::File,
            target: "/a".into(),
            word,
            cause: String::new(),
            detail: String::new(),
            from: None,
            to: None,
            asked: None,
            ms: 0,
        }
    }

    fn report() -> Report {
        let mut report = Report::new(17, 3);
        report.totals.insert(Word::NotAnswered, 2);
        let module = ModuleReport {
            state: ModuleState::Failed,
            why: "web.a failed".into(),
            assignment: Digest::of(b"x"),
            resources: 5,
            changed: 1,
        };
        report.modules.insert("web".into(), module);
        report.outcomes = vec![outcome(Word::Created), outcome(Word::Failed)];
        report.first_failure = Some(outcome(Word::Failed));
        report.facts.ports_held.push(HeldPort { port: 80, id: "web.a".into() });
        report.facts.ephemeral = Some((32768, 60999));
        report
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let text = serde_json::to_string(&report()).unwrap();
        assert!(text.starts_with(r#"{"v":1,"sequence":17,"fence":3,"changed":false,"gated":false,"totals":{"not-answered":2},"modules":{"web":{"state":"failed","why":"web.a failed","assignment":"sha256:"#), "{text}");
        assert_eq!(Report::parse(text.as_bytes()).unwrap(), report());
        let newer = text.replacen('{', r#"{"weather":"fine","#, 1);
        assert_eq!(Report::parse(newer.as_bytes()).unwrap(), report(), "a newer host may say more");
        assert!(Report::parse(text.replacen("\"v\":1", "\"v\":2", 1).as_bytes()).is_err());
        assert!(Report::parse(b"{}").is_err());
    }

    #[test]
    fn the_bus_gets_the_failures_alone_and_each_is_bounded() {
        let mut report = report();
        report.outcomes.extend((0..50).map(|_| Outcome { cause: "é".repeat(3000), ..outcome(Word::Failed) }));
        report.first_failure = Some(Outcome { detail: "x".repeat(5000), ..outcome(Word::Failed) });
        let short = report.for_the_bus();
        assert_eq!(short.outcomes.len(), MAX_FAILURES);
        assert!(short.outcomes.iter().all(|outcome| outcome.word == Word::Failed));
        assert!(
            short.outcomes[5].cause.len() <= MAX_FAILURE_BYTES && short.outcomes[5].cause.ends_with("é…")
        );
        assert_eq!(short.first_failure.as_ref().unwrap().detail.len(), MAX_FAILURE_BYTES);
        assert!(serde_json::to_vec(&short).unwrap().len() < MAX_BYTES);
    }

    #[test]
    fn same_is_told_from_a_report() {
        let same: Reported = serde_json::from_str(r#"{"same":true}"#).unwrap();
        assert_eq!(same, Reported::Same);
        assert_eq!(serde_json::to_string(&same).unwrap(), r#"{"same":true}"#);
        let whole = Reported::Report(Box::new(report()));
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Reported>(&text).unwrap(), whole);
    }
}

//! What is wrong, what is quiet, what is out of date: four words for each node, none of which implies the next.
//!
//! *Sent*: the bus has its newest declaration. *Taken*: its machine reported that sequence. *Applied*: each of its modules
//! stands as that declaration says. *Well*: its machine's last report has no failure. Silence is none of these: it is said
//! with its age, and nothing is concluded from it. No clock and no store here.

use crate::standing::{Outstanding, Reports};
use crate::store::Moment;
use crate::store::sent::{Bucket, Sent};
use data_encoding::BASE64;
use mesh_model::digest::Digest;
use mesh_model::report::{ModuleState, Report};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A node whose report is older is quiet: a report is written again every ten minutes.
pub const QUIET_MILLIS: Moment = 30 * 60 * 1000;

/// One of the four words, and since when it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Whether it holds; `None` if that is not known.
    pub holds: Option<bool>,
    /// When that was written or arrived, in milliseconds since 1970.
    pub at: Option<Moment>,
    /// The sequence that it is about.
    pub sequence: Option<u64>,
}

/// How one module stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModuleStatus {
    /// The module.
    pub module: String,
    /// The state as the machine reported it: `applied`, `failed`, `gated`, `waiting`, `refused`; `unknown` where it said
    /// nothing of this assignment yet.
    pub state: String,
    /// Why, in the machine's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// How one node stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// The node.
    pub node: String,
    /// The bus has its newest declaration.
    pub sent: Word,
    /// Its machine has it.
    pub taken: Word,
    /// Its machine is as it says.
    pub applied: Word,
    /// Nothing failed there.
    pub well: Word,
    /// Since when nothing has arrived, once that is long.
    pub quiet_since: Option<Moment>,
    /// Its modules.
    pub modules: Vec<ModuleStatus>,
    /// What is wrong or out of date, in words.
    pub wrong: Vec<String>,
}

/// How the mesh stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Every node.
    pub nodes: Vec<NodeStatus>,
}

/// What the status is made of.
#[derive(Debug)]
pub struct Known<'a> {
    /// What is still to be sent, by node: the nodes that are told of.
    pub outstanding: &'a BTreeMap<String, Outstanding>,
    /// The declarations that were sent.
    pub declarations: &'a [Sent],
    /// How many values of a node are not on the bus yet.
    pub undone: &'a BTreeMap<String, usize>,
    /// The newest reports.
    pub reports: &'a Reports,
    /// The nodes that have joined.
    pub joined: &'a BTreeSet<String>,
    /// The time.
    pub now: Moment,
}

/// How the mesh stands.
pub fn status(known: &Known<'_>) -> Status {
    let rows: BTreeMap<&str, &Sent> = known
        .declarations
        .iter()
        .filter(|row| row.bucket == Bucket::Declarations)
        .map(|row| (row.node.as_str(), row))
        .collect();
    let nodes: Vec<NodeStatus> = known
        .outstanding
        .iter()
        .map(|(node, outstanding)| of_node(node, outstanding, rows.get(node.as_str()).copied(), known))
        .collect();
    Status { ok: nodes.iter().all(|node| node.wrong.is_empty()), nodes }
}

fn of_node(node: &str, outstanding: &Outstanding, row: Option<&Sent>, known: &Known<'_>) -> NodeStatus {
    let mut wrong = Vec::new();
    let joined = known.joined.contains(node);
    if !joined {
        wrong.push("has not joined".to_owned());
    }
    wrong.extend(outstanding.problems.iter().cloned());
    if outstanding.lines > 0 {
        wrong.push(format!("{} changes are not sent: see plan", outstanding.lines));
    }
    let declaration = row.and_then(|row| Declared::in_envelope(row.value.as_deref()?));
    let undone = known.undone.get(node).copied().unwrap_or(0);
    if undone > 0 {
        wrong.push(format!("{undone} values are written down and not on the bus yet"));
    }
    let sent = Word {
        holds: row.map(|_| undone == 0),
        at: row.map(|row| row.at),
        sequence: declaration.as_ref().map(|declaration| declaration.sequence),
    };
    let (heard, report) = known.reports.get(node).map(|(heard, report)| (heard, report.as_ref())).unzip();
    if let Some(Err(why)) = &report {
        wrong.push(format!("its report cannot be read: {why}"));
    }
    let report = report.and_then(Result::ok);
    let at = heard.map(|heard| heard.at);
    let quiet_since = at.filter(|at| known.now - at > QUIET_MILLIS);
    if heard.is_none() && joined {
        wrong.push("never reported".to_owned());
    }
    if let Some(since) = quiet_since {
        wrong.push(format!("quiet for {} minutes", (known.now - since) / 60_000));
    }
    let word =
        |holds: Option<bool>| Word { holds, at, sequence: report.as_ref().map(|report| report.sequence) };
    let is_taken = match (&declaration, &report) {
        (Some(declaration), Some(report)) => Some(report.sequence >= declaration.sequence),
        (None, _) => None,
        (Some(_), None) => Some(false),
    };
    if is_taken == Some(false) && heard.is_some() {
        let last = report.as_ref().map_or(0, |report| report.sequence);
        wrong.push(format!(
            "has not taken sequence {}, its machine is at {last}",
            declaration.as_ref().map_or(0, |declaration| declaration.sequence)
        ));
    }
    let modules = modules(declaration.as_ref(), report);
    for module in &modules {
        if module.state != "applied" && report.is_some() {
            let why = if module.why.is_empty() { String::new() } else { format!(": {}", module.why) };
            wrong.push(format!("{} is {}{why}", module.module, module.state));
        }
    }
    let is_applied = match (is_taken, &report) {
        (Some(true), Some(_)) => Some(modules.iter().all(|module| module.state == "applied")),
        (Some(false), _) => Some(false),
        _ => None,
    };
    let is_well = report.as_ref().map(|report| {
        report.first_failure.is_none()
            && report.modules.values().all(|module| module.state == ModuleState::Applied)
    });
    if let Some(failure) = report.and_then(|report| report.first_failure.as_ref()) {
        wrong.push(format!("{} failed: {}", failure.id, failure.cause));
    }
    NodeStatus {
        node: node.to_owned(),
        sent,
        taken: word(is_taken),
        applied: word(is_applied),
        // An old word of being well is not a word of today.
        well: word(if quiet_since.is_some() { None } else { is_well }),
        quiet_since,
        modules,
        wrong,
    }
}

/// What is told of a declaration. It was made and signed here: reading it strictly takes most of the time of a status.
#[derive(Debug, Deserialize)]
struct Declared {
    sequence: u64,
    modules: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    module: String,
    assignment: Digest,
}

impl Declared {
    fn in_envelope(bytes: &[u8]) -> Option<Declared> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            payload: &'a str,
        }
        let Envelope { payload } = serde_json::from_slice(bytes).ok()?;
        serde_json::from_slice(&BASE64.decode(payload.as_bytes()).ok()?).ok()
    }
}

fn modules(declaration: Option<&Declared>, report: Option<&Report>) -> Vec<ModuleStatus> {
    let Some(declaration) = declaration else { return Vec::new() };
    declaration
        .modules
        .iter()
        .map(|part| {
            let said = report.and_then(|report| report.modules.get(&part.module));
            let said = said.filter(|said| said.assignment == part.assignment);
            ModuleStatus {
                module: part.module.clone(),
                state: said.map_or("unknown".to_owned(), |said| said.state.to_string()),
                why: said.map(|said| said.why.clone()).unwrap_or_default(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;

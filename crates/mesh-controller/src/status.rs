//! What is wrong, what is quiet, what is out of date: four words for each node, none of which implies the next.
//!
//! *Sent*: the bus has its newest declaration. *Taken*: its machine reported that sequence. *Applied*: each of its modules
//! stands as that declaration says. *Well*: its machine's last report has no failure. Silence is none of these: it is said
//! with its age, and nothing is concluded from it. No clock and no store here.

use crate::plan::Plan;
use crate::store::Moment;
use crate::store::nodes::Heard;
use crate::store::sent::{Bucket, Sent};
use mesh_model::declaration::Declaration;
use mesh_model::json::Read;
use mesh_model::report::{ModuleState, Report};
use mesh_model::signed::Envelope;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A node whose report is older is quiet: a report is written again every ten minutes.
pub const QUIET_MILLIS: Moment = 30 * 60 * 1000;

/// One of the four words, and since when it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Whether it holds; `None` if that is not known.
    pub holds: Option<bool>,
    /// When that was written or heard, in milliseconds since 1970.
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
    /// Since when nothing was heard, once that is long.
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
    /// What a push would change.
    pub plan: &'a Plan,
    /// What was sent.
    pub sent: &'a [Sent],
    /// The newest reports.
    pub reports: &'a BTreeMap<String, Heard>,
    /// The nodes that have joined.
    pub joined: &'a BTreeSet<String>,
    /// The time.
    pub now: Moment,
}

/// How the mesh stands.
pub fn status(known: &Known<'_>) -> Status {
    let mut rows: BTreeMap<&str, Vec<&Sent>> = BTreeMap::new();
    for row in known.sent {
        rows.entry(&row.node).or_default().push(row);
    }
    let nodes: Vec<NodeStatus> = known
        .plan
        .nodes
        .keys()
        .map(|node| of_node(node, rows.get(node.as_str()).map_or(&[][..], Vec::as_slice), known))
        .collect();
    Status { ok: nodes.iter().all(|node| node.wrong.is_empty()), nodes }
}

fn of_node(node: &str, rows: &[&Sent], known: &Known<'_>) -> NodeStatus {
    let mut wrong = Vec::new();
    let change = known.plan.nodes.get(node);
    let joined = known.joined.contains(node);
    if !joined {
        wrong.push("has not joined".to_owned());
    }
    if let Some(change) = change {
        wrong.extend(change.problems.iter().cloned());
        if change.differs() {
            wrong.push(format!("{} changes are not sent: see plan", change.lines.len().max(1)));
        }
    }
    let row = rows.iter().find(|row| row.bucket == Bucket::Declarations && row.value.is_some());
    let declaration = row.and_then(|row| {
        let envelope = Envelope::parse(row.value.as_deref()?).ok()?;
        Declaration::from_json_bytes(envelope.payload_unverified()).ok()
    });
    let undone = rows.iter().filter(|row| !row.done).count();
    if undone > 0 {
        wrong.push(format!("{undone} values are written down and not on the bus yet"));
    }
    let sent = Word {
        holds: row.map(|_| undone == 0),
        at: row.map(|row| row.at),
        sequence: declaration.as_ref().map(|declaration| declaration.sequence),
    };
    let heard = known.reports.get(node);
    let report = heard.map(|heard| Report::parse(&heard.body));
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
    let modules = modules(declaration.as_ref(), report.as_ref());
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
    if let Some(failure) = report.as_ref().and_then(|report| report.first_failure.as_ref()) {
        wrong.push(format!("{} failed: {}", failure.id, failure.cause));
    }
    NodeStatus {
        node: node.to_owned(),
        sent,
        taken: word(is_taken),
        applied: word(is_applied),
        // An old word of being well is no word of today.
        well: word(if quiet_since.is_some() { None } else { is_well }),
        quiet_since,
        modules,
        wrong,
    }
}

fn modules(declaration: Option<&Declaration>, report: Option<&Report>) -> Vec<ModuleStatus> {
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

//! What is remembered of the machine, as JSON for command line and socket.

use crate::record::{Claim, Memory};
use crate::runs::{AllRuns, reports};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The memory without what is only for this program.
pub fn to_json(memory: &Memory, runs: &AllRuns, now: Timestamp) -> Value {
    let accepted = memory.accepted.as_ref();
    let resources: Vec<_> = memory
        .records
        .iter()
        .map(|(target, record)| {
            json!({"module": record.origin.name(), "id": record.id, "type": target.kind.name(), "target": target.name,
                   "found": record.claim == Claim::Agreed})
        })
        .collect();
    let held: Vec<_> = memory
        .holds
        .iter()
        .map(|(target, hold)| {
            json!({"module": hold.origin.name(), "id": hold.id, "type": target.kind.name(), "target": target.name,
                   "why": hold.why})
        })
        .collect();
    let begun: Vec<_> = memory.intents.keys().map(ToString::to_string).collect();
    let failing: Vec<_> = memory
        .tries
        .iter()
        .map(|(target, tried)| json!({"target": target.to_string(), "times": tried.times, "at": tried.at_s}))
        .collect();
    json!({
        "sequence": accepted.map(|accepted| accepted.sequence),
        "fence": accepted.map(|accepted| accepted.fence),
        "resources": resources,
        "held": held,
        "begun": begun,
        "failing": failing,
        "schedules": reports(memory, runs, now),
        "originals": memory.originals.keys().collect::<Vec<_>>(),
    })
}

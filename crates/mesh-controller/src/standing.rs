//! What is still to be sent to each node: composed once, and kept until something changes.

use crate::compose::compose;
use crate::plan::{NodeChange, Plan, plan};
use crate::snapshot;
use crate::store::nodes::Heard;
use crate::store::{Error, Store, sent, standing};
use mesh_model::digest::Digest;
use mesh_model::report::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is still to be sent to one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    /// How many lines its plan has; 0 if nothing is to be sent.
    pub lines: usize,
    /// Why it cannot have what it should.
    pub problems: Vec<String>,
}

impl Outstanding {
    /// Out of a plan.
    pub fn of(change: &NodeChange) -> Outstanding {
        let lines = if change.differs() { change.lines.len().max(1) } else { 0 };
        Outstanding { lines, problems: change.problems.clone() }
    }

    /// Of every node of a plan.
    pub fn of_plan(plan: &Plan) -> BTreeMap<String, Outstanding> {
        plan.nodes.iter().map(|(node, change)| (node.clone(), Outstanding::of(change))).collect()
    }
}

/// What a report says, as far as composing and telling need it.
pub type Reports = BTreeMap<String, (Heard, Result<Report, String>)>;

/// Reads every report once.
pub fn read_reports(store: &Store) -> Result<Reports, Error> {
    let reports = crate::store::nodes::reports(store.inventory())?;
    Ok(reports
        .into_iter()
        .map(|(node, heard)| {
            let report = Report::parse(&heard.body);
            (node, (heard, report))
        })
        .collect())
}

/// What is still to be sent to every node, as it was composed last or, if anything changed since, is composed now.
pub fn outstanding(store: &Store, reports: &Reports) -> Result<BTreeMap<String, Outstanding>, Error> {
    // Before anything is read: what changes meanwhile has another version, so it is composed again the next time.
    let name = name(store, reports)?;
    let kept = standing::get(store.inventory(), &name)?;
    if let Some(kept) = kept.and_then(|kept| serde_json::from_slice(&kept).ok()) {
        return Ok(kept);
    }
    let composed = compose(&snapshot::read(store.inventory(), store.identity())?);
    let all = Outstanding::of_plan(&plan(&composed, &sent::all(store.inventory())?, None));
    let body = serde_json::to_vec(&all).map_err(|error| Error::Broken(error.to_string()))?;
    match standing::put(store.inventory(), &name, &body) {
        // Another command writes just now: then it is composed again the next time.
        Ok(()) | Err(Error::Busy(_)) => Ok(all),
        Err(error) => Err(error),
    }
}

/// The state of the records, and of what machines report of their ports.
fn name(store: &Store, reports: &Reports) -> Result<String, Error> {
    let (touched, act) = standing::version(store.inventory(), store.identity())?;
    let mut facts = Vec::new();
    for (node, (_, report)) in reports {
        let Ok(report) = report else { continue };
        let of = (node, report.facts.ephemeral, &report.facts.ports_held);
        facts.extend(serde_json::to_vec(&of).unwrap_or_default());
    }
    Ok(format!("{touched} {act} {} {}", Digest::of(&facts).hex(), env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{act, store};
    use crate::store::{identity, inventory, nodes};

    fn lines(store: &Store) -> Vec<(String, usize)> {
        let reports = read_reports(store).unwrap();
        outstanding(store, &reports).unwrap().into_iter().map(|(node, one)| (node, one.lines)).collect()
    }

    #[test]
    fn what_is_kept_follows_every_change() {
        let (_folder, mut store) = store();
        let vault = nkeys::XKey::new().public_key().parse().unwrap();
        let change = store.change_identity(&act("init")).unwrap();
        identity::set_vault(&change, &vault).unwrap();
        change.commit().unwrap();
        assert!(lines(&store).is_empty());
        let change = store.change_inventory(&act("node add")).unwrap();
        nodes::add(&change, "attic", false, None, None).unwrap();
        inventory::put_module(&change, "a", "1", br#"{"module":"a","version":"1"}"#).unwrap();
        change.commit().unwrap();
        assert_eq!(lines(&store), [("attic".to_owned(), 0)]);
        let change = store.change_inventory(&act("assign")).unwrap();
        inventory::assign(&change, "attic", "a").unwrap();
        change.commit().unwrap();
        let first = lines(&store);
        assert!(first[0].1 > 0, "{first:?}");
        // Kept: a second look composes nothing, and says the same.
        let name = name(&store, &read_reports(&store).unwrap()).unwrap();
        assert!(standing::get(store.inventory(), &name).unwrap().is_some());
        assert_eq!(lines(&store), first);
        let change = store.change_inventory(&act("settings set")).unwrap();
        inventory::put_layer(&change, "a", None, br#"{"x":1}"#).unwrap();
        change.commit().unwrap();
        assert_ne!(super::name(&store, &read_reports(&store).unwrap()).unwrap(), name);
    }

    #[test]
    fn every_table_that_is_composed_from_is_counted() {
        let (_folder, store) = store();
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'touch_%'";
        let triggers: i64 = store.inventory().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(triggers, 11 * 3);
    }
}

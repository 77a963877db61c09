//! What is still to be sent to each node: composed once, and kept until something changes.

use crate::compose::{Composed, compose, compose_some};
use crate::plan::{NodeChange, Plan, plan};
use crate::snapshot;
use crate::store::nodes::Heard;
use crate::store::{Error, Store, sent, standing};
use mesh_model::digest::Digest;
use mesh_model::report::Report;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    Ok(parsed(crate::store::nodes::reports(store.inventory())?))
}

fn parsed(reports: BTreeMap<String, Heard>) -> Reports {
    let read = |(node, heard): (String, Heard)| {
        let report = Report::parse(&heard.body);
        (node, (heard, report))
    };
    reports.into_iter().map(read).collect()
}

/// What is kept of one node: what its machine had reported of its ports then, what of that counts, and what was still to be
/// sent.
type Kept = BTreeMap<String, (String, String, Outstanding)>;

/// What is still to be sent to every node, as it was composed last. Whatever changed since is composed now: all nodes where
/// the records changed, and where machines report other ports of theirs, those alone, since no other node depends on them.
pub fn outstanding(store: &Store, reports: &Reports) -> Result<BTreeMap<String, Outstanding>, Error> {
    // Before anything is read: what changes meanwhile has another version, so it is composed again the next time.
    let name = name(store.inventory(), store.identity())?;
    let facts = facts(reports);
    let kept = standing::get(store.inventory(), &name)?;
    let kept: Option<Kept> = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
    let all = match kept {
        None => of_all(store.inventory(), store.identity(), reports)?,
        Some(mut kept) => {
            let mut other = BTreeSet::new();
            let mut is_new = false;
            for (node, (then, counted, _)) in &mut kept {
                let now = facts_of(&facts, node);
                if now != then {
                    is_new = true;
                    now.clone_into(then);
                    let counts = counts(store.inventory(), node, reports)?;
                    if counts != *counted {
                        *counted = counts;
                        other.insert(node.clone());
                    }
                }
            }
            if !is_new {
                return told(store, kept);
            }
            recompose(store, &other, &mut kept)?;
            kept
        }
    };
    match put(store.inventory(), &name, &all) {
        // Another command writes just now: then it is composed again the next time.
        Ok(()) | Err(Error::Busy(_)) => told(store, all),
        Err(error) => Err(error),
    }
}

fn recompose(store: &Store, nodes: &BTreeSet<String>, kept: &mut Kept) -> Result<(), Error> {
    if nodes.is_empty() {
        return Ok(());
    }
    let snapshot = snapshot::read(store.inventory(), store.identity())?;
    let composed = compose_some(&snapshot, |node| nodes.contains(node));
    for node in nodes {
        let change = plan(&composed, &sent::of_node(store.inventory(), node)?, Some(node));
        if let Some((.., of)) = kept.get_mut(node) {
            *of = change.nodes.get(node).map(Outstanding::of).unwrap_or_default();
        }
    }
    Ok(())
}

/// Keeps what a change had to compose anyway, in the same transaction.
pub fn keep(inventory: &Connection, identity: &Connection, composed: &Composed) -> Result<(), Error> {
    let reports = parsed(crate::store::nodes::reports(inventory)?);
    let name = name(inventory, identity)?;
    put(inventory, &name, &planned(inventory, composed, &reports)?)
}

fn of_all(inventory: &Connection, identity: &Connection, reports: &Reports) -> Result<Kept, Error> {
    planned(inventory, &compose(&snapshot::read(inventory, identity)?), reports)
}

fn planned(inventory: &Connection, composed: &Composed, reports: &Reports) -> Result<Kept, Error> {
    let facts = facts(reports);
    let all = Outstanding::of_plan(&plan(composed, &sent::all(inventory)?, None));
    let kept = |(node, of): (String, Outstanding)| {
        let counts = counts(inventory, &node, reports)?;
        let facts = facts_of(&facts, &node).to_owned();
        Ok((node, (facts, counts, of)))
    };
    all.into_iter().map(kept).collect()
}

/// What counts of the ports that a machine reports, as a digest: what it holds for modules of this node is known here.
fn counts(inventory: &Connection, node: &str, reports: &Reports) -> Result<String, Error> {
    // As the snapshot has it: silence is a machine that holds nothing.
    let (mut held, mut ephemeral) = (Vec::new(), None);
    if let Some((_, Ok(report))) = reports.get(node) {
        let known = crate::store::inventory::ports_of(inventory, node)?;
        held.extend(report.facts.ports_held.iter().filter(|held| !known.contains(&held.port)));
        ephemeral = report.facts.ephemeral;
    }
    Ok(short(&serde_json::to_vec(&(ephemeral, held)).unwrap_or_default()))
}

fn short(bytes: &[u8]) -> String {
    Digest::of(bytes).hex()[..16].to_owned()
}

fn put(inventory: &Connection, name: &str, all: &Kept) -> Result<(), Error> {
    let body = serde_json::to_vec(all).map_err(|error| Error::Broken(error.to_string()))?;
    standing::put(inventory, name, &body)
}

/// What is told: of every node that there is, and of removed ones while something of theirs is to be sent.
fn told(store: &Store, kept: Kept) -> Result<BTreeMap<String, Outstanding>, Error> {
    let nodes: BTreeSet<String> =
        crate::store::nodes::all(store.inventory())?.into_iter().map(|node| node.name).collect();
    let undone = sent::count_undone(store.inventory())?;
    let mut all = without_facts(kept);
    all.retain(|node, of| of.lines > 0 || nodes.contains(node) || undone.contains_key(node));
    Ok(all)
}

fn without_facts(kept: Kept) -> BTreeMap<String, Outstanding> {
    kept.into_iter().map(|(node, (.., of))| (node, of)).collect()
}

/// The state of the records, and of the program that reads them.
fn name(inventory: &Connection, identity: &Connection) -> Result<String, Error> {
    let (touched, act) = standing::version(inventory, identity)?;
    Ok(format!("2 {touched} {act} {}", env!("CARGO_PKG_VERSION")))
}

/// What machines report of their ports, by node, as a digest.
fn facts(reports: &Reports) -> BTreeMap<String, String> {
    let said = reports.iter().filter_map(|(node, (_, report))| Some((node, report.as_ref().ok()?)));
    said.map(|(node, report)| {
        let of = serde_json::to_vec(&(report.facts.ephemeral, &report.facts.ports_held)).unwrap_or_default();
        (node.clone(), short(&of))
    })
    .collect()
}

fn facts_of<'f>(facts: &'f BTreeMap<String, String>, node: &str) -> &'f str {
    facts.get(node).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{act, store};
    use crate::store::{identity, inventory, nodes};
    use mesh_model::report::HeldPort;

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
        let name = name(store.inventory(), store.identity()).unwrap();
        assert!(standing::get(store.inventory(), &name).unwrap().is_some());
        assert_eq!(lines(&store), first);
        let change = store.change_inventory(&act("settings set")).unwrap();
        inventory::put_layer(&change, "a", None, br#"{"x":1}"#).unwrap();
        change.commit().unwrap();
        assert_ne!(super::name(store.inventory(), store.identity()).unwrap(), name);
    }

    #[test]
    fn what_is_kept_is_what_would_be_composed_now() {
        let (_folder, mut store) = store();
        let vault = nkeys::XKey::new().public_key().parse().unwrap();
        let change = store.change_identity(&act("init")).unwrap();
        identity::set_vault(&change, &vault).unwrap();
        change.commit().unwrap();
        let change = store.change_inventory(&act("node add")).unwrap();
        let with_port = br#"{"module":"a","version":"1","ports":{"http":{"fixed":8080}},
            "resources":[{"id":"f","type":"file","path":"/etc/a","content":"${port:http}"}]}"#;
        inventory::put_module(&change, "a", "1", with_port).unwrap();
        for node in ["attic", "cellar"] {
            nodes::add(&change, node, false, None, None).unwrap();
            inventory::assign(&change, node, "a").unwrap();
        }
        change.commit().unwrap();
        let check = |store: &Store| {
            let reports = read_reports(store).unwrap();
            let said = outstanding(store, &reports).unwrap();
            let anew = of_all(store.inventory(), store.identity(), &reports).unwrap();
            assert_eq!(said, without_facts(anew));
            said
        };
        assert!(check(&store).values().all(|one| one.problems.is_empty()));
        // A machine reports that another program holds the port: its node is composed again, and has a problem.
        let mut report = Report::new(1, 1);
        let hear = |store: &mut Store, revision: u64, report: &Report| {
            let change = store.note_inventory().unwrap();
            let heard = Heard { at: 1, revision, body: serde_json::to_vec(report).unwrap() };
            nodes::note_report(&change, "cellar", &heard).unwrap();
            change.commit().unwrap();
        };
        hear(&mut store, 1, &report);
        check(&store);
        report.facts.ports_held = vec![HeldPort { port: 8080, id: "other.service".into() }];
        hear(&mut store, 2, &report);
        let said = check(&store);
        assert_eq!((said["attic"].problems.len(), said["cellar"].problems.len()), (0, 1), "{said:?}");
        report.facts.ports_held.clear();
        hear(&mut store, 3, &report);
        assert!(check(&store)["cellar"].problems.is_empty());
        // Whoever changes something keeps what it composed, and that is what is said next.
        let change = store.change_inventory(&act("unassign")).unwrap();
        inventory::unassign(&change, "attic", "a").unwrap();
        change.commit().unwrap();
        let composed = compose(&snapshot::read(store.inventory(), store.identity()).unwrap());
        keep(store.inventory(), store.identity(), &composed).unwrap();
        let name = name(store.inventory(), store.identity()).unwrap();
        assert!(standing::get(store.inventory(), &name).unwrap().is_some());
        assert_eq!(check(&store)["attic"].lines, 0);
    }

    #[test]
    fn what_was_done_on_the_bus_changes_nothing_that_is_kept() {
        let (_folder, mut store) = store();
        let change = store.change_inventory(&act("push")).unwrap();
        let row = sent::Sent {
            bucket: sent::Bucket::Assignments,
            key: "attic.a".into(),
            node: "attic".into(),
            module: "a".into(),
            value: Some(b"1".to_vec()),
            sequence: 1,
            fence: 0,
            done: false,
            revision: 0,
            at: 0,
        };
        sent::intend(&change, &row).unwrap();
        change.commit().unwrap();
        let version = |store: &Store| standing::version(store.inventory(), store.identity()).unwrap().0;
        let before = version(&store);
        let change = store.note_inventory().unwrap();
        sent::done(&change, 0, &row, 5).unwrap();
        change.commit().unwrap();
        assert_eq!(version(&store), before);
        let change = store.change_inventory(&act("push")).unwrap();
        sent::intend(&change, &sent::Sent { value: Some(b"2".to_vec()), ..row }).unwrap();
        change.commit().unwrap();
        assert!(version(&store) > before);
    }

    #[test]
    fn every_table_that_is_composed_from_is_counted() {
        let (_folder, store) = store();
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'touch_%'";
        let triggers: i64 = store.inventory().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(triggers, 11 * 3);
    }
}

//! Seats: roles that one module of the mesh holds.

use super::snapshot::{Holder, Snapshot};
use std::collections::BTreeMap;

/// Who sits where, and what is wrong with that, by node and module.
#[derive(Debug, Default)]
pub(super) struct Seating {
    pub(super) holders: BTreeMap<String, Holder>,
    pub(super) problems: BTreeMap<(String, String), Vec<String>>,
}

pub(super) fn find(snapshot: &Snapshot) -> Seating {
    let mut seating = Seating::default();
    let holds = |holder: &Holder, seat: &str| {
        let assigned = snapshot.assignments.contains_key(&(holder.node.clone(), holder.module.clone()));
        let manifest = snapshot.modules.get(&holder.module).and_then(|module| module.manifest.as_ref().ok());
        assigned && manifest.is_some_and(|manifest| manifest.seats.holds.iter().any(|held| held == seat))
    };
    for (seat, kept) in &snapshot.seats {
        if holds(&kept.value, seat) {
            seating.holders.insert(seat.clone(), kept.value.clone());
        }
    }
    for ((node, module), manifest) in assigned(snapshot) {
        let holder = Holder { node: node.clone(), module: module.clone() };
        for seat in &manifest.seats.holds {
            match seating.holders.get(seat) {
                None => {
                    seating.holders.insert(seat.clone(), holder.clone());
                }
                Some(other) if *other != holder => {
                    let what = format!(
                        "it would hold the seat {seat}, which {} on {} holds",
                        other.module, other.node
                    );
                    seating.problems.entry((node.clone(), module.clone())).or_default().push(what);
                }
                Some(_) => {}
            }
        }
    }
    for ((node, module), manifest) in assigned(snapshot) {
        for seat in manifest.seats.asks.iter().filter(|seat| !seating.holders.contains_key(*seat)) {
            let what = format!("it asks the seat {seat}, which nobody holds");
            seating.problems.entry((node.clone(), module.clone())).or_default().push(what);
        }
    }
    seating
}

fn assigned(
    snapshot: &Snapshot,
) -> impl Iterator<Item = (&(String, String), &mesh_model::manifest::Manifest)> {
    snapshot.assignments.keys().filter_map(|key| {
        let manifest = snapshot.modules.get(&key.1)?.manifest.as_ref().ok()?;
        Some((key, manifest))
    })
}

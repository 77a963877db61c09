//! `seats`: every seat that a manifest names, and who holds it.

use super::context::{Ended, Environment, OrEnd, store};
use super::show;
use crate::snapshot;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;
use mesh_daemon::table::Table;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// list the seats that manifests name, and who holds each
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "seats")]
pub(super) struct Seats {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

impl Seats {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let snapshot = snapshot::read(store.inventory(), store.identity()).or_end()?;
        let mut seats: BTreeMap<&str, [BTreeSet<&str>; 3]> = BTreeMap::new();
        for (name, module) in &snapshot.modules {
            let Ok(manifest) = &module.manifest else { continue };
            let lists = [&manifest.seats.holds, &manifest.seats.asks, &manifest.seats.replicated];
            for (place, list) in lists.into_iter().enumerate() {
                for seat in list {
                    seats.entry(seat).or_default()[place].insert(name);
                }
            }
        }
        let mut table = Table::new(["SEAT", "HELD BY", "ON", "CAN HOLD", "ASK", "HAVE A COPY"]);
        let mut rows = Vec::new();
        for (seat, [holds, asks, replicated]) in seats {
            let held = snapshot.seats.get(seat).map(|held| &held.value);
            rows.push(json!({"seat": seat, "node": held.map(|held| &held.node), "module": held.map(|held| &held.module),
                "holds": holds, "asks": asks, "replicated": replicated}));
            let words = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(" ");
            table.row([
                seat.to_owned(),
                held.map_or("nobody".to_owned(), |held| held.module.clone()),
                held.map_or(String::new(), |held| held.node.clone()),
                words(&holds),
                words(&asks),
                words(&replicated),
            ]);
        }
        if self.json {
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        Ok(print(&show::table(&table)))
    }
}

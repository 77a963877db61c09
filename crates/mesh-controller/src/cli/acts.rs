//! `acts`: who did what, when and why.

use super::context::{Ended, Environment, OrEnd, store};
use super::show;
use crate::compose::reason::Acts as Told;
use crate::store::{Error, Store, acts, now};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;
use mesh_daemon::table::Table;
use serde_json::{Value, json};

/// show who did what, when and why
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "acts", example = "{command_name} --days 7")]
pub(super) struct Acts {
    /// of how many days [30]
    #[argh(option, arg_name = "days", default = "30")]
    days: u16,

    /// print JSON
    #[argh(switch)]
    json: bool,
}

impl Acts {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let from = now() - i64::from(self.days) * 86_400_000;
        let mut done: Vec<(&str, acts::Done)> = Vec::new();
        for (of, connection) in [("inventory", store.inventory()), ("identity", store.identity())] {
            done.extend(acts::since(connection, from).or_end()?.into_iter().map(|act| (of, act)));
        }
        done.sort_by_key(|(_, act)| (act.at, act.id));
        if self.json {
            let rows: Vec<Value> = done
                .iter()
                .map(|(of, act)| {
                    json!({"store": of, "id": act.id, "at": act.at, "who": act.who, "command": act.command,
                        "what": act.what, "why": act.why})
                })
                .collect();
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        let mut table = Table::new(["AT", "WHO", "WHAT", "WHY"]);
        for (_, act) in done {
            let what = format!("{} {}", act.command, act.what);
            table.row([show::at(act.at), act.who, what.trim_end().to_owned(), act.why.unwrap_or_default()]);
        }
        Ok(print(&show::table(&table)))
    }
}

/// What each act of the inventory was, for reasons.
pub(super) fn told(store: &Store) -> Result<Told, Error> {
    let all = acts::since(store.inventory(), 0)?;
    Ok(all
        .into_iter()
        .map(|act| (act.id, format!("{} {} ({} {})", act.command, act.what, act.who, show::at(act.at))))
        .collect())
}

//! What the commands share: the store, who acts, and how a failure ends the program.

use crate::compose::{Composed, Problem, compose};
use crate::store::acts::Act;
use crate::store::{Change, Error, Paths, Store, inventory, now};
use crate::{snapshot, standing};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;

/// The environment's variables.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How a command ends: what it printed is done, or the exit of what failed and was said.
pub(super) type Ended = Result<Exit, Exit>;

/// Says what failed, and which exit that is.
pub(super) fn failed(error: &Error) -> Exit {
    complain(&error.to_string());
    match error {
        Error::Refused(_) | Error::Broken(_) => Exit::Failed,
        Error::Unfit(_) => Exit::Configuration,
        Error::Busy(_) => Exit::Unavailable,
    }
}

/// Makes an error of the store the end of a command.
pub(super) trait OrEnd<T> {
    /// The value, or the exit of what was said.
    fn or_end(self) -> Result<T, Exit>;
}

impl<T> OrEnd<T> for Result<T, Error> {
    fn or_end(self) -> Result<T, Exit> {
        self.map_err(|error| failed(&error))
    }
}

/// Where the store is.
pub(super) fn paths(environment: Environment<'_>) -> Result<Paths, Exit> {
    Paths::find(environment).or_end()
}

/// Opens the store.
pub(super) fn store(environment: Environment<'_>) -> Result<Store, Exit> {
    Store::open(&paths(environment)?).or_end()
}

/// Who acts: the account, and through `sudo` the one behind it.
pub(super) fn who(environment: Environment<'_>) -> String {
    let user = ["SUDO_USER", "LOGNAME", "USER"].into_iter().find_map(environment);
    user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// An act that owns its words.
pub(super) struct Doing {
    who: String,
    command: &'static str,
    what: String,
    why: Option<String>,
}

impl Doing {
    pub(super) fn new(environment: Environment<'_>, command: &'static str, what: impl Into<String>) -> Doing {
        Doing { who: who(environment), command, what: what.into(), why: None }
    }

    pub(super) fn because(mut self, why: Option<&String>) -> Doing {
        self.why = why.cloned();
        self
    }

    pub(super) fn act(&self) -> Act<'_> {
        Act { at: now(), who: &self.who, command: self.command, what: &self.what, why: self.why.as_deref() }
    }
}

/// Reads a file that the operator names; `-` is the standard input.
pub(super) fn read_file(path: &str, most: u64) -> Result<Vec<u8>, Exit> {
    use std::io::Read;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if path == "-" {
            std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes)?;
        } else {
            std::fs::File::open(Path::new(path))?.take(most + 1).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > most => {
            complain(&format!("{path} has more than {most} bytes: that is more than is taken"));
            Err(Exit::Failed)
        }
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            complain(&format!("{path} cannot be read: {error}"));
            Err(Exit::Failed)
        }
    }
}

/// What is composed from the store as it is.
pub(super) fn composed(inventory: &Connection, identity: &Connection) -> Result<Composed, Error> {
    Ok(compose(&snapshot::read(inventory, identity)?))
}

/// Changes the inventory if what comes out can be: judged as a whole, all or none, with every reason. What the change
/// decided (ports, bindings, seats, data) is kept in the same transaction.
pub(super) fn judged(
    store: &mut Store,
    doing: &Doing,
    change_it: impl FnOnce(&Change<'_>) -> Result<(), Error>,
) -> Result<Composed, Exit> {
    let act = doing.act();
    let run = || -> Result<Result<Composed, Vec<Problem>>, Error> {
        let (change, identity) = store.change_inventory_beside(&act)?;
        let before = snapshot::read(&change, identity)?;
        change_it(&change)?;
        let after = composed(&change, identity)?;
        let problems = after.problems();
        // What was there before counts only where there is something now.
        if !problems.is_empty() {
            let before = compose(&before).problems();
            let new: Vec<Problem> = problems.difference(&before).cloned().collect();
            if !new.is_empty() {
                return Ok(Err(new));
            }
        }
        keep(&change, &after)?;
        standing::keep(&change, identity, &after)?;
        change.commit()?;
        Ok(Ok(after))
    };
    match run().or_end()? {
        Ok(after) => Ok(after),
        Err(problems) => {
            for problem in &problems {
                complain(&problem.to_string());
            }
            complain("nothing was changed");
            Err(Exit::Failed)
        }
    }
}

/// Keeps what the composition decided.
fn keep(change: &Change<'_>, composed: &Composed) -> Result<(), Error> {
    let kept: BTreeMap<_, _> = inventory::ports(change)?
        .into_iter()
        .map(|kept| ((kept.node, kept.module, kept.name), (kept.port, kept.protocol)))
        .collect();
    let data: BTreeMap<_, _> = inventory::data(change)?
        .into_iter()
        .map(|data| ((data.node, data.module), (data.keeps, data.worth)))
        .collect();
    for (node, plan) in &composed.nodes {
        for (module, of) in &plan.modules {
            for (name, (port, protocol)) in &of.ports {
                let key = (node.clone(), module.clone(), name.clone());
                if kept.get(&key).is_none_or(|kept| kept.0 != *port || kept.1 != *protocol) {
                    inventory::keep_port(change, node, module, name, *port, protocol)?;
                }
            }
            if let Some((keeps, worth)) = &of.data {
                let known = data.get(&(node.clone(), module.clone()));
                if known.is_none_or(|known| known.0 != *keeps || known.1 != *worth) {
                    inventory::keep_data(change, node, module, keeps, worth)?;
                }
            }
        }
    }
    keep_bindings(change, composed)?;
    keep_seats(change, composed)
}

fn keep_bindings(change: &Change<'_>, composed: &Composed) -> Result<(), Error> {
    let known: BTreeMap<_, _> = inventory::bindings(change)?
        .into_iter()
        .map(|one| {
            let provider = (one.provision, one.provider_node, one.provider_module);
            ((one.node, one.module, one.name), provider)
        })
        .collect();
    for ((node, module, name), bound) in &composed.bindings {
        let provider = (bound.provision.clone(), bound.node.clone(), bound.module.clone());
        if known.get(&(node.clone(), module.clone(), name.clone())) != Some(&provider) {
            let binding = inventory::Binding {
                node: node.clone(),
                module: module.clone(),
                name: name.clone(),
                provision: provider.0,
                provider_node: provider.1,
                provider_module: provider.2,
                since: 0,
                act: 0,
            };
            inventory::bind(change, &binding)?;
        }
    }
    for (node, module, name) in known.keys() {
        let is_whole = composed.nodes.get(node).is_some_and(|plan| plan.problems.is_empty());
        if is_whole && !composed.bindings.contains_key(&(node.clone(), module.clone(), name.clone())) {
            inventory::unbind(change, node, module, name)?;
        }
    }
    Ok(())
}

fn keep_seats(change: &Change<'_>, composed: &Composed) -> Result<(), Error> {
    for known in inventory::seats(change)? {
        let holds = composed
            .seats
            .get(&known.seat)
            .is_some_and(|holder| holder.node == known.node && holder.module == known.module);
        if !holds {
            inventory::unseat(change, &known.seat)?;
        }
    }
    let known: Vec<String> = inventory::seats(change)?.into_iter().map(|seat| seat.seat).collect();
    for (seat, holder) in &composed.seats {
        if !known.contains(seat) {
            inventory::seat(change, seat, &holder.node, &holder.module)?;
        }
    }
    Ok(())
}

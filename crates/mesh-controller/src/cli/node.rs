//! `node`: records of nodes, and the operator's paths on them.

use super::context::{Doing, Ended, Environment, OrEnd, judged, store};
use super::show;
use crate::store::{identity, inventory, nodes, sent};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;
use mesh_daemon::table::Table;
use mesh_daemon::terminal::escape;
use mesh_model::report::Report;
use serde_json::{Value, json};

/// add, change, list, show or remove nodes
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "node")]
pub(super) struct NodeCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Which {
    Add(Add),
    Set(Set),
    Access(Access),
    List(List),
    Show(Show),
    Remove(Remove),
}

/// add a node; it joins with a token
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "add", example = "{command_name} attic --zone home")]
struct Add {
    /// the machine is in use: what is found there is left as it is until it is taken
    #[argh(switch)]
    adopted: bool,

    /// where the others reach it [as it joins]
    #[argh(option, arg_name = "address")]
    address: Option<String>,

    /// where it stands, in your words
    #[argh(option, arg_name = "zone")]
    zone: Option<String>,

    /// its name: a-z, 0-9 and -, at most 63
    #[argh(positional, arg_name = "node")]
    name: String,
}

/// change a node's record; an empty value takes it away
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "set", example = "{command_name} attic --address 10.0.0.7")]
struct Set {
    /// whether what is found there is left as it is: yes or no
    #[argh(option, arg_name = "yes|no", from_str_fn(parse_yes))]
    adopted: Option<bool>,

    /// where the others reach it
    #[argh(option, arg_name = "address")]
    address: Option<String>,

    /// where it stands
    #[argh(option, arg_name = "zone")]
    zone: Option<String>,

    /// the node
    #[argh(positional, arg_name = "node")]
    name: String,
}

fn parse_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{text:?} is neither yes nor no")),
    }
}

/// say which path on a node an access of the manifests is
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "access", example = "{command_name} attic films /srv/films")]
struct Access {
    /// the node
    #[argh(positional, arg_name = "node")]
    node: String,

    /// the name that manifests have for it
    #[argh(positional, arg_name = "name")]
    name: String,

    /// the path
    #[argh(positional, arg_name = "path")]
    path: String,
}

/// list the nodes
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "list")]
struct List {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

/// show a node: its record, its keys, its modules, and what its machine reported last
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "show")]
struct Show {
    /// print JSON
    #[argh(switch)]
    json: bool,

    /// the node
    #[argh(positional, arg_name = "node")]
    name: String,
}

/// remove a node that has no modules; it is let in no more
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "remove",
    note = "Its keys never come back: a machine joins again with a new token. A used token stays used."
)]
struct Remove {
    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the node
    #[argh(positional, arg_name = "node")]
    name: String,
}

impl NodeCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Which::Add(add) => add.run(environment),
            Which::Set(set) => set.run(environment),
            Which::Access(access) => access.run(environment),
            Which::List(list) => list.run(environment),
            Which::Show(show) => show.run(environment),
            Which::Remove(remove) => remove.run(environment),
        }
    }
}

impl Add {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "node add", &self.name);
        judged(&mut store, &doing, |change| {
            nodes::add(change, &self.name, self.adopted, self.address.as_deref(), self.zone.as_deref())
        })?;
        Ok(print(&format!("{}: added; it joins with a token: token issue --node {}\n", self.name, self.name)))
    }
}

impl Set {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let mut what = self.name.clone();
        let adopted = self.adopted.map(|adopted| if adopted { "yes" } else { "no" });
        for (flag, value) in
            [("adopted", adopted), ("address", self.address.as_deref()), ("zone", self.zone.as_deref())]
        {
            what += &value.map(|value| format!(" --{flag} {value:?}")).unwrap_or_default();
        }
        let doing = Doing::new(environment, "node set", what);
        judged(&mut store, &doing, |change| {
            let mut node = nodes::expect(change, &self.name)?;
            node.adopted = self.adopted.unwrap_or(node.adopted);
            let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            if let Some(address) = &self.address {
                node.address = filled(address);
            }
            if let Some(zone) = &self.zone {
                node.zone = filled(zone);
            }
            nodes::set(change, &node)
        })?;
        Ok(print(&format!("{}: changed\n", self.name)))
    }
}

impl Access {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let what = format!("{} {} {}", self.node, self.name, self.path);
        let doing = Doing::new(environment, "node access", what);
        judged(&mut store, &doing, |change| nodes::set_access(change, &self.node, &self.name, &self.path))?;
        Ok(print(&format!("{}: {} is {}\n", self.node, self.name, self.path)))
    }
}

impl List {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let all = nodes::all(store.inventory()).or_end()?;
        let keys = identity::node_keys(store.identity()).or_end()?;
        let reports = nodes::reports(store.inventory()).or_end()?;
        let assignments = inventory::assignments(store.inventory()).or_end()?;
        let mut table = Table::new(["NODE", "JOINED", "MODULES", "REPORTED", "ADDRESS", "ZONE"]);
        let mut rows = Vec::new();
        for node in &all {
            let keys = keys.iter().find(|keys| keys.node == node.name);
            let modules = assignments.iter().filter(|one| one.node == node.name).count();
            let heard = reports.get(&node.name);
            let address = node.address.clone().or_else(|| keys.and_then(|keys| keys.address.clone()));
            rows.push(json!({"node": node.name, "adopted": node.adopted, "joined": keys.map(|keys| keys.joined),
                "modules": modules, "reported": heard.map(|heard| heard.at), "address": address, "zone": node.zone}));
            table.row([
                node.name.clone(),
                keys.map_or("not yet".to_owned(), |keys| show::at(keys.joined)),
                modules.to_string(),
                heard.map_or("never".to_owned(), |heard| format!("{} ago", show::age(heard.at))),
                escape(&address.unwrap_or_default()).into_owned(),
                escape(node.zone.as_deref().unwrap_or_default()).into_owned(),
            ]);
        }
        if self.json {
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        Ok(print(&show::table(&table)))
    }
}

impl Show {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let (inventory, name) = (store.inventory(), &self.name);
        let node = nodes::expect(inventory, name).or_end()?;
        let keys = identity::keys_of(store.identity(), name).or_end()?;
        let heard = nodes::reports(inventory).or_end()?.remove(name);
        let accesses: Vec<nodes::Access> =
            nodes::accesses(inventory).or_end()?.into_iter().filter(|access| access.node == *name).collect();
        let modules: Vec<String> = inventory::assignments(inventory)
            .or_end()?
            .into_iter()
            .filter(|one| one.node == *name)
            .map(|one| one.module)
            .collect();
        let sequence = sent::highest_sequence(inventory, name).or_end()?;
        let report = heard.as_ref().map(|heard| Report::parse(&heard.body));
        if self.json {
            let facts = report.as_ref().and_then(|report| report.as_ref().ok()).map(|report| &report.facts);
            let value = json!({"node": name, "adopted": node.adopted, "address": node.address, "zone": node.zone,
                "since": node.since, "modules": modules, "sequence": sequence,
                "accesses": accesses.iter().map(|access| json!({"name": access.name, "path": access.path})).collect::<Vec<_>>(),
                "keys": keys.as_ref().map(|keys| json!({"epoch": keys.epoch, "bus": keys.bus.as_str(),
                    "sealing": keys.sealing.as_str(), "joined": keys.joined, "address": keys.address, "arch": keys.arch})),
                "reported": heard.as_ref().map(|heard| heard.at), "facts": facts});
            return Ok(print(&format!("{value}\n")));
        }
        let mut text = String::new();
        let mut line = |what: &str, value: String| text += &format!("{what:<10}{}\n", escape(&value));
        line("node", name.clone());
        line("adopted", if node.adopted { "yes" } else { "no" }.into());
        line("address", node.address.unwrap_or_else(|| "not said".into()));
        line("zone", node.zone.unwrap_or_else(|| "not said".into()));
        for access in accesses {
            line("access", format!("{} {}", access.name, access.path));
        }
        match &keys {
            Some(keys) => {
                line("joined", format!("{}, epoch {}", show::at(keys.joined), keys.epoch));
                line("bus key", keys.bus.to_string());
                line("sealing", keys.sealing.to_string());
                line("arch", keys.arch.clone().unwrap_or_else(|| "not known".into()));
            }
            None => line("joined", format!("not yet: token issue --node {name}")),
        }
        line("modules", if modules.is_empty() { "none".into() } else { modules.join(" ") });
        line("sent", if sequence == 0 { "never".into() } else { format!("sequence {sequence}") });
        match (heard, report) {
            (Some(heard), Some(Ok(report))) => {
                let when = format!("{} ({} ago)", show::at(heard.at), show::age(heard.at));
                line("reported", format!("{when}, sequence {}", report.sequence));
                let facts = report.facts;
                line(
                    "machine",
                    [
                        Some(facts.arch),
                        facts.service_manager,
                        facts.runtime,
                        facts.package_manager,
                        facts.firewall,
                    ]
                    .into_iter()
                    .flatten()
                    .filter(|fact| !fact.is_empty())
                    .collect::<Vec<_>>()
                    .join(", "),
                );
            }
            (Some(heard), _) => line("reported", format!("{}, not readable", show::at(heard.at))),
            _ => line("reported", "never".into()),
        }
        Ok(print(&text))
    }
}

impl Remove {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "node remove", &self.name).because(self.why.as_ref());
        let act = doing.act();
        // The inventory refuses a node that runs something; dropped, this changes nothing.
        let refuses = store.change_inventory(&act).or_end()?;
        nodes::remove(&refuses, &self.name).or_end()?;
        drop(refuses);
        // The keys go first: a machine that still has them would join again, and bring its node back.
        let change = store.change_identity(&act).or_end()?;
        identity::drop_node_keys(&change, &self.name).or_end()?;
        change.commit().or_end()?;
        judged(&mut store, &doing, |change| nodes::remove(change, &self.name))?;
        Ok(print(&format!("{}: removed; what the buckets hold of it goes with the next push\n", self.name)))
    }
}

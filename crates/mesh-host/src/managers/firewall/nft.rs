//! The table of our own in nftables: what is let in, and what a guard keeps out.
//!
//! A port that a container publishes is redirected before any chain for input sees it, by docker as by podman. So the guard
//! looks before that.

use super::{Opened, said, tool};
use crate::outcome::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "mesh_host";
const GUARD: &str = "guard";

pub(super) fn list() -> Result<String, String> {
    said("nft", &["--json", "list", "ruleset"])
}

/// What our table has: by `8080/tcp`, the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// What is let in.
    pub(super) opened: BTreeMap<String, BTreeSet<String>>,
    /// What is let in from these places alone, also where a container publishes it.
    pub(super) guarded: BTreeMap<String, BTreeSet<String>>,
}

/// What the kernel's tables hold.
pub(super) struct Rules {
    /// Ours.
    pub(super) ours: Table,
    /// The chains of others that see what comes in and drop what no rule accepts: family, table, name.
    dropping: Vec<[String; 3]>,
    /// The rules of others: family, table, and what each does.
    others: Vec<(String, String, Value)>,
}

pub(super) fn read(said: &str) -> Result<Rules, String> {
    let json: Value =
        serde_json::from_str(said).map_err(|error| format!("nft says what is not understood: {error}"))?;
    let items = json["nftables"].as_array().ok_or("nft says what is not understood")?;
    let mut rules = Rules { ours: Table::default(), dropping: Vec::new(), others: Vec::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for item in items {
        if let Some(rule) = item.get("rule") {
            if rule["table"] == TABLE {
                let comment = text(&rule["comment"]);
                let (name, source) = comment.split_once(' ').unwrap_or((&comment, ""));
                let guards = rule["chain"] == GUARD;
                let part = if guards { &mut rules.ours.guarded } else { &mut rules.ours.opened };
                // What holds for every port has no comment.
                if name.is_empty() {
                    continue;
                }
                let sources = part.entry(name.to_owned()).or_default();
                sources.extend(Some(source.to_owned()).filter(|source| !source.is_empty()));
            } else {
                rules.others.push((text(&rule["family"]), text(&rule["table"]), rule["expr"].clone()));
            }
        }
        if let Some(chain) = item.get("chain")
            && chain["table"] != TABLE
            && chain["hook"] == "input"
            && chain["policy"] == "drop"
        {
            rules.dropping.push(["family", "table", "name"].map(|field| text(&chain[field])));
        }
    }
    Ok(rules)
}

impl Rules {
    /// From where the port is let in by us; `None`: it is not.
    pub(super) fn from(&self, opened: &Opened) -> Option<BTreeSet<String>> {
        self.ours.opened.get(&opened.name()).cloned()
    }

    /// What a person has to add, if another chain drops what is opened.
    pub(super) fn blocks(&self, opened: &Opened) -> Option<String> {
        let Opened { port, protocol, .. } = opened;
        let blocks = |chain: &&[String; 3]| {
            let [family, table, _] = chain;
            let of_table = self.others.iter().filter(|(other, name, _)| other == family && name == table);
            !of_table.into_iter().any(|(_, _, does)| accepts(does, *port, protocol))
        };
        let [family, table, chain] = self.dropping.iter().find(blocks)?;
        Some(format!("nft add rule {family} {table} {chain} {protocol} dport {port} accept"))
    }
}

/// Whether a rule accepts this port, or jumps to a chain that decides.
fn accepts(does: &Value, port: u16, protocol: &str) -> bool {
    let Some(parts) = does.as_array() else { return false };
    let verdict = parts.iter().any(|part| part.get("accept").is_some());
    let of_port = parts.iter().filter_map(|part| part.get("match")).any(|found| {
        let left = &found["left"]["payload"];
        let of_protocol = left["protocol"] == protocol || left["protocol"] == "th";
        of_protocol && left["field"] == "dport" && holds(&found["right"], port)
    });
    verdict && of_port
}

/// Whether a value, a range or a set has the port.
fn holds(value: &Value, port: u16) -> bool {
    match value {
        Value::Number(number) => number.as_u64() == Some(u64::from(port)),
        Value::Object(object) => {
            if let Some([first, last]) = object.get("range").and_then(Value::as_array).map(Vec::as_slice) {
                let within = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
                return (within(first)..=within(last)).contains(&u64::from(port));
            }
            object
                .get("set")
                .and_then(Value::as_array)
                .is_some_and(|set| set.iter().any(|one| holds(one, port)))
        }
        // A named set: its content is not looked at.
        Value::String(name) => name.starts_with('@'),
        _ => false,
    }
}

/// Loads the whole table, in one transaction.
pub(super) fn load(folder: &Path, table: &Table) -> Result<(), Failure> {
    let path = folder.join("firewall.nft");
    let failed =
        |error: std::io::Error| Failure::Failed(format!("{} cannot be written: {error}", path.display()));
    fs::write(&path, table.text()).map_err(failed)?;
    tool("nft", &["--file", &path.display().to_string()]).map(drop)
}

impl Table {
    /// The table, for one transaction: what is there of it is deleted, and all is added again.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![format!("table inet {TABLE}"), format!("delete table inet {TABLE}")];
        if self.opened.is_empty() && self.guarded.is_empty() {
            return lines.join("\n") + "\n";
        }
        lines.push(format!("table inet {TABLE} {{"));
        if !self.opened.is_empty() {
            lines.push("\tchain input {".to_owned());
            lines.push("\t\ttype filter hook input priority filter - 5; policy accept;".to_owned());
            for (name, from) in &self.opened {
                accept(&mut lines, "", name, from);
            }
            lines.push("\t}".to_owned());
        }
        if !self.guarded.is_empty() {
            lines.push(format!("\tchain {GUARD} {{"));
            // Behind the tracking of connections (-200), before a redirection (-100).
            lines.push("\t\ttype filter hook prerouting priority -155; policy accept;".to_owned());
            lines.push("\t\tiifname \"lo\" accept\n\t\tct direction reply accept".to_owned());
            for (name, from) in &self.guarded {
                accept(&mut lines, "fib daddr type local ", name, from);
                if let Some((port, protocol)) = name.split_once('/') {
                    lines.push(format!(
                        "\t\tfib daddr type local {protocol} dport {port} drop comment \"{name}\""
                    ));
                }
            }
            lines.push("\t}".to_owned());
        }
        lines.push("}".to_owned());
        lines.join("\n") + "\n"
    }
}

/// Accepts a port from these places; none: from everywhere.
fn accept(lines: &mut Vec<String>, first: &str, name: &str, from: &BTreeSet<String>) {
    let Some((port, protocol)) = name.split_once('/') else { return };
    if from.is_empty() {
        lines.push(format!("\t\t{first}{protocol} dport {port} accept comment \"{name}\""));
    }
    for source in from {
        let family = if source.contains(':') { "ip6" } else { "ip" };
        lines.push(format!(
            "\t\t{first}{family} saddr {source} {protocol} dport {port} accept comment \"{name} {source}\""
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Opened;
    use super::read;
    use std::collections::{BTreeMap, BTreeSet};

    fn opened(name: &str) -> Opened {
        Opened::new(name, &BTreeSet::new()).unwrap()
    }

    #[test]
    fn a_chain_that_drops_names_the_rule_to_add() {
        let said = r#"{"nftables":[{"metainfo":{}},
            {"chain":{"family":"inet","table":"filter","name":"input","type":"filter","hook":"input","prio":0,"policy":"drop"}},
            {"rule":{"family":"inet","table":"filter","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"set":[22,{"range":[8000,8100]}]}}},{"accept":null}]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"input","comment":"8080/tcp","expr":[]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"input","comment":"53/udp 10.0.0.0/8","expr":[]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"input","comment":"53/udp fd00::/8","expr":[]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"guard","expr":[{"accept":null}]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"guard","comment":"9/tcp 10.0.0.1","expr":[]}},
            {"rule":{"family":"inet","table":"mesh_host","chain":"guard","comment":"9/tcp","expr":[]}}]}"#;
        let rules = read(said).unwrap();
        assert_eq!(rules.from(&opened("8080/tcp")), Some(BTreeSet::new()));
        let both = BTreeSet::from(["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()]);
        assert_eq!(rules.from(&opened("53/udp")), Some(both));
        assert_eq!(rules.from(&opened("99/tcp")), None);
        assert_eq!(rules.from(&opened("9/tcp")), None);
        let guarded = BTreeMap::from([("9/tcp".to_owned(), BTreeSet::from(["10.0.0.1".to_owned()]))]);
        assert_eq!(rules.ours.guarded, guarded);
        assert_eq!((rules.blocks(&opened("8080/tcp")), rules.blocks(&opened("22/tcp"))), (None, None));
        let rule = "nft add rule inet filter input udp dport 53 accept";
        assert_eq!(rules.blocks(&opened("53/udp")).as_deref(), Some(rule));
    }
}

//! What every file of every node has to hold, by what the controller sent and what the vault keeps: filled here once
//! more, by other code than that of the programs.

use super::lab::{ASSIGNMENTS, BOUND, Lab, SETTINGS};
use super::support::client::Client;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// An assignment or settings, by node and module.
type Sent = BTreeMap<(String, String), Value>;

/// Everything that decides what is in a file.
pub(crate) struct Judge {
    assignments: Sent,
    settings: Sent,
    bound: BTreeMap<String, Value>,
    /// By node, module and name; a credential as JSON.
    pub(crate) secrets: BTreeMap<(String, String, String), String>,
}

fn bucket(client: &Client, name: &str) -> BTreeMap<String, Value> {
    let stored = client.kv_keys(name).into_iter().filter_map(|key| {
        let stored = client.kv_get(name, &key)?;
        let value = serde_json::from_slice(&stored.value).ok()?;
        stored.header("KV-Operation").is_none().then_some((key, value))
    });
    stored.collect()
}

fn sent(client: &Client, name: &str) -> Sent {
    let split = |(key, value): (String, Value)| {
        let (node, module) = key.split_once('.').expect("a node and a module");
        ((node.to_owned(), module.to_owned()), value)
    };
    bucket(client, name).into_iter().map(split).collect()
}

fn member<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, part| &value[part])
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Judge {
    /// Reads the buckets, and has the vault's recovery copies opened with the operator's key.
    #[track_caller]
    pub(crate) fn read(lab: &Lab) -> Self {
        let client = lab.role("administrator");
        let mut judge = Self {
            assignments: sent(&client, ASSIGNMENTS),
            settings: sent(&client, SETTINGS),
            bound: bucket(&client, BOUND),
            secrets: BTreeMap::new(),
        };
        let (copies, out, key) = (lab.path("copies.json"), lab.path("opened"), lab.path("keys/recovery.xk"));
        fs::remove_file(&copies).ok();
        lab.controller(&["secret", "export", "--out", &copies]);
        for ((node, module), assignment) in &judge.assignments {
            for need in assignment["needs"].as_array().into_iter().flatten() {
                if need["kind"] == "secret" {
                    let name = need["name"].as_str().expect("a name");
                    fs::remove_file(&out).ok();
                    let open = [
                        "secret",
                        "recover",
                        node,
                        module,
                        name,
                        "--key",
                        &key,
                        "--from-export",
                        &copies,
                        "--out",
                        &out,
                    ];
                    lab.controller(&open);
                    let value = fs::read_to_string(&out).expect("the secret");
                    judge.secrets.insert((node.clone(), module.clone(), name.to_owned()), value);
                }
            }
        }
        fs::remove_file(&out).ok();
        judge
    }

    /// The text of every file that this writes as a whole, by node and path.
    pub(crate) fn files(&self) -> BTreeMap<(String, String), String> {
        let mut files = BTreeMap::new();
        for ((node, module), assignment) in &self.assignments {
            for resource in assignment["resources"].as_array().into_iter().flatten() {
                if resource["type"] == "file"
                    && resource["path"].is_string()
                    && resource["create-once"] != true
                {
                    let plain =
                        |from: &Value| self.fill(node, module, from.as_str().expect("text"), resource);
                    files.insert((node.clone(), plain(&resource["path"])), plain(&resource["content"]));
                }
            }
        }
        files
    }

    fn fill(&self, node: &str, module: &str, from: &str, resource: &Value) -> String {
        let mut filled = String::new();
        let mut rest = from;
        while let Some(at) = rest.find("${") {
            let (before, behind) = rest.split_at(at);
            filled.push_str(before);
            let end = behind.find('}').unwrap_or(0);
            let found = behind[2..].get(..end.saturating_sub(2)).and_then(|inside| inside.split_once(':'));
            let value = found.and_then(|(kind, name)| self.value(node, module, kind, name, resource));
            match value {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(&behind[..=end]),
            }
            rest = &behind[end + 1..];
        }
        filled + rest
    }

    /// What is put in for a placeholder; nothing if it is not declared.
    fn value(&self, node: &str, module: &str, kind: &str, name: &str, resource: &Value) -> Option<String> {
        let at = (node.to_owned(), module.to_owned());
        let assignment = &self.assignments[&at];
        let first = name.split('.').next().expect("a part");
        let needs = assignment["needs"].as_array()?;
        let is_meant =
            |need: &&Value| need["kind"] == kind && (need["name"] == name || need["name"] == first);
        let need = needs.iter().find(is_meant)?;
        let inside = |value: &Value| {
            let text = text(value);
            if resource["encode"] == "json" {
                let quoted = Value::String(text).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            } else {
                text
            }
        };
        Some(match kind {
            "dir" | "port" | "machine" | "seat" | "access" => text(&assignment["placement"][kind][name]),
            "config" => {
                let value = member(&self.settings[&at], name);
                match resource["insert"][format!("config:{name}")].as_str() {
                    Some("toml") => {
                        let lines =
                            value.as_object()?.iter().map(|(name, value)| format!("{name} = {value}"));
                        lines.collect::<Vec<_>>().join("\n")
                    }
                    _ => inside(value),
                }
            }
            "bound" => {
                let provision = need["provision"].as_str()?;
                let value = &self.bound[&format!("{node}.{module}.{provision}.{first}")];
                inside(member(value, name.split_once('.').map_or("", |(_, path)| path)))
            }
            "secret" => {
                let secret = &self.secrets[&(node.to_owned(), module.to_owned(), first.to_owned())];
                match name.split_once('.') {
                    Some((_, path)) => inside(member(&serde_json::from_str(secret).ok()?, path)),
                    None => secret.clone(),
                }
            }
            "consumers" => self.consumers(need),
            "collected" => {
                let items: Vec<String> = self.collected(node, name).iter().map(ToString::to_string).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let items = self.collected(node, &format!("{kind}:{name}"));
                let lines = items.iter().flat_map(|item| match &item["lines"] {
                    Value::Array(lines) => lines.iter().map(text).collect(),
                    _ => vec![text(item)],
                });
                lines.collect::<Vec<_>>().join("\n")
            }
        })
    }

    fn consumers(&self, need: &Value) -> String {
        let entry = |of: &Value| {
            let part = |name: &str| text(&of[name]);
            let secret = &self.secrets[&(part("node"), part("module"), part("name"))];
            let credential: Value = serde_json::from_str(secret).expect("a credential");
            // In this order.
            format!(
                r#"{{"node":{},"module":{},"name":{},"user":{},"password":{}}}"#,
                of["node"], of["module"], of["name"], credential["user"], credential["password"]
            )
        };
        let entries: Vec<String> = need["of"].as_array().into_iter().flatten().map(entry).collect();
        format!("[{}]", entries.join(","))
    }

    /// The items of a collection on a node, in their order.
    fn collected(&self, node: &str, name: &str) -> Vec<Value> {
        let mut items = Vec::new();
        for ((at, module), assignment) in &self.assignments {
            for item in assignment["contributes"].as_array().into_iter().flatten() {
                if at == node && item["collection"] == name {
                    let filled = self.fill(node, module, &item["item"].to_string(), &Value::Null);
                    let filled: Value = serde_json::from_str(&filled).expect("an item");
                    items.push((filled["order"].as_i64(), module, filled));
                }
            }
        }
        items.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        items.into_iter().map(|(_, _, item)| item).collect()
    }
}

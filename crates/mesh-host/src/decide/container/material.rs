//! What the digest of a container is made from: everything that reaches the command line, and what it reads.

use crate::decide::View;
use crate::digest::Digest;
use crate::facts::{Answer, PathAnswer, Question};
use crate::record::Written;
use crate::target::{Kind, Target};
use mesh_model::resource::Container;
use serde_json::{Value, json};

/// The digest that the label has: `v2:` and 64 hexadecimal digits.
pub(super) fn label(digest: &Digest) -> String {
    format!("v2:{}", digest.as_str().trim_start_matches("keyed:"))
}

/// The digest of all that the container is made from. Ids, labels and generated paths are not in it.
pub(super) fn digest(container: &Container, env: Option<&Digest>, view: &View<'_>) -> Digest {
    let mut declared = serde_json::to_value(container).unwrap_or_default();
    if let Value::Object(members) = &mut declared {
        members.remove("restart-on");
        // Its values are in the digest of the environment file.
        members.remove("env");
        members.remove("insert");
    }
    let mut follows: Vec<String> =
        container.restart_on.iter().filter_map(|id| recorded(id.as_str(), view)).collect();
    follows.sort_unstable();
    let env_files = container.env_file.iter().map(ToString::to_string);
    let mut files: Vec<(String, String)> = super::sources(container)
        .into_iter()
        .chain(env_files)
        .filter_map(|path| Some((path.clone(), content(&path, view)?)))
        .collect();
    files.sort_unstable();
    files.dedup();
    let material = json!({
        "v": 2, "container": declared, "env": env.map(Digest::as_str), "files": files, "restart-on": follows,
    });
    let mut text = String::new();
    canonical(&material, &mut text);
    Digest::keyed(view.key, text.as_bytes())
}

/// The digest of a resource in its `restart-on`, as it is recorded. Ids are not in it: they change when a bundle's resource
/// becomes a module's.
fn recorded(id: &str, view: &View<'_>) -> Option<String> {
    let record = view.memory.records.values().find(|record| record.id == id)?;
    match &record.written {
        Written::File { digest, mode, .. } => Some(format!("{digest} {mode:04o}")),
        Written::Into { digest, .. } => Some(digest.to_string()),
        Written::Container(container) => Some(container.digest.to_string()),
        Written::Directory { mode, .. } => Some(format!("{mode:04o}")),
        _ => None,
    }
}

/// The digest of a file that it reads: the recorded one if this host has one, else of what is there. `None`: it is no
/// regular file.
fn content(path: &str, view: &View<'_>) -> Option<String> {
    // Of a create-once file it is what it began with, of keys in a file those that were set.
    if let Some(Written::File { digest, .. }) =
        view.memory.records.get(&Target::new(Kind::File, path)).map(|record| &record.written)
    {
        return Some(digest.to_string());
    }
    let ours = view.memory.records.values().filter_map(|record| match &record.written {
        Written::Into { path: into, digest, .. } if into == path => Some(digest.as_str()),
        _ => None,
    });
    let mut ours: Vec<_> = ours.collect();
    ours.sort_unstable();
    if !ours.is_empty() {
        return Some(ours.join(","));
    }
    match view.facts.get(&question(path)) {
        Some(Answer::Path(PathAnswer { found: Some(fact), .. })) if fact.is_regular() => {
            Some(fact.digests.as_ref().map(|digests| digests.plain.to_string()).unwrap_or_default())
        }
        _ => None,
    }
}

/// The question about a file or directory that is mounted or read.
pub(super) fn question(path: &str) -> Question {
    Question::Content { path: path.to_owned(), keyed: false }
}

/// JSON without spaces, its members sorted.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (place, (name, value)) in members.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

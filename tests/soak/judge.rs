//! Whether an answer may be given, by what was written until then.

use super::model::{Content, Possible, View};
use super::writer::UNANSWERED_KIND;
use mesh_model::bucket::Bucket;
use mesh_model::registry::ENTRIES;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What narrows a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) node: Option<&'static str>,
    pub(crate) module: Option<&'static str>,
    pub(crate) kind: Option<&'static str>,
}

impl Reach {
    fn holds(&self, bucket: Bucket, names: &[String]) -> bool {
        let module = if bucket == Bucket::Collect { 2 } else { 1 };
        let fits = |filter: Option<&str>, at: usize| filter.is_none_or(|filter| names[at] == filter);
        fits(self.node, 0) && fits(self.module, module) && (self.kind.is_none() || fits(self.kind, 2))
    }
}

fn may_be_absent(possible: &[Possible]) -> bool {
    possible.iter().any(|possible| possible.content.is_none())
}

fn may_be_there(possible: &[Possible]) -> bool {
    possible.iter().any(|possible| possible.content.is_some())
}

/// One page of entries: each is one that may be, none is missing, and their order is that of the keys.
pub(crate) fn page(
    bucket: Bucket,
    reach: &Reach,
    only_gaps: bool,
    after: Option<&str>,
    view: &View,
    body: &Value,
) -> Result<(), String> {
    let next = body["next"].as_str();
    let in_page = |key: &str| after.is_none_or(|after| key > after) && next.is_none_or(|next| key <= next);
    let mut listed = BTreeSet::new();
    let mut last = after.unwrap_or_default();
    for entry in list(body, "entries")? {
        let key = text(entry, "key")?;
        if key <= last || !in_page(key) {
            return Err(format!("{key} does not belong between {last:?} and {next:?}"));
        }
        last = key;
        let names = bucket.parse(key).map_err(|malformed| format!("{key} is an entry: {malformed:?}"))?;
        let wanted = reach.holds(bucket, &names);
        if !wanted {
            return Err(format!("{key} is not within {reach:?}"));
        }
        let possible = view.get(key).ok_or_else(|| format!("{key} was never written"))?;
        if !possible.iter().any(|possible| says(entry, possible, !only_gaps)) {
            return Err(format!("{key}: {entry} is not one of {possible:?}"));
        }
        listed.insert(key);
    }
    let malformed: BTreeSet<&str> =
        list(body, "malformed")?.iter().filter_map(|malformed| malformed["key"].as_str()).collect();
    for (key, possible) in view.iter().filter(|(key, possible)| in_page(key) && !may_be_absent(possible)) {
        let said = if let Ok(names) = bucket.parse(key) {
            let asked = reach.holds(bucket, &names) && (!only_gaps || names[2] == UNANSWERED_KIND);
            !asked || listed.contains(key.as_str())
        } else {
            let of_node = reach.node.is_none_or(|node| key.split('.').next() == Some(node));
            let asked = of_node && reach.module.is_none() && reach.kind.is_none();
            !asked || malformed.contains(key.as_str())
        };
        if !said {
            return Err(format!("{key} is missing: {possible:?}"));
        }
    }
    Ok(())
}

fn says(entry: &Value, possible: &Possible, with_value: bool) -> bool {
    let Some(content) = &possible.content else { return false };
    let value = match &**content {
        Content::Json(value) => entry["value"] == *value && entry.get("text").is_none(),
        Content::Text(text) => entry["text"] == *text && entry.get("value").is_none(),
    };
    let revision = possible.revision.is_none_or(|revision| entry["revision"] == revision);
    revision && (value || !with_value)
}

/// The registry: every kind as it is compiled in, but for what somebody else has just written there.
pub(crate) fn registry(body: &Value, touched: &BTreeSet<String>) -> Result<(), String> {
    let mut there = BTreeMap::new();
    for entry in list(body, "entries")? {
        there.insert(text(entry, "kind")?, entry);
    }
    for right in ENTRIES.iter().filter(|right| !touched.contains(right.kind)) {
        let Some(entry) = there.get(right.kind) else { return Err(format!("{} is missing", right.kind)) };
        let mut entry = (*entry).clone();
        for field in ["revision", "at"] {
            entry
                .as_object_mut()
                .and_then(|entry| entry.remove(field))
                .ok_or_else(|| format!("no {field}"))?;
        }
        if !right.says_the_same_as(entry.to_string().as_bytes()) {
            return Err(format!("{}: {entry}", right.kind));
        }
    }
    let strange = there
        .keys()
        .find(|kind| !touched.contains(**kind) && !ENTRIES.iter().any(|right| right.kind == **kind));
    strange.map_or(Ok(()), |kind| Err(format!("the kind {kind} was never written")))
}

/// How many keys with these names there must be, and how many there may be.
fn count(bucket: Bucket, view: &View, of: impl Fn(&[String]) -> bool) -> (u64, u64) {
    let mut bounds = (0, 0);
    for (key, possible) in view {
        if bucket.parse(key).is_ok_and(|names| of(&names)) {
            bounds.0 += u64::from(!may_be_absent(possible));
            bounds.1 += u64::from(may_be_there(possible));
        }
    }
    bounds
}

fn within(what: &str, got: &Value, (least, most): (u64, u64)) -> Result<(), String> {
    match got.as_u64() {
        Some(got) if (least..=most).contains(&got) => Ok(()),
        _ => Err(format!("{what} is {got}, not between {least} and {most}")),
    }
}

/// `nodes`: how many keys each node has.
pub(crate) fn nodes(body: &Value, node: Option<&str>, views: &BTreeMap<Bucket, View>) -> Result<(), String> {
    let entries = list(body, "entries")?;
    for expected in
        super::support::accounts::NODES.iter().filter(|name| node.is_none_or(|node| node == **name))
    {
        let row = entries.iter().find(|row| row["node"] == **expected);
        let row = row.ok_or_else(|| format!("the node {expected} is missing"))?;
        for (bucket, view) in views {
            let bounds = count(*bucket, view, |names| names[0] == **expected);
            within(&format!("{expected} {}", bucket.suffix()), &row[bucket.suffix()], bounds)?;
        }
    }
    Ok(())
}

/// `drift`: the state of each module, where what was written leaves only one.
pub(crate) fn drift(body: &Value, node: Option<&str>, views: &BTreeMap<Bucket, View>) -> Result<(), String> {
    for row in list(body, "entries")? {
        let (of, module) = (text(row, "node")?, text(row, "module")?);
        if node.is_some_and(|node| node != of) {
            return Err(format!("{of} was not asked for"));
        }
        let mine = |names: &[String]| names[0] == of && names[1] == module;
        let what = format!("{of} {module}");
        within(&what, &row["needs"], count(Bucket::Needs, &views[&Bucket::Needs], mine))?;
        if let Some(expected) = only_state(views, mine)
            && row["state"] != expected
        {
            return Err(format!("{what} is {}, not {expected}", row["state"]));
        }
    }
    Ok(())
}

/// The one state that a module can be in, if there is but one.
fn only_state(views: &BTreeMap<Bucket, View>, mine: impl Fn(&[String]) -> bool) -> Option<&'static str> {
    let newest = |bucket: Bucket| -> Option<Option<u64>> {
        let mut newest = None;
        for (key, possible) in &views[&bucket] {
            if bucket.parse(key).is_ok_and(|names| mine(&names)) {
                let [only] = &possible[..] else { return None };
                newest = newest.max(only.content.is_some().then_some(only.number));
            }
        }
        Some(newest)
    };
    Some(match (newest(Bucket::Needs)?, newest(Bucket::Applied)?) {
        (None, _) => "orphan",
        (Some(_), None) => "never",
        (Some(needed), Some(applied)) if needed > applied => "unapplied",
        _ => "current",
    })
}

/// `collections`: who contributes to each.
pub(crate) fn collections(body: &Value, views: &BTreeMap<Bucket, View>) -> Result<(), String> {
    let mut told = BTreeMap::new();
    for row in list(body, "entries")? {
        let contributors: BTreeSet<&str> =
            list(row, "contributors")?.iter().filter_map(Value::as_str).collect();
        told.insert((text(row, "node")?, text(row, "collection")?), contributors);
    }
    for (key, possible) in &views[&Bucket::Collect] {
        let Ok(names) = Bucket::Collect.parse(key) else { continue };
        let row = told.get(&(names[0].as_str(), names[1].as_str()));
        let said = row.is_some_and(|contributors| contributors.contains(names[2].as_str()));
        if (said && !may_be_there(possible)) || (!said && !may_be_absent(possible)) {
            return Err(format!("{key} contributes: {said}, but {possible:?}"));
        }
    }
    Ok(())
}

fn list<'a>(body: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    body[field].as_array().ok_or_else(|| format!("no {field} in {body}"))
}

fn text<'a>(entry: &'a Value, field: &str) -> Result<&'a str, String> {
    entry[field].as_str().ok_or_else(|| format!("no {field} in {entry}"))
}

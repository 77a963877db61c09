//! Whether an answer to `drift`, `nodes` or `collections` is true: each row lies between what was there from the request
//! to the answer and what was there at some time, and is exactly that if nothing was written meanwhile.

use super::{AsOf, History, histories, within};
use crate::bus::{Bus, Verdict, Version};
use crate::keys::spell;
use mesh_model::bucket::Bucket;
use mesh_model::name;
use mesh_provisioner_api::request::{Ask, What};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Page {
    entries: Vec<Value>,
    malformed: Vec<Value>,
    malformed_total: usize,
    next: Option<String>,
    ok: bool,
    as_of: BTreeMap<String, AsOf>,
}

/// Fewer bytes of complaints than these fit any page.
const MOST_COMPLAINTS: usize = 2 * 1024;

/// What is known of a row.
#[derive(Debug, Default)]
struct Row {
    /// It stands in the answer for certain.
    surely: bool,
    /// The fewest and the most of what is counted in each field.
    counts: BTreeMap<&'static str, (usize, usize)>,
    /// The newest time in each field, if nothing was written meanwhile.
    times: BTreeMap<&'static str, String>,
    /// The names in each field, and whether each stands there for certain.
    sets: BTreeMap<&'static str, BTreeMap<String, bool>>,
}

/// What the buckets hold for an answer.
#[derive(Default)]
struct Truth {
    rows: BTreeMap<String, Row>,
    /// The malformed keys: bucket, key as it is shown, and whether each is there for certain and at all.
    malformed: Vec<(&'static str, String, bool, bool)>,
    /// Nothing was written meanwhile.
    quiet: bool,
}

const fn buckets(what: What) -> &'static [Bucket] {
    match what {
        What::Nodes => &[Bucket::Needs, Bucket::Applied, Bucket::Collect],
        What::Collections => &[Bucket::Collect, Bucket::Needs],
        _ => &[Bucket::Needs, Bucket::Applied],
    }
}

/// Holds the answer to `ask`, which came at the step `from`, against the bus. Gives where the next page goes on.
pub(crate) fn survey(bus: &mut Bus, ask: &Ask, from: u64, body: &[u8]) -> Verdict<Option<String>> {
    let page: Page = serde_json::from_slice(body)
        .map_err(|why| format!("not a page: {why}: {}", String::from_utf8_lossy(body)))?;
    for bucket in buckets(ask.what) {
        let as_of = page.as_of.get(bucket.suffix()).ok_or_else(|| format!("no state of {bucket}"))?;
        as_of.is_true(bus.stream(*bucket), from)?;
    }
    let truth = Truth::of(bus, ask, from);
    if ask.limit.is_some_and(|limit| page.entries.len() > limit) {
        return Err("more entries than asked for".to_owned());
    }
    let mut given = BTreeSet::new();
    let mut last = ask.after.clone();
    for entry in &page.entries {
        let place = place(ask.what, entry)?;
        if last.as_ref().is_some_and(|last| *last >= place) {
            return Err(format!("the row {place:?} stands behind {last:?}"));
        }
        let row = truth.rows.get(&place).ok_or_else(|| format!("the row {place:?} was never there"))?;
        row.is_given(entry, truth.quiet).map_err(|why| format!("the row {place:?}: {why}: {entry}"))?;
        state_is_right(ask.what, entry).map_err(|why| format!("the row {place:?}: {why}: {entry}"))?;
        given.insert(place.clone());
        last = Some(place);
    }
    let last = last.into_iter().chain(page.malformed.last().map(|one| text(one, "key").to_owned())).max();
    if page.next.is_some() && page.next != last {
        return Err(format!("it goes on behind {:?} and ends with {last:?}", page.next));
    }
    let in_page = |place: &String| {
        ask.after.as_ref().is_none_or(|after| place > after)
            && page.next.as_ref().is_none_or(|next| place <= next)
    };
    let missing =
        truth.rows.iter().find(|(place, row)| row.surely && in_page(place) && !given.contains(*place));
    if let Some((place, row)) = missing {
        return Err(format!("the row {place:?} was there all the time and is not in the answer: {row:?}"));
    }
    let is_ok = page.malformed_total == 0 && page.entries.iter().all(|entry| entry_is_ok(ask.what, entry));
    let is_whole = ask.after.is_none() && page.next.is_none();
    let has_malformed = truth.malformed.iter().any(|(.., surely, _)| *surely);
    if page.ok && (!is_ok || has_malformed) || is_whole && page.ok != is_ok {
        return Err(format!("ok is {}", page.ok));
    }
    truth.holds_complaints(ask, &page)?;
    Ok(page.next)
}

impl Truth {
    fn of(bus: &mut Bus, ask: &Ask, from: u64) -> Self {
        let mut truth = Truth { quiet: true, ..Truth::default() };
        // A module narrows which collections are shown, not which keys count.
        let narrowed = match ask.what {
            What::Collections => Ask { module: None, ..ask.clone() },
            _ => ask.clone(),
        };
        for bucket in buckets(ask.what) {
            let versions = &bus.stream(*bucket).versions;
            truth.quiet &= versions.iter().all(|version| version.from < from);
            for history in histories(versions, from) {
                if !within(*bucket, &narrowed, &history.shown) {
                    continue;
                }
                if let Some(names) = &history.key.names {
                    truth.count(ask.what, *bucket, names, &history, from);
                    continue;
                }
                // The bus gives the list for a node without the key that is the node's name alone.
                let listed = ask.node.is_none() || history.shown.contains('.');
                let surely = history.throughout && listed;
                let maybe = history.ever || history.key.is_elusive();
                truth.malformed.push((bucket.suffix(), history.shown.clone(), surely, maybe));
                if ask.what == What::Nodes {
                    truth.count_malformed(&history.shown, surely, maybe);
                }
            }
        }
        if ask.what == What::Collections
            && let Some(module) = &ask.module
        {
            truth.rows.retain(|_, row| {
                let shown = row.sets.values().filter_map(|names| names.get(module));
                row.surely &= shown.clone().any(|surely| *surely);
                shown.count() > 0
            });
        }
        truth
    }

    /// Counts a key in shape.
    fn count(&mut self, what: What, bucket: Bucket, names: &[String], history: &History<'_>, from: u64) {
        let stored = |version: &&&Version| version.sequence > 0;
        let has_message = history.versions.iter().any(|version| version.sequence > 0);
        if !(history.ever || what == What::Nodes && has_message) {
            return;
        }
        let reads = collection_read(names);
        let place = match (what, bucket) {
            (What::Nodes, _) => spell(&names[0]),
            (What::Collections, Bucket::Collect) => format!("{}.{}", spell(&names[0]), spell(&names[1])),
            (What::Collections, _) => {
                let Some(collection) = reads else { return };
                format!("{}.{}", spell(&names[0]), spell(&collection))
            }
            _ => format!("{}.{}", spell(&names[0]), spell(&names[1])),
        };
        let row = self.rows.entry(place).or_insert_with(|| Row::of(what));
        row.surely |= history.throughout;
        let newest = history.versions.iter().rfind(stored).map(|version| version.time.as_str());
        let newest = newest.unwrap_or_default();
        match (what, bucket) {
            (What::Collections, bucket) => {
                let (field, name) = match bucket {
                    Bucket::Collect => ("contributors", &names[2]),
                    _ => ("readers", &names[1]),
                };
                *row.sets.entry(field).or_default().entry(name.clone()).or_default() |= history.throughout;
            }
            (What::Nodes, bucket) => {
                // A deletion is a write, too.
                row.surely |= history.versions[0].from < from
                    && history.versions.iter().all(|version| version.sequence > 0);
                row.add(bucket.suffix(), history);
                row.keep_later("last_write_at", newest);
            }
            (_, Bucket::Needs) => {
                row.add("needs", history);
                row.keep_later("needed_at", newest);
            }
            _ => row.keep_later("applied_at", newest),
        }
    }

    /// Counts a malformed key of the node that its first token names, if it names one.
    fn count_malformed(&mut self, shown: &str, surely: bool, maybe: bool) {
        let token = shown.split('.').next().unwrap_or_default();
        if !maybe || name::decode(token).map(|name| spell(&name)).as_deref() != Ok(token) {
            return;
        }
        let row = self.rows.entry(token.to_owned()).or_insert_with(|| Row::of(What::Nodes));
        row.surely |= surely;
        let (fewest, most) = row.counts.entry("malformed").or_default();
        *fewest += usize::from(surely);
        *most += 1;
    }

    fn holds_complaints(&self, ask: &Ask, page: &Page) -> Verdict<()> {
        let in_page = |key: &str| {
            ask.after.as_deref().is_none_or(|after| key > after)
                && page.next.as_deref().is_none_or(|next| key <= next)
        };
        let here = || self.malformed.iter().filter(|(_, key, ..)| in_page(key));
        let fewest = here().filter(|(.., surely, _)| *surely).count();
        let most = here().filter(|(.., maybe)| *maybe).count();
        let total = page.malformed_total;
        if total < fewest || total > most && (self.quiet || most == 0) {
            return Err(format!("{total} malformed where {fewest} to {most} are, quiet: {}", self.quiet));
        }
        // There may be room for some of them only.
        let shown: usize = page.malformed.iter().map(|complaint| complaint.to_string().len()).sum();
        let listed = if shown < MOST_COMPLAINTS { total.min(100) } else { page.malformed.len() };
        if page.malformed.len() != listed || listed > total.min(100) {
            return Err(format!("{} of {total} malformed are listed", page.malformed.len()));
        }
        let is_known = |complaint: &&Value| {
            let (bucket, key) = (text(complaint, "bucket"), text(complaint, "key"));
            in_page(key) && self.malformed.iter().any(|known| known.0 == bucket && known.1 == key)
        };
        match page.malformed.iter().find(|complaint| !is_known(complaint)) {
            Some(complaint) => Err(format!("a complaint of what is not there: {complaint}")),
            None => Ok(()),
        }
    }
}

impl Row {
    /// A row of which nothing is known yet.
    fn of(what: What) -> Self {
        let (counts, sets): (&[_], &[_]) = match what {
            What::Nodes => (&["needs", "applied", "collect", "malformed"], &[]),
            What::Collections => (&[], &["contributors", "readers"]),
            _ => (&["needs"], &[]),
        };
        Row {
            counts: counts.iter().map(|field| (*field, (0, 0))).collect(),
            sets: sets.iter().map(|field| (*field, BTreeMap::new())).collect(),
            ..Row::default()
        }
    }

    fn add(&mut self, field: &'static str, history: &History<'_>) {
        let (fewest, most) = self.counts.entry(field).or_default();
        *fewest += usize::from(history.throughout);
        *most += usize::from(history.ever);
    }

    fn keep_later(&mut self, field: &'static str, time: &str) {
        let latest = self.times.entry(field).or_default();
        // Without the letter after it the fraction is compared digit by digit.
        if latest.trim_end_matches('Z') < time.trim_end_matches('Z') {
            time.clone_into(latest);
        }
    }

    fn is_given(&self, entry: &Value, quiet: bool) -> Verdict<()> {
        for (field, (fewest, most)) in &self.counts {
            let count = entry[*field].as_u64().and_then(|count| usize::try_from(count).ok());
            if !count.is_some_and(|count| (*fewest..=*most).contains(&count)) {
                return Err(format!("{field:?} is not {fewest} to {most}"));
            }
        }
        for (field, names) in &self.sets {
            let given: BTreeSet<&str> = listed(entry, field).collect();
            if given.iter().any(|name| !names.contains_key(*name)) {
                return Err(format!("{field:?} has more than {names:?}"));
            }
            if names.iter().any(|(name, surely)| *surely && !given.contains(name.as_str())) {
                return Err(format!("{field:?} has less than {names:?}"));
            }
        }
        if quiet {
            let times = ["needed_at", "applied_at", "last_write_at"];
            let wrong = times.into_iter().find(|field| {
                entry.get(*field).and_then(Value::as_str) != self.times.get(field).map(String::as_str)
            });
            if let Some(field) = wrong {
                return Err(format!("{field:?} is not {:?}", self.times.get(field)));
            }
        }
        Ok(())
    }
}

/// The collection that a need with these names reads.
fn collection_read(names: &[String]) -> Option<String> {
    match names.get(2)?.as_str() {
        "collected" => names.get(3).cloned(),
        kind @ ("shell" | "environment" | "contribution") => Some(format!("{kind}:{}", names.get(3)?)),
        _ => None,
    }
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn listed<'a>(entry: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    entry[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Where a row stands among the others.
fn place(what: What, entry: &Value) -> Verdict<String> {
    let fields: &[&str] = match what {
        What::Nodes => &["node"],
        What::Collections => &["node", "collection"],
        _ => &["node", "module"],
    };
    let tokens: Option<Vec<String>> =
        fields.iter().map(|field| Some(spell(entry.get(field)?.as_str()?))).collect();
    tokens.map(|tokens| tokens.join(".")).ok_or_else(|| format!("no row: {entry}"))
}

/// Whether a row's state is what its other fields say.
fn state_is_right(what: What, entry: &Value) -> Verdict<()> {
    let bare = |time: &'static str| text(entry, time).trim_end_matches('Z');
    let has = |field: &str| listed(entry, field).next().is_some();
    let state = match what {
        What::Nodes => return Ok(()),
        What::Collections => match (has("contributors"), has("readers")) {
            (true, true) => "read",
            (true, false) => "unread",
            (false, true) => "unfed",
            (false, false) => return Err("nobody contributes and nobody reads".to_owned()),
        },
        _ => match (bare("needed_at"), bare("applied_at")) {
            ("", "") => return Err("nothing is needed and nothing applied".to_owned()),
            ("", _) if text(entry, "state") == "current" => "current",
            ("", _) => "orphan",
            (_, "") => "never",
            (needed, applied) if needed > applied => "unapplied",
            _ => "current",
        },
    };
    if text(entry, "state") == state { Ok(()) } else { Err(format!("its state is not {state:?}")) }
}

fn entry_is_ok(what: What, entry: &Value) -> bool {
    match what {
        What::Nodes => entry["malformed"] == 0,
        _ => matches!(text(entry, "state"), "current" | "read"),
    }
}

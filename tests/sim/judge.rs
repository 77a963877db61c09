//! Whether an answer is true. The judge knows what was on the bus at every step, and holds each page against it: every
//! key that was there from the request to the answer stands in it once, and nothing stands in it that was never there.

mod survey;

pub(crate) use survey::survey;

use crate::bus::{Bus, Stream, Verdict, Version};
use crate::keys::{Key, spell};
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::request::{Ask, What};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

type Fields<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    entries: Vec<Fields<'a>>,
    #[serde(borrow)]
    malformed: Vec<Fields<'a>>,
    malformed_total: usize,
    next: Option<String>,
    ok: Option<bool>,
    as_of: AsOf,
}

/// The state of a bucket that an answer speaks of.
#[derive(Deserialize)]
struct AsOf {
    sequence: u64,
    at: Option<String>,
}

/// What happened to one key while a request was under way.
struct History<'a> {
    key: &'a Key,
    shown: String,
    versions: Vec<&'a Version>,
    /// It was there all the time.
    throughout: bool,
    /// It was there at some time.
    ever: bool,
}

/// Holds the answer to `ask`, which came at the step `from`, against the bus. Gives where the next page goes on.
pub(crate) fn page(bus: &mut Bus, ask: &Ask, from: u64, body: &[u8]) -> Verdict<Option<String>> {
    let page: Page<'_> = serde_json::from_slice(body)
        .map_err(|why| format!("not a page: {why}: {}", String::from_utf8_lossy(body)))?;
    let bucket = match ask.what {
        What::Registry => Bucket::Registry,
        What::Applied => Bucket::Applied,
        What::Collect => Bucket::Collect,
        _ => Bucket::Needs,
    };
    let kinds = Kinds::of(ask.what, bus, from);
    let quiet = kinds.quiet && bus.stream(bucket).versions.iter().all(|version| version.from < from);
    let stream = bus.stream(bucket);
    page.as_of.is_true(stream, from)?;
    let histories = histories(&stream.versions, from);
    let in_page = |shown: &str| {
        ask.after.as_deref().is_none_or(|after| shown > after)
            && page.next.as_deref().is_none_or(|next| shown <= next)
    };
    if page.next.as_ref().is_some_and(|next| ask.after.as_ref().is_some_and(|after| next <= after)) {
        return Err("a page that does not get on".to_owned());
    }
    if ask.limit.is_some_and(|limit| page.entries.len() > limit) {
        return Err("more entries than asked for".to_owned());
    }
    let is_read = page.malformed_total == 0 && page.next.is_none();
    // Whether a need waits for too long depends on a clock that is not the bus's.
    let may_be_ok =
        is_read && page.entries.iter().all(|entry| text(entry, "gap").is_ok_and(|gap| gap == "waiting"));
    let is_ok = is_read && page.entries.is_empty();
    if page.ok.is_some() != (ask.what == What::Gaps)
        || page.ok.is_some_and(|ok| ok && !may_be_ok || !ok && is_ok)
    {
        return Err(format!("ok is {:?}", page.ok));
    }

    let by_key: BTreeMap<&str, &History<'_>> = histories
        .iter()
        .filter(|history| history.key.names.is_some())
        .map(|history| (history.shown.as_str(), history))
        .collect();
    let mut given = BTreeSet::new();
    let mut faults = 0;
    let mut last: Option<String> = None;
    for entry in &page.entries {
        let key = key_of(bucket, entry)?;
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(format!("{key:?} stands behind {last:?}"));
        }
        if !in_page(&key) || !within(bucket, ask, &key) {
            return Err(format!("{key:?} was not asked for"));
        }
        let history = by_key.get(key.as_str()).ok_or_else(|| format!("{key:?} was never there"))?;
        if !kinds.may_be_gap(history.key) && !history.versions.iter().any(|version| waits(version)) {
            return Err(format!("{key:?} is not a gap"));
        }
        if ask.what == What::Gaps {
            gap_is_right(entry, &kinds, history).map_err(|why| format!("{key:?}: {why}"))?;
        }
        faults += entry_is_true(ask.what, entry, history).map_err(|why| format!("{key:?}: {why}"))?;
        given.insert(key.clone());
        last = Some(key);
    }
    let (mut fewest, mut most) = (faults, faults);
    for history in histories.iter().filter(|history| in_page(&history.shown)) {
        let reached = within(bucket, ask, &history.shown);
        if history.key.names.is_some() {
            if history.throughout
                && reached
                && (kinds.must_be_gap(history.key) || history.versions.iter().all(|version| waits(version)))
                && !given.contains(&history.shown)
            {
                return Err(format!("{:?} was there all the time and is not in the answer", history.shown));
            }
        } else if reached {
            // The bus gives the list for a node without the key that is the node's name alone.
            let listed = ask.node.is_none() || history.shown.contains('.');
            fewest += usize::from(history.throughout && listed);
            most += usize::from(history.ever || history.key.is_elusive());
        }
    }
    let total = page.malformed_total;
    if total < fewest || (quiet && total > most) {
        return Err(format!("{total} malformed where {fewest} to {most} are, quiet: {quiet}"));
    }
    if page.malformed.len() != total.min(100) {
        return Err(format!("{} of {total} malformed are listed", page.malformed.len()));
    }
    for complaint in &page.malformed {
        let key = text(complaint, "key")?;
        if !in_page(&key) || !histories.iter().any(|history| history.shown == key) {
            return Err(format!("a complaint of {key:?}, which is not there"));
        }
    }
    Ok(page.next)
}

impl AsOf {
    /// An answer never speaks of a time before its request, which came at the step `from`.
    fn is_true(&self, stream: &Stream, from: u64) -> Verdict<()> {
        let shown = |(_, sequence, time): &(u64, u64, String)| {
            *sequence == self.sequence && self.at.as_ref() == Some(time).filter(|_| *sequence > 0)
        };
        if stream.lasts(from).iter().any(shown) {
            return Ok(());
        }
        if stream.lasts(0).iter().any(shown) {
            return Err(format!(
                "it speaks of the write {} of {}, before its request",
                self.sequence, stream.bucket
            ));
        }
        Err(format!("the write {} of {} was at another time", self.sequence, stream.bucket))
    }
}

/// What was there between the step `from` and now, key by key.
fn histories(versions: &[Version], from: u64) -> Vec<History<'_>> {
    let mut by_key: BTreeMap<&[u8], Vec<&Version>> = BTreeMap::new();
    for version in versions.iter().filter(|version| version.until > from) {
        by_key.entry(&version.key.bytes).or_default().push(version);
    }
    by_key
        .into_values()
        .map(|versions| {
            let named = versions.iter().find(|version| version.key.names.is_some());
            let key = &named.unwrap_or(&versions[0]).key;
            History {
                key,
                shown: key.shown(),
                throughout: versions[0].from < from && versions.iter().all(|version| !version.deleted),
                ever: versions.iter().any(|version| !version.deleted),
                versions,
            }
        })
        .collect()
}

/// For `gaps`: which kinds the registry answered meanwhile.
struct Kinds {
    gaps: bool,
    quiet: bool,
    /// The kinds that were answered all the time, and those that were answered at some time.
    throughout: Vec<String>,
    ever: Vec<String>,
}

impl Kinds {
    fn of(what: What, bus: &mut Bus, from: u64) -> Self {
        let gaps = what == What::Gaps;
        let versions = &bus.stream(Bucket::Registry).versions;
        let histories = histories(versions, from);
        let kinds = |chosen: fn(&History<'_>) -> bool| {
            let those = histories.iter().filter(|history| chosen(history));
            those.filter_map(|history| Some(history.key.names.as_ref()?[0].clone())).collect()
        };
        Kinds {
            gaps,
            quiet: !gaps || versions.iter().all(|version| version.from < from),
            throughout: kinds(|history| history.throughout),
            ever: kinds(|history| history.ever),
        }
    }

    fn kind(key: &Key) -> &String {
        &key.names.as_ref().expect("a need in shape")[2]
    }

    fn may_be_gap(&self, key: &Key) -> bool {
        !self.gaps || !self.throughout.contains(Kinds::kind(key))
    }

    fn must_be_gap(&self, key: &Key) -> bool {
        !self.gaps || !self.ever.contains(Kinds::kind(key))
    }
}

/// Whether this version of a need says that it waits.
fn waits(version: &Version) -> bool {
    version.data.starts_with(br#"{"state":"waiting""#)
}

/// Whether an entry of `gaps` says which gap it is.
fn gap_is_right(entry: &Fields<'_>, kinds: &Kinds, history: &History<'_>) -> Verdict<()> {
    let may_be = match text(entry, "gap")?.as_str() {
        "unanswered" => kinds.may_be_gap(history.key),
        "waiting" => !kinds.must_be_gap(history.key) && text(entry, "why")? == "silent",
        _ => false,
    };
    if may_be { Ok(()) } else { Err(format!("it is not a gap of that kind: {entry:?}")) }
}

/// Whether a key is within the filters of `ask`: names, each in its place.
fn within(bucket: Bucket, ask: &Ask, key: &str) -> bool {
    let mut tokens = key.split('.');
    bucket.token_names().iter().all(|what| {
        let token = tokens.next();
        let filter = match *what {
            "node" => &ask.node,
            "module" | "contributor" => &ask.module,
            "kind" => &ask.kind,
            "collection" => &ask.collection,
            _ => &None,
        };
        filter.as_deref().is_none_or(|filter| token == Some(spell(filter).as_str()))
    })
}

fn text(fields: &Fields<'_>, name: &str) -> Verdict<String> {
    let value = fields.get(name).ok_or_else(|| format!("no field {name:?}"))?;
    serde_json::from_str(value.get()).map_err(|why| format!("{name:?}: {why}"))
}

fn key_of(bucket: Bucket, entry: &Fields<'_>) -> Verdict<String> {
    match bucket {
        Bucket::Registry => Ok(spell(&text(entry, "kind")?)),
        _ => text(entry, "key"),
    }
}

/// Holds an entry against the versions that its key had. Gives how many faults of it are to be counted.
fn entry_is_true(what: What, entry: &Fields<'_>, history: &History<'_>) -> Verdict<usize> {
    let revision: u64 = entry.get("revision").and_then(|raw| raw.get().parse().ok()).ok_or("no revision")?;
    let at = text(entry, "at")?;
    // A bucket that was restored has given a sequence twice.
    let of_that_time = |version: &&&Version| version.sequence == revision && version.time == at;
    let version = history.versions.iter().filter(|version| !version.deleted).find(of_that_time);
    let version = version.ok_or_else(|| format!("the revision {revision} of {at} was not there"))?;
    let data = version.data.as_slice();
    let json = std::str::from_utf8(data).ok().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    let header_fault =
        usize::from(version.headers.contains(&0xff) || version.headers.starts_with(b"NATS/1.0\r\nno"));
    let has = |field: &str| entry.contains_key(field);
    let given = ["value", "text", "base64"].into_iter().filter(|field| has(field)).count();
    if what == What::Gaps {
        return if given == 0 { Ok(header_fault) } else { Err("a gap with a value".to_owned()) };
    }
    let as_stored = match (json, given) {
        // Left out since it is too large for an answer, and said.
        (_, 0) if data.len() > 1_000 => return Ok(header_fault + usize::from(json.is_none()) + 1),
        // A value of the registry that has the shape of an entry stands in the entry field by field.
        (Some(json), 0) if what == What::Registry => {
            let mut fields: serde_json::Map<String, Value> = entry
                .iter()
                .map(|(name, value)| (name.clone(), serde_json::from_str(value.get()).unwrap()))
                .collect();
            fields.remove("revision");
            fields.remove("at");
            serde_json::from_str::<Value>(json.get()).is_ok_and(|stored| stored == Value::Object(fields))
        }
        (_, 0) => return Err("no value".to_owned()),
        (Some(json), 1) => entry.get("value").is_some_and(|value| value.get() == json.get()),
        (None, 1) => match std::str::from_utf8(data) {
            Ok(stored) => text(entry, "text").is_ok_and(|text| text == stored),
            Err(_) => text(entry, "base64").is_ok_and(|text| data_encoding::BASE64.encode(data) == text),
        },
        _ => false,
    };
    if as_stored {
        Ok(header_fault + usize::from(json.is_none()))
    } else {
        Err(format!("not as it is stored: {:.200?}", String::from_utf8_lossy(data)))
    }
}

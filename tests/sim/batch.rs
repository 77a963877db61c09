//! Direct get in batches, as nats-server 2.15 answers it.

use crate::bus::{Bus, Verdict, Version, by_stream, is_pattern};
use crate::keys::shown;
use mesh_provisioner::wire::Outgoing;
use mesh_provisioner::wire::direct::{self, Part};
use serde::Deserialize;
use std::collections::BTreeSet;

/// What the subjects of requests for batches start with.
pub(crate) const DIRECT_GET: &str = "$JS.API.DIRECT.GET.";

/// How many keys one may name.
const MOST_KEYS: usize = 1024;

/// What comes of a message of an answer.
#[derive(Debug)]
pub(crate) enum Arrival {
    Part(Part),
    /// The bus library drops the connection over its headers.
    Breaks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    multi_last: Vec<String>,
    batch: usize,
    max_bytes: usize,
}

/// Answers a request for a batch with what was true at the step `known`, in at most so many bytes and the message
/// that passes them.
pub(crate) fn answer(bus: &Bus, request: &Outgoing, known: u64, most_bytes: usize) -> Verdict<Vec<Arrival>> {
    let bucket = by_stream(request.subject.strip_prefix(DIRECT_GET).unwrap_or_default())?;
    let body: Body = serde_json::from_slice(&request.body).map_err(|why| format!("bad DIRECT.GET: {why}"))?;
    let prefix = bucket.subject_prefix();
    let stripped = body.multi_last.iter().map(|subject| subject.strip_prefix(&prefix));
    let keys: BTreeSet<&str> = stripped.collect::<Option<_>>().ok_or("a key of another bucket")?;
    if keys.len() != body.multi_last.len() || keys.is_empty() || keys.len() > MOST_KEYS {
        return Err(format!("a batch that names {} of {} keys", keys.len(), body.multi_last.len()));
    }
    if let Some(pattern) = keys.iter().find(|key| is_pattern(key.as_bytes())) {
        return Err(format!("{pattern:?} in a batch, which brings other keys"));
    }
    let most_bytes = body.max_bytes.min(most_bytes);
    let versions = || {
        let stored = |version: &&Version| version.sequence > 0 && version.from <= known;
        bus.streams
            .iter()
            .filter(|stream| stream.bucket == bucket)
            .flat_map(|stream| &stream.versions)
            .filter(stored)
    };
    let asked_for =
        |version: &&Version| std::str::from_utf8(&version.key.bytes).is_ok_and(|key| keys.contains(key));
    let found: Vec<&Version> = versions().filter(|version| known < version.until).filter(asked_for).collect();
    if found.is_empty() {
        return Ok(vec![Arrival::Part(Part::Void("404 No Results".to_owned()))]);
    }
    let mut arrivals = Vec::new();
    let (mut after, mut bytes) = (0, 0);
    for version in found.iter().take(body.batch) {
        let pending = found.len() - arrivals.len() - 1;
        arrivals.push(arrival(version, &prefix, after, pending));
        after = version.sequence;
        bytes += version.headers.len() + version.data.len();
        if bytes >= most_bytes {
            break;
        }
    }
    let left_out = (found.len() - arrivals.len()) as u64;
    let up_to = versions().map(|version| version.sequence).max().unwrap_or_default();
    arrivals.push(Arrival::Part(Part::End { left_out, after, up_to }));
    Ok(arrivals)
}

/// What comes of a stored message: the bus puts its own headers beside those that were stored.
fn arrival(version: &Version, prefix: &str, after: u64, pending: usize) -> Arrival {
    let Some(mut headers) = read(&version.headers) else { return Arrival::Breaks };
    headers.extend([
        ("Nats-Subject".to_owned(), format!("{prefix}{}", shown(&version.key.bytes))),
        ("Nats-Sequence".to_owned(), version.sequence.to_string()),
        ("Nats-Time-Stamp".to_owned(), version.time.clone()),
        ("Nats-Num-Pending".to_owned(), pending.to_string()),
        ("Nats-Last-Sequence".to_owned(), after.to_string()),
    ]);
    let all = |name: &str| {
        headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    };
    Arrival::Part(direct::parse(all, version.data.clone()))
}

/// The headers of a block; `None` if the bus library cannot read it.
fn read(block: &[u8]) -> Option<Vec<(String, String)>> {
    let lines = std::str::from_utf8(block).ok()?.lines().skip(1).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        })
        .collect()
}

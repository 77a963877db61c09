//! Direct get in batches, as nats-server 2.15 answers it: the newest messages of keys that are named, or all that
//! was written from a sequence on.

use crate::bus::{Bus, Stream, Verdict, Version, by_stream, is_pattern};
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::{self, Part};
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use serde::Deserialize;
use std::collections::BTreeSet;

/// What the subjects of requests for batches start with.
pub(crate) const DIRECT_GET: &str = "$JS.API.DIRECT.GET.";

/// How many keys one may name.
const MOST_KEYS: usize = 1024;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Body {
    Named { multi_last: Vec<String>, batch: usize, max_bytes: usize },
    Followed { seq: u64, batch: usize, max_bytes: usize },
}

/// Answers a request for a batch with what was true at the step `known`, in at most this many bytes and the message
/// that passes them.
pub(crate) fn answer(bus: &Bus, request: &Outgoing, known: u64, most_bytes: usize) -> Verdict<Vec<Part>> {
    let bucket = by_stream(request.subject.strip_prefix(DIRECT_GET).unwrap_or_default())?;
    if bucket == Bucket::Registry {
        return Err("the registry is read in bulk".to_owned());
    }
    let body: Body = serde_json::from_slice(&request.body).map_err(|why| format!("bad DIRECT.GET: {why}"))?;
    let stream = bus.streams.iter().find(|stream| stream.bucket == bucket).ok_or("no stream")?;
    match body {
        Body::Named { multi_last, batch, max_bytes } => {
            let keys = keys(bucket, &multi_last)?;
            let asked_for = |version: &&Version| {
                std::str::from_utf8(&version.key.bytes).is_ok_and(|key| keys.contains(key))
            };
            let mut found: Vec<&Version> = newest(stream, known).filter(asked_for).collect();
            found.sort_unstable_by_key(|version| version.sequence);
            let up_to = stored(stream, known).map(|version| version.sequence).max().unwrap_or_default();
            Ok(parts(&found, batch, max_bytes.min(most_bytes), Some(up_to), "404 No Results"))
        }
        Body::Followed { seq, batch, max_bytes } => {
            if !stream.may_be_followed() {
                return Err(format!("it follows {bucket}, which keeps too much for that"));
            }
            let mut found: Vec<&Version> =
                newest(stream, known).filter(|version| version.sequence >= seq).collect();
            found.sort_unstable_by_key(|version| version.sequence);
            Ok(parts(&found, batch, max_bytes.min(most_bytes), None, "404 Message Not Found"))
        }
    }
}

/// The keys that a batch names.
fn keys(bucket: Bucket, subjects: &[String]) -> Verdict<BTreeSet<&str>> {
    let prefix = Kv::new(bucket.name()).subject_prefix();
    let stripped = subjects.iter().map(|subject| subject.strip_prefix(&prefix));
    let keys: BTreeSet<&str> = stripped.collect::<Option<_>>().ok_or("a key of another bucket")?;
    if keys.len() != subjects.len() || keys.is_empty() || keys.len() > MOST_KEYS {
        return Err(format!("a batch that names {} of {} keys", keys.len(), subjects.len()));
    }
    match keys.iter().find(|key| is_pattern(key.as_bytes())) {
        Some(pattern) => Err(format!("{pattern:?} in a batch, which brings other keys")),
        None => Ok(keys),
    }
}

/// What had been stored at the step `known`, in the order of the writes.
fn stored(stream: &Stream, known: u64) -> impl Iterator<Item = &Version> {
    stream.versions.iter().filter(move |version| version.sequence > 0 && version.from <= known)
}

/// The same, of each key only the newest.
fn newest(stream: &Stream, known: u64) -> impl Iterator<Item = &Version> {
    stored(stream, known).filter(move |version| known < version.until)
}

/// The messages of an answer and its end.
fn parts(
    found: &[&Version],
    batch: usize,
    most_bytes: usize,
    up_to: Option<u64>,
    nothing: &str,
) -> Vec<Part> {
    if found.is_empty() {
        return vec![Part::Unusable(nothing.to_owned())];
    }
    let mut arrivals = Vec::new();
    let (mut after, mut bytes) = (0, 0);
    for version in found.iter().take(batch) {
        let pending = found.len() - arrivals.len() - 1;
        arrivals.push(arrival(version, after, pending));
        after = version.sequence;
        bytes += version.bytes();
        if bytes >= most_bytes {
            break;
        }
    }
    let left_out = (found.len() - arrivals.len()) as u64;
    arrivals.push(Part::End { left_out, after, up_to });
    arrivals
}

/// What comes of a stored message: the bus puts its own headers after those that were stored.
fn arrival(version: &Version, after: u64, pending: usize) -> Part {
    let stored = version.headers.strip_suffix(b"\r\n").unwrap_or(&version.headers);
    let mut block = if stored.is_empty() { b"NATS/1.0\r\n".to_vec() } else { stored.to_vec() };
    block.extend(b"Nats-Subject: ");
    block.extend(Kv::new(version.bucket.name()).subject_prefix().bytes());
    block.extend(&version.key.bytes);
    let (sequence, time) = (version.sequence, &version.time);
    let rest = format!(
        "\r\nNats-Sequence: {sequence}\r\nNats-Time-Stamp: {time}\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {after}\r\n\r\n"
    );
    block.extend(rest.bytes());
    direct_get::parse(&block, version.data.clone())
}

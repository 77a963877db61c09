//! The fake bus: four streams, and the JSON API over them. It answers what nats-server would; what goes wrong on the
//! way is the world's part.

use crate::keys::{Key, shown};
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_model::registry;
use mesh_testing::jetstream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A message that was stored, for ever: the judge looks at what was true when.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) bucket: Bucket,
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) headers: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) time: String,
    /// Whether the key is deleted by it.
    pub(crate) deleted: bool,
    /// From which step on it was the key's newest, and from which on it was not any more.
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Version {
    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.headers.len() + self.data.len()
    }
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) bucket: Bucket,
    /// How many messages of a key it says that it keeps.
    pub(crate) history: u64,
    /// How many bytes it says that it has beside those of its messages.
    pub(crate) other_bytes: u64,
    pub(crate) versions: Vec<Version>,
    /// Where the newest version of each key stands, by the key's bytes.
    newest: BTreeMap<Vec<u8>, usize>,
    last_sequence: u64,
    /// Its last write as it showed it from a step on: the step, the sequence and the time.
    lasts: Vec<(u64, u64, String)>,
}

/// What a bucket held when somebody made a copy of it.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    newest: Vec<Version>,
    last_sequence: u64,
    last_time: String,
}

impl Default for Backup {
    fn default() -> Self {
        Backup { newest: Vec::new(), last_sequence: 0, last_time: NEVER.to_owned() }
    }
}

impl Backup {
    /// The sequence of the last write.
    pub(crate) const fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// The keys that were written after another copy was made.
    pub(crate) fn written_after(&self, other: &Backup) -> Vec<Key> {
        let since = self.newest.iter().filter(|version| version.sequence > other.last_sequence);
        since.map(|version| version.key.clone()).collect()
    }
}

/// What a write of the seat did, or why it must not have been.
pub(crate) type Verdict<T> = Result<T, String>;

impl Stream {
    /// The newest messages, each key once, in the order of the subjects. What expired has none.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Version> {
        self.newest.values().map(|at| &self.versions[*at]).filter(|version| version.sequence > 0)
    }

    /// Whether a read of all that was written since a sequence is of any use, and not too much.
    pub(crate) const fn may_be_followed(&self) -> bool {
        self.history == 1 && self.other_bytes == 0
    }

    /// A copy of all that it holds.
    pub(crate) fn backup(&self) -> Backup {
        Backup {
            newest: self.newest().cloned().collect(),
            last_sequence: self.last_sequence,
            last_time: self.last_time().to_owned(),
        }
    }

    /// It holds what it held when the copy was made, and nothing that was written since. No number tells: not even
    /// the time at which it was made.
    pub(crate) fn restore(&mut self, backup: &Backup, step: u64) {
        let lost: Vec<Key> = self.newest().map(|version| version.key.clone()).collect();
        for key in &lost {
            if !backup.newest.iter().any(|version| version.key.bytes == key.bytes) {
                self.expire(key, step);
            }
        }
        for version in &backup.newest {
            self.push(Version { from: step, until: u64::MAX, ..version.clone() });
        }
        self.last_sequence = backup.last_sequence;
        self.lasts.push((step, backup.last_sequence, backup.last_time.clone()));
    }

    /// All that it holds is purged; or it is made again, and counts from 1 again.
    pub(crate) fn purge(&mut self, is_made_anew: bool, step: u64) {
        let purged = Backup {
            newest: Vec::new(),
            last_sequence: self.last_sequence,
            last_time: self.last_time().to_owned(),
        };
        self.restore(&if is_made_anew { Backup::default() } else { purged }, step);
    }

    /// What it may show as its last write to whoever asked at the step `from`: what was so then, and since.
    pub(crate) fn lasts(&self, from: u64) -> &[(u64, u64, String)] {
        let then = self.lasts.iter().rposition(|(step, ..)| *step < from).unwrap_or_default();
        &self.lasts[then..]
    }

    fn push(&mut self, version: Version) {
        if let Some(before) = self.newest.insert(version.key.bytes.clone(), self.versions.len()) {
            self.versions[before].until = version.from;
        }
        self.versions.push(version);
    }

    pub(crate) fn store(
        &mut self,
        key: Key,
        headers: Vec<u8>,
        data: Vec<u8>,
        step: u64,
        time: String,
    ) -> u64 {
        self.last_sequence += 1;
        let text = String::from_utf8_lossy(&headers);
        let deleted = text.contains("Nats-Marker-Reason")
            || (text.contains("KV-Operation") && !text.contains("KV-Operation: PUT"));
        let sequence = self.last_sequence;
        self.push(Version {
            bucket: self.bucket,
            key,
            sequence,
            headers,
            data,
            time: time.clone(),
            deleted,
            from: step,
            until: u64::MAX,
        });
        self.lasts.push((step, sequence, time));
        sequence
    }

    /// All messages of the key age out.
    pub(crate) fn expire(&mut self, key: &Key, step: u64) {
        let gone = Version {
            bucket: self.bucket,
            key: key.clone(),
            sequence: 0,
            headers: Vec::new(),
            data: Vec::new(),
            time: String::new(),
            deleted: true,
            from: step,
            until: u64::MAX,
        };
        self.push(gone);
    }

    /// The newest message of a key.
    fn last_by(&self, key: &[u8]) -> Option<&Version> {
        let at = self.newest.get(key)?;
        Some(&self.versions[*at]).filter(|version| version.sequence > 0)
    }

    /// The sequence and the time of the oldest message.
    fn first(&self) -> (u64, &str) {
        let first = self.newest().min_by_key(|version| version.sequence);
        first.map_or((self.last_sequence + 1, NEVER), |first| (first.sequence, &first.time))
    }

    /// The first message from a sequence on.
    fn next(&self, from: u64) -> Option<&Version> {
        self.newest().filter(|version| version.sequence >= from).min_by_key(|version| version.sequence)
    }

    fn last_time(&self) -> &str {
        self.lasts.last().map_or(NEVER, |(_, _, time)| time)
    }
}

/// The time of the last write of a stream that had none.
const NEVER: &str = "0001-01-01T00:00:00Z";

pub(crate) fn is_pattern(subject: &[u8]) -> bool {
    subject.split(|byte| *byte == b'.').any(|token| token == b"*" || token == b">")
}

/// Whether a subject matches a pattern, both without the bucket's prefix.
fn matches(pattern: &[u8], subject: &[u8]) -> bool {
    let mut subject = subject.split(|byte| *byte == b'.');
    for token in pattern.split(|byte| *byte == b'.') {
        match (token, subject.next()) {
            (b">", Some(_)) => return true,
            (_, None) => return false,
            (b"*", Some(_)) => {}
            (token, Some(other)) if token != other => return false,
            _ => {}
        }
    }
    subject.next().is_none()
}

#[derive(Debug)]
pub(crate) struct Bus {
    pub(crate) streams: [Stream; 4],
    /// How many keys a page of `STREAM.INFO` has.
    pub(crate) page: usize,
    /// Counts what happened, so that the judge can say what was true when.
    pub(crate) step: u64,
    /// The bus's own clock, which may be set to anything.
    pub(crate) clock: u64,
}

impl Bus {
    pub(crate) fn new(page: usize) -> Self {
        let streams = Bucket::ALL.map(|bucket| Stream {
            bucket,
            history: if bucket == Bucket::Registry { 8 } else { 1 },
            other_bytes: 0,
            versions: Vec::new(),
            newest: BTreeMap::new(),
            last_sequence: 0,
            lasts: vec![(0, 0, NEVER.to_owned())],
        });
        Bus { streams, page, step: 0, clock: 1_000_000 }
    }

    pub(crate) fn stream(&mut self, bucket: Bucket) -> &mut Stream {
        self.streams.iter_mut().find(|stream| stream.bucket == bucket).expect("one stream a bucket")
    }

    /// The time, as Go spells it: the fraction of a second without zeros at its end.
    pub(crate) fn time(&self) -> String {
        let (seconds, fraction) = (self.clock / 1_000_000_000 % 60, self.clock % 1_000_000_000);
        let time = format!("2026-11-29T13:26:{seconds:02}.{fraction:09}");
        format!("{}Z", time.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Somebody else writes.
    pub(crate) fn write(&mut self, bucket: Bucket, key: Key, headers: Vec<u8>, data: Vec<u8>) {
        let (step, time) = (self.step, self.time());
        self.stream(bucket).store(key, headers, data, step, time);
    }

    /// Answers a request of the seat; `None` where nobody answers. An error is a fault of the seat.
    pub(crate) fn answer(&mut self, request: &Outgoing) -> Verdict<Option<Vec<u8>>> {
        let subject = request.subject.as_str();
        if let Some(stream) = subject.strip_prefix("$JS.API.STREAM.INFO.") {
            let bucket = by_stream(stream)?;
            if request.body.is_empty() {
                return Ok(Some(self.look(bucket)));
            }
            return Ok(Some(self.info(bucket, &request.body)?));
        }
        if let Some(stream) = subject.strip_prefix("$JS.API.STREAM.MSG.GET.") {
            return Ok(Some(self.get(by_stream(stream)?, &request.body)?));
        }
        if let Some(key) = subject.strip_prefix("$KV.mesh-provisioner_registry.") {
            return Ok(Some(self.seat_writes(key, request)?));
        }
        if subject == "$SRV.PING.mesh-provisioner" {
            return Ok(None);
        }
        // What the seat sends to itself comes back as it is.
        if request.reply.as_deref() == Some(subject) {
            return Ok(Some(request.body.to_vec()));
        }
        Err(format!("it publishes {subject:?}, where it has no right"))
    }

    /// The answer to `STREAM.INFO` without a body: the stream in numbers.
    fn look(&mut self, bucket: Bucket) -> Vec<u8> {
        let stream = self.stream(bucket);
        let messages = stream.newest().count();
        let bytes = stream.newest().map(Version::bytes).sum::<usize>() as u64 + stream.other_bytes;
        let (first_sequence, first_time) = stream.first();
        json!({
            "type": "io.nats.jetstream.api.v1.stream_info_response",
            "config": {
                "name": Kv::new(bucket.name()).stream(),
                "subjects": [format!("{}>", Kv::new(bucket.name()).subject_prefix())],
                "max_msgs_per_subject": stream.history,
            },
            "created": jetstream::CREATED,
            "state": {
                "messages": messages,
                "bytes": bytes,
                "first_seq": first_sequence,
                "first_ts": first_time,
                "last_seq": stream.last_sequence,
                "last_ts": stream.last_time(),
            },
        })
        .to_string()
        .into_bytes()
    }

    fn info(&mut self, bucket: Bucket, body: &[u8]) -> Verdict<Vec<u8>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            subjects_filter: String,
            offset: usize,
        }
        let body: Body = serde_json::from_slice(body).map_err(|why| format!("bad STREAM.INFO: {why}"))?;
        let page = self.page;
        let stream = self.stream(bucket);
        let prefix = Kv::new(bucket.name()).subject_prefix();
        let pattern = body.subjects_filter.strip_prefix(&prefix).ok_or("a filter for another bucket")?;
        let matching: Vec<String> = stream
            .newest()
            .filter(|version| matches(pattern.as_bytes(), &version.key.bytes))
            .map(|version| format!("{prefix}{}", version.key.shown()))
            .collect();
        let from = body.offset.min(matching.len());
        let to = (from + page).min(matching.len());
        let last = (stream.last_sequence, stream.last_time());
        Ok(jetstream::page(&matching[from..to], from, matching.len(), stream.first(), last))
    }

    fn get(&mut self, bucket: Bucket, body: &[u8]) -> Verdict<Vec<u8>> {
        #[derive(Deserialize)]
        #[serde(untagged, deny_unknown_fields)]
        enum Body {
            Last { last_by_subj: String },
            Next { seq: u64, next_by_subj: String },
        }
        let body: Body = serde_json::from_slice(body).map_err(|why| format!("bad STREAM.MSG.GET: {why}"))?;
        let prefix = Kv::new(bucket.name()).subject_prefix();
        let stream = self.stream(bucket);
        let found = match &body {
            Body::Last { last_by_subj } => {
                let key = last_by_subj.strip_prefix(&prefix).ok_or("a key of another bucket")?;
                if is_pattern(key.as_bytes()) {
                    return Err(format!("it asks for {key:?}, which brings other keys"));
                }
                stream.last_by(key.as_bytes())
            }
            Body::Next { seq, next_by_subj } if *next_by_subj == format!("{prefix}>") => stream.next(*seq),
            Body::Next { next_by_subj, .. } => return Err(format!("it asks for all of {next_by_subj:?}")),
        };
        let Some(version) = found else {
            return Ok(jetstream::no_message());
        };
        Ok(jetstream::message(&jetstream::Stored {
            subject: &format!("{prefix}{}", shown(&version.key.bytes)),
            sequence: version.sequence,
            headers: &version.headers,
            data: &version.data,
            time: &version.time,
        }))
    }

    /// A compare-and-set write of the registry. The rules of the seat are checked where they could be broken.
    fn seat_writes(&mut self, key: &str, request: &Outgoing) -> Verdict<Vec<u8>> {
        let header =
            |name: &str| request.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let stream = header("Nats-Expected-Stream");
        if stream.map(String::as_str) != Some("KV_mesh-provisioner_registry") {
            return Err(format!("a write of {key:?} that expects the stream {stream:?}"));
        }
        let expected: u64 = header("Nats-Expected-Last-Subject-Sequence")
            .and_then(|sequence| sequence.parse().ok())
            .ok_or_else(|| format!("a write of {key:?} that expects no sequence"))?;
        let (step, time) = (self.step, self.time());
        let stream = self.stream(Bucket::Registry);
        let newest = stream.last_by(key.as_bytes());
        if newest.map_or(0, |version| version.sequence) != expected {
            return Ok(jetstream::conflict(newest.map_or(0, |version| version.sequence)));
        }
        let before = newest.filter(|version| !version.deleted).map(|version| version.data.clone());
        let own_entry = registry::ENTRIES.iter().find(|entry| entry.kind == key);
        let headers = match (header("KV-Operation"), own_entry) {
            (None, Some(_)) => {
                if before.as_ref().is_some_and(|before| means_the_same(before, &request.body)) {
                    return Err(format!("a write of {key:?} that changes nothing"));
                }
                Vec::new()
            }
            (Some(operation), None) if operation == "DEL" => {
                if before.is_none() {
                    return Err(format!("a deletion of {key:?}, which is not there"));
                }
                b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n".to_vec()
            }
            (None, None) => return Err(format!("a put of {key:?}, which is not a kind of ours")),
            (Some(operation), _) => return Err(format!("{operation} of the kind {key:?}")),
        };
        let key = Key { bytes: key.as_bytes().to_vec(), names: registry_names(key) };
        let sequence = stream.store(key, headers, request.body.to_vec(), step, time);
        Ok(jetstream::stored("KV_mesh-provisioner_registry", sequence))
    }

    /// What the registry lacks to be as it should be.
    pub(crate) fn registry_faults(&mut self) -> Vec<String> {
        let alive: Vec<&Version> =
            self.stream(Bucket::Registry).newest().filter(|version| !version.deleted).collect();
        let mut faults = Vec::new();
        for entry in &registry::ENTRIES {
            let found = alive.iter().find(|version| version.key.bytes == entry.kind.as_bytes());
            if !found.is_some_and(|version| means_the_same(&version.data, entry.to_json().as_bytes())) {
                faults.push(format!("{:?} has {found:?}", entry.kind));
            }
        }
        let foreign = alive.iter().filter(|version| {
            !version.key.is_elusive()
                && !registry::ENTRIES.iter().any(|entry| version.key.bytes == entry.kind.as_bytes())
        });
        faults.extend(foreign.map(|version| format!("{:?} is still there", version.key.shown())));
        faults
    }
}

/// The names of a key of the registry that the seat itself writes or deletes.
fn registry_names(key: &str) -> Option<Vec<String>> {
    registry::entry(key).map(|entry| vec![entry.kind.to_owned()])
}

pub(crate) fn by_stream(stream: &str) -> Verdict<Bucket> {
    let found = Bucket::ALL.into_iter().find(|bucket| Kv::new(bucket.name()).stream() == stream);
    found.ok_or_else(|| format!("the stream {stream:?} is not one of the seat's"))
}

/// Whether two values are the same JSON; a repeated field makes a difference.
fn means_the_same(a: &[u8], b: &[u8]) -> bool {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    let fields = |bytes: &[u8]| bytes.split(|byte| *byte == b':').count();
    matches!((parse(a), parse(b)), (Some(a), Some(b)) if a == b) && fields(a) == fields(b)
}

//! A bucket in which this node's keys are kept as they should be: written only when they differ, by compare-and-set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_jetstream::message::Request;
use mesh_model::name;

/// How many writes of one bucket are under way at a time.
const WINDOW: usize = 64;

/// How long after a failed write the key is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// One bucket's keys of this node.
#[derive(Debug)]
pub(super) struct Mirror {
    bucket: &'static str,
    /// Which token of a key is the module.
    token: usize,
    /// The texts that should be there, by module. A module that is missing here is not known yet.
    wanted: BTreeMap<String, BTreeMap<String, String>>,
    /// The declared modules; nothing: no declaration was read yet.
    declared: Option<BTreeSet<String>>,
    held: BTreeMap<String, (Option<Vec<u8>>, u64)>,
    is_listed: bool,
    /// Keys to look at.
    todo: Todo,
    /// Keys that are written even if they do not differ.
    forced: BTreeSet<String>,
    under_way: BTreeMap<String, Option<String>>,
    later: BTreeMap<String, Duration>,
    /// Whether nothing of some module is to be written any more since it was last asked.
    idled: bool,
}

/// Keys, by the token of their module.
#[derive(Debug)]
struct Todo {
    token: usize,
    keys: BTreeMap<String, BTreeSet<String>>,
}

impl Todo {
    fn of(token: usize) -> Self {
        Todo { token, keys: BTreeMap::new() }
    }

    fn insert(&mut self, key: String) {
        let module = key.split('.').nth(self.token).unwrap_or_default().to_owned();
        self.keys.entry(module).or_default().insert(key);
    }

    fn extend(&mut self, keys: impl IntoIterator<Item = String>) {
        keys.into_iter().for_each(|key| self.insert(key));
    }

    fn remove(&mut self, key: &str) {
        let module = key.split('.').nth(self.token).unwrap_or_default();
        if let Some(keys) = self.keys.get_mut(module) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(module);
            }
        }
    }

    fn has(&self, module: &str) -> bool {
        self.keys.contains_key(module)
    }

    fn iter(&self) -> impl Iterator<Item = &String> {
        self.keys.values().flatten()
    }
}

enum Desired<'m> {
    Text(&'m str),
    Absent,
    Unknown,
}

impl Mirror {
    pub(super) fn new(bucket: &'static str, token: usize) -> Self {
        Mirror {
            bucket,
            token,
            wanted: BTreeMap::new(),
            declared: None,
            held: BTreeMap::new(),
            is_listed: false,
            todo: Todo::of(token),
            forced: BTreeSet::new(),
            under_way: BTreeMap::new(),
            later: BTreeMap::new(),
            idled: false,
        }
    }

    /// Whether nothing of some module is to be written any more since this was last asked.
    pub(super) fn has_idled(&mut self) -> bool {
        std::mem::take(&mut self.idled)
    }

    pub(super) fn bucket(&self) -> &'static str {
        self.bucket
    }

    /// What should be there of a module.
    pub(super) fn want(&mut self, module: &str, keys: BTreeMap<String, String>) {
        let token = name::encode(module);
        let before = self.wanted.insert(module.to_owned(), keys);
        if before.is_none() {
            // What an earlier plan left there.
            let of = self.token;
            self.todo.extend(self.held.keys().filter(|key| key.split('.').nth(of) == Some(&token)).cloned());
        }
        let now = &self.wanted[module];
        let before = before.unwrap_or_default();
        let differs = before.keys().chain(now.keys()).filter(|key| before.get(*key) != now.get(*key));
        let differs: Vec<String> = differs.cloned().collect();
        self.todo.extend(differs);
    }

    /// A newer declaration has these modules. Of others nothing stays.
    pub(super) fn declare(&mut self, modules: BTreeSet<String>) {
        self.wanted.retain(|module, _| modules.contains(module));
        self.declared = Some(modules);
        self.todo.extend(self.held.keys().cloned());
    }

    /// Writes the key even though it may not differ.
    pub(super) fn force(&mut self, key: &str) {
        self.forced.insert(key.to_owned());
        self.todo.insert(key.to_owned());
    }

    /// What the bucket holds under a key.
    pub(super) fn entry(&mut self, key: String, value: Option<Vec<u8>>, revision: u64) {
        let is_right =
            matches!(self.desired(&key), Desired::Text(text) if value.as_deref() == Some(text.as_bytes()));
        if !is_right {
            self.todo.insert(key.clone());
        }
        self.held.insert(key, (value, revision));
    }

    /// The list is complete: other keys are not there.
    pub(super) fn complete(&mut self, list: &BTreeSet<String>) {
        let gone = |(value, _): &(Option<Vec<u8>>, u64), key: &String| value.is_some() && !list.contains(key);
        self.held.retain(|key, held| !gone(held, key));
        self.is_listed = true;
        self.todo.extend(self.wanted.values().flat_map(BTreeMap::keys).cloned());
    }

    /// The connection is gone, and with it what was under way.
    pub(super) fn down(&mut self) {
        self.is_listed = false;
        self.todo.extend(std::mem::take(&mut self.under_way).into_keys());
    }

    fn desired(&self, key: &str) -> Desired<'_> {
        let Some(token) = key.split('.').nth(self.token) else { return Desired::Unknown };
        let Ok(module) = name::decode(token) else { return Desired::Unknown };
        match (self.wanted.get(&module), &self.declared) {
            (Some(keys), _) => keys.get(key).map_or(Desired::Absent, |text| Desired::Text(text)),
            (None, Some(declared)) if !declared.contains(&module) => Desired::Absent,
            _ => Desired::Unknown,
        }
    }

    /// Whether something of the module is still to be written, or under way.
    pub(super) fn is_busy(&self, module: &str) -> bool {
        let token = name::encode(module);
        let is_of = |key: &String| key.split('.').nth(self.token) == Some(&token);
        !self.is_listed || self.todo.has(&token) || self.under_way.keys().any(is_of)
    }

    /// The writes to send now, with their keys. `may` holds a key back.
    pub(super) fn poll(&mut self, now: Duration, may: impl Fn(&str) -> bool) -> Vec<(String, Request)> {
        let mut writes = Vec::new();
        if !self.is_listed {
            return writes;
        }
        loop {
            // What is to be written may be many times what may be under way: only so much is looked at.
            let room = WINDOW.saturating_sub(self.under_way.len());
            let is_due = |key: &&String| {
                !self.under_way.contains_key(*key)
                    && self.later.get(*key).is_none_or(|at| *at <= now)
                    && may(key)
            };
            let keys: Vec<String> = self.todo.iter().filter(is_due).take(room).cloned().collect();
            if keys.is_empty() {
                return writes;
            }
            writes.extend(keys.into_iter().filter_map(|key| self.begin(key)));
        }
    }

    /// Takes a key off the list, and returns its write if it differs.
    fn begin(&mut self, key: String) -> Option<(String, Request)> {
        let held = self.held.get(&key);
        let (value, revision) = held.map_or((None, 0), |(value, revision)| (value.as_deref(), *revision));
        let text = match self.desired(&key) {
            Desired::Text(text) if value == Some(text.as_bytes()) && !self.forced.contains(&key) => None,
            Desired::Text(text) if kv::can_be_written(&key) => Some(Some(text.to_owned())),
            Desired::Absent if value.is_some() => Some(None),
            _ => None,
        };
        self.later.remove(&key);
        self.todo.remove(&key);
        self.forced.remove(&key);
        self.idled |= text.is_none();
        let text = text?;
        let bucket = Kv::new(self.bucket);
        let request = match &text {
            Some(text) => kv::put(bucket, &key, text, revision),
            None => kv::delete(bucket, &key, revision),
        };
        self.under_way.insert(key.clone(), text);
        Some((key, request))
    }

    /// The answer to a write: `None`, if none came in time. Returns whether it was stored, or why it is tried again.
    pub(super) fn written(
        &mut self,
        key: &str,
        answer: Option<&[u8]>,
        now: Duration,
    ) -> Result<bool, String> {
        let Some(text) = self.under_way.remove(key) else { return Ok(false) };
        self.idled = true;
        let answer = answer.map(|body| kv::parse_write(Kv::new(self.bucket), body));
        let why = match answer {
            Some(WriteAnswer::Stored(revision)) => {
                let newer = self.held.get(key).is_none_or(|(_, held)| *held <= revision);
                if newer {
                    self.held.insert(key.to_owned(), (text.map(String::into_bytes), revision));
                }
                return Ok(true);
            }
            // What another client wrote, or our own write whose response was lost, is delivered.
            Some(WriteAnswer::Conflict) => None,
            Some(WriteAnswer::Refused(error)) => Some(error.to_string()),
            Some(WriteAnswer::Unknown(why)) => Some(why),
            None => Some("no answer".to_owned()),
        };
        self.todo.insert(key.to_owned());
        self.later
            .insert(key.to_owned(), now + if why.is_some() { AGAIN } else { Duration::from_millis(100) });
        why.map_or(Ok(false), Err)
    }

    /// When a key is tried again. One whose time has come and that is held back waits for another event.
    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        self.later.values().filter(|at| **at > now).min().copied()
    }
}

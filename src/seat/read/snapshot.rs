//! The whole of a small bucket as it was found, and the state that the bucket had. The values are asked for again only
//! when the bucket has changed: the registry hardly ever does, and is asked for most.
//!
//! The state is taken before the values are read. What is written in between makes another state, so values that are
//! newer than their state are never given for it.

use crate::seat::read::found::Found;
use mesh_jetstream::stream_info::State;
use std::collections::VecDeque;
use std::rc::Rc;

/// How many bytes of keys and values are worth keeping.
const MAX_BYTES: usize = 64 * 1024;

/// What stood in a bucket at a known state.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::seat) struct Snapshot {
    state: State,
    /// In the order of the keys.
    found: Vec<(String, Found)>,
}

impl Snapshot {
    /// The state that the bucket had.
    pub(in crate::seat) const fn state(&self) -> &State {
        &self.state
    }

    /// Whether it still holds for a bucket of this state.
    pub(in crate::seat) fn is_of(&self, state: Option<&State>) -> bool {
        state == Some(&self.state)
    }

    /// All keys, in order.
    pub(in crate::seat) fn keys(&self) -> Vec<String> {
        self.found.iter().map(|(key, _)| key.clone()).collect()
    }

    /// What stood under `keys`, which are in order.
    pub(in crate::seat) fn recall(&self, keys: &[String]) -> VecDeque<(String, Found)> {
        let wanted = |(key, _): &&(String, Found)| keys.binary_search(key).is_ok();
        self.found.iter().filter(wanted).cloned().collect()
    }
}

/// What a reading comes to know.
#[derive(Debug, Default)]
pub(in crate::seat) struct SnapshotBuilder {
    found: Vec<(String, Found)>,
    bytes: usize,
}

impl SnapshotBuilder {
    /// Takes the next key and what is under it.
    pub(in crate::seat) fn take(&mut self, key: &str, found: &Found) {
        self.bytes += key.len() + found.message().map_or(0, |message| message.value.len());
        if self.bytes <= MAX_BYTES {
            self.found.push((key.to_owned(), found.clone()));
        }
    }

    /// All of it, which was read after the bucket had this state; `None` if it is too much to keep.
    pub(in crate::seat) fn known(self, state: State) -> Option<Rc<Snapshot>> {
        (self.bytes <= MAX_BYTES).then(|| Rc::new(Snapshot { state, found: self.found }))
    }
}

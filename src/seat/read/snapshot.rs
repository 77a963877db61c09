//! A whole small bucket, with the state that the bucket had. It is read again only if the bucket has changed: the
//! registry hardly ever does, and it is requested most.
//!
//! The state is taken before the values are read. A write in between changes the state, so newer values are never
//! returned for an older state.

use crate::seat::read::found::Found;
use mesh_jetstream::stream_info::State;
use std::collections::VecDeque;
use std::rc::Rc;

/// The maximum size of a snapshot, in bytes of keys and values.
const MAX_BYTES: usize = 64 * 1024;

/// The contents of a bucket at a state.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::seat) struct Snapshot {
    state: State,
    /// In the order of the keys.
    found: Vec<(String, Found)>,
}

impl Snapshot {
    /// Whether it is valid for a bucket with this state.
    pub(in crate::seat) fn is_of(&self, state: Option<&State>) -> bool {
        state == Some(&self.state)
    }

    /// All keys, in order.
    pub(in crate::seat) fn keys(&self) -> Vec<String> {
        self.found.iter().map(|(key, _)| key.clone()).collect()
    }

    /// The contents of `keys`, which are sorted.
    pub(in crate::seat) fn recall(&self, keys: &[String]) -> VecDeque<(String, Found)> {
        let wanted = |(key, _): &&(String, Found)| keys.binary_search(key).is_ok();
        self.found.iter().filter(wanted).cloned().collect()
    }
}

/// A snapshot that is being built.
#[derive(Debug, Default)]
pub(in crate::seat) struct SnapshotBuilder {
    found: Vec<(String, Found)>,
    bytes: usize,
}

impl SnapshotBuilder {
    /// Adds the next key and what was found under it.
    pub(in crate::seat) fn take(&mut self, key: &str, found: &Found) {
        self.bytes += key.len() + found.message().map_or(0, |message| message.value.len());
        if self.bytes <= MAX_BYTES {
            self.found.push((key.to_owned(), found.clone()));
        }
    }

    /// The snapshot, read after the bucket had this state; `None` if it is too large.
    pub(in crate::seat) fn known(self, state: State) -> Option<Rc<Snapshot>> {
        (self.bytes <= MAX_BYTES).then(|| Rc::new(Snapshot { state, found: self.found }))
    }
}

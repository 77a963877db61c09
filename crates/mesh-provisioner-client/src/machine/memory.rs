//! What the client remembers over a restart: what it handed over, and what the host said of it. It is written before a
//! hand-over and after it, so that one that was cut off is done again, and none is done for nothing.

use std::collections::BTreeMap;

use mesh_model::digest::Digest;
use mesh_model::report::Report;
use mesh_model::standing::Applied;
use serde::{Deserialize, Serialize};

/// What is kept in the state folder. No value is in it; digests of values are salted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Goes into every digest of a value, so that nobody guesses a value from it.
    pub salt: String,
    /// The sequence of the last declaration whose hand-over as a whole came to its end.
    #[serde(default)]
    pub sequence: u64,
    /// The newest report of the host.
    #[serde(default)]
    pub report: Option<Report>,
    /// By module.
    #[serde(default)]
    pub modules: BTreeMap<String, Remembered>,
}

/// What is remembered of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// A hand-over that was begun and has no end: its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
    /// The last one that succeeded. It moves only on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
}

/// A hand-over that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The declaration's sequence.
    pub sequence: u64,
    /// What was handed over.
    pub whole: Digest,
}

/// A hand-over that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Over plan, values and collections.
    pub whole: Digest,
    /// Over the values from outside alone: those that the host holds.
    pub outside: Digest,
    /// What was published.
    pub applied: Applied,
}

impl Memory {
    /// An empty memory with that salt.
    pub fn new(salt: String) -> Self {
        Memory { salt, ..Memory::default() }
    }

    /// Reads what was kept.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// The text to keep.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }

    /// The digest of a value, salted.
    pub fn digest(&self, pieces: &[&[u8]]) -> Digest {
        let mut all = vec![self.salt.as_bytes()];
        all.extend(pieces);
        Digest::of_pieces(&all)
    }

    /// What succeeded last of a module.
    pub fn done(&self, module: &str) -> Option<&Done> {
        self.modules.get(module)?.done.as_ref()
    }

    /// Whether a hand-over of it was begun and has no end.
    pub fn is_unfinished(&self, module: &str) -> bool {
        self.modules.get(module).is_some_and(|of| of.started.is_some())
    }
}

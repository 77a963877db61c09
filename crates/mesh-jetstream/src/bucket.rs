//! A key-value bucket as NATS keeps it: a stream, and subjects below one prefix.

use std::fmt;

/// A key-value bucket by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kv<'a>(&'a str);

impl<'a> Kv<'a> {
    /// The bucket called `name`.
    pub const fn new(name: &'a str) -> Self {
        Kv(name)
    }

    /// The stream that keeps the bucket, as the key-value convention of NATS names it.
    pub fn stream(self) -> String {
        format!("KV_{}", self.0)
    }

    /// What every subject of the bucket starts with; the key is the rest.
    pub fn subject_prefix(self) -> String {
        format!("$KV.{}.", self.0)
    }

    /// The subject to which the values of `key` are written.
    pub fn subject(self, key: &str) -> String {
        format!("$KV.{}.{key}", self.0)
    }
}

impl fmt::Display for Kv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

//! The ways of reading a bucket.

/// How a bucket is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::seat) enum Way {
    /// Its keys are listed, and its values are read one by one.
    Listed,
    /// More than `few` keys are read in bulk, in parts of at most `part_bytes`.
    InBulk { few: usize, part_bytes: usize },
    /// Its messages are read one after the other, because the connection brings no list of its keys.
    Singly,
}

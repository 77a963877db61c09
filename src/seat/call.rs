//! Calls: what the seat's machines want from JetStream, and how much of it may be under way.

use mesh_jetstream::message::Request;
use mesh_model::bucket::Bucket;

/// An answer that is larger than this is large: see [`Budget::large_bytes`]. Others are bounded by their number.
pub(super) const LARGE_BYTES: usize = 32 * 1024;

/// A request to JetStream that a machine wants sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Which reply it is, among those that the machine waits for.
    pub(super) tag: Tag,
    /// What to send.
    pub(super) request: Request,
    /// How much it may bring.
    pub(super) cost: Cost,
}

/// A machine's own name for a reply that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A list of keys.
    Listing,
    /// A look at the bucket in numbers.
    Look,
    /// The first message after what is known.
    Next,
    /// The value at this position, or the outcome of this write.
    Value(usize),
    /// The read in bulk of this number.
    Batch(usize),
}

/// How much the answer to a request may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// One short message.
    Single,
    /// A value of this bucket, expected to come in an answer of so many bytes.
    Value { bucket: Bucket, bytes: usize },
    /// One message that may have megabytes: few are awaited at a time.
    Listing,
    /// Many messages out of this bucket: few are awaited at a time.
    Batch(Bucket),
}

impl Cost {
    /// The bucket that is read in bulk.
    pub(super) const fn in_bulk(self) -> Option<Bucket> {
        match self {
            Cost::Batch(bucket) => Some(bucket),
            Cost::Single | Cost::Value { .. } | Cost::Listing => None,
        }
    }
}

/// What may be sent just now beside single requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// A request that lists keys.
    pub(super) listing: bool,
    /// A request in bulk.
    pub(super) batch: bool,
    /// Requests for large values, as long as so many bytes are not passed.
    pub(super) large_bytes: usize,
}

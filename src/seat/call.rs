//! Calls: what the seat's machines want from JetStream, and how much of it may be under way.

use mesh_jetstream::message::Request;
use mesh_model::bucket::Bucket;

/// A request to JetStream that a machine wants sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Which reply it is, among those that the machine waits for.
    pub(super) tag: Tag,
    /// The call.
    pub(super) request: Request,
    /// Its cost.
    pub(super) cost: Cost,
}

/// A machine's own name for a reply that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A list of keys.
    Listing,
    /// Stream info.
    Look,
    /// The first message after what is known.
    Next,
    /// The value at this position, or the outcome of this write.
    Value(usize),
    /// The bulk read of this number.
    Batch(usize),
}

/// The expected size of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// One short message.
    Single,
    /// A value of this bucket, with the expected size of the reply in bytes.
    Value { bucket: Bucket, bytes: usize },
    /// One message of up to megabytes, the keys of this bucket or of one node in it: few may be in flight.
    Listing { bucket: Bucket, of_node: bool },
    /// Many messages of this bucket: few may be in flight.
    Batch(Bucket),
}

impl Cost {
    /// Whether it lists keys.
    pub(super) const fn is_list(self) -> bool {
        matches!(self, Cost::Listing { .. })
    }

    /// The bucket of a bulk read.
    pub(super) const fn in_bulk(self) -> Option<Bucket> {
        match self {
            Cost::Batch(bucket) => Some(bucket),
            Cost::Single | Cost::Value { .. } | Cost::Listing { .. } => None,
        }
    }
}

/// Which calls may be sent now besides single reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// A call that lists keys.
    pub(super) listing: bool,
    /// A bulk call.
    pub(super) batch: bool,
    /// Calls for large values, up to this many bytes.
    pub(super) large_bytes: usize,
}

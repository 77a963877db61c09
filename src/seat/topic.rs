//! Topics of log lines. Each topic has its own rate limit.

/// The topic of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Requests without a reply subject.
    WithoutReply,
    /// Requests whose reply subject is not allowed.
    RefusedReply,
    /// Dropped requests.
    Overrun,
    /// Dropped responses.
    Undelivered,
    /// Error responses.
    ErrorResponse,
    /// `-ERR` lines of the server.
    ServerError,
    /// The connection: attempts, ups and downs.
    Connection,
    /// Bulk reads.
    Bulk,
    /// Settings of the buckets.
    Buckets,
    /// Other seats.
    OtherSeats,
    /// Registry passes.
    Registry,
}

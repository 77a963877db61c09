//! Topics of log lines. Each topic has its own rate limit.

/// The topic of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Requests without a reply subject.
    WithoutReply,
    /// Requests whose reply subject is not allowed.
    RefusedReply,
    /// Dropped messages.
    Overrun,
    /// Messages that could not be sent.
    Undelivered,
    /// Error responses.
    ErrorResponse,
    /// `-ERR` lines of the server.
    ServerError,
    /// The connection: attempts, ups and downs.
    Connection,
    /// Buckets that cannot be read.
    Buckets,
    /// Values that do not count.
    Unbelieved,
    /// Writes to the bucket of revisions.
    Writes,
    /// The store.
    Store,
    /// Other vaults.
    Others,
}

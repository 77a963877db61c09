//! What log lines are about. Each topic has a limit of its own.

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Requests without a reply subject.
    WithoutReply,
    /// Requests whose reply subject is refused.
    RefusedReply,
    /// Requests that were lost on their way in.
    Overrun,
    /// Responses that were lost on their way out.
    Undelivered,
    /// Error responses.
    ErrorResponse,
    /// `-ERR` lines of the server.
    ServerError,
    /// The connection: attempts, ups and downs.
    Connection,
    /// Reads in bulk.
    Bulk,
    /// Settings of the buckets.
    Buckets,
    /// Other seats.
    OtherSeats,
    /// Registry passes.
    Registry,
}

//! The reasons of error responses: a closed list, so that a client can decide without reading the text whether to try
//! again.

/// Why a request failed (PROTOCOL.md, "Errors").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The request is wrong: the message names the field.
    BadRequest,
    /// The request is larger than 64 KiB.
    TooLarge,
    /// The bucket does not exist.
    BucketMissing,
    /// The server denies the seat a permission.
    Denied,
    /// The response is larger than the server's `max_payload`.
    ResponseTooLarge,
    /// JetStream replied with an error.
    JetstreamError,
    /// JetStream is off, has not started yet, or hangs.
    JetstreamUnavailable,
    /// The bucket changed faster than its keys could be listed.
    BucketChanging,
    /// Too many requests wait.
    Full,
    /// The seat is about to end.
    Stopping,
    /// The seat did not read what the response needs in time.
    Timeout,
}

impl Reason {
    /// All of them, in the order of PROTOCOL.md.
    pub const ALL: [Reason; 11] = [
        Reason::BadRequest,
        Reason::TooLarge,
        Reason::BucketMissing,
        Reason::Denied,
        Reason::ResponseTooLarge,
        Reason::JetstreamError,
        Reason::JetstreamUnavailable,
        Reason::BucketChanging,
        Reason::Full,
        Reason::Stopping,
        Reason::Timeout,
    ];

    /// The value of the field `reason`.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::BadRequest => "bad_request",
            Reason::TooLarge => "too_large",
            Reason::BucketMissing => "bucket_missing",
            Reason::Denied => "denied",
            Reason::ResponseTooLarge => "response_too_large",
            Reason::JetstreamError => "jetstream_error",
            Reason::JetstreamUnavailable => "jetstream_unavailable",
            Reason::BucketChanging => "bucket_changing",
            Reason::Full => "full",
            Reason::Stopping => "stopping",
            Reason::Timeout => "timeout",
        }
    }

    /// The error code that it belongs to.
    pub const fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::TooLarge => 413,
            Reason::Timeout => 504,
            _ => 503,
        }
    }
}

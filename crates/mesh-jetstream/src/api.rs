//! What all calls of the JetStream API share: subjects and errors.

use serde::Deserialize;
use std::fmt;

/// Subject of stream info; the stream's name follows.
pub const STREAM_INFO: &str = "$JS.API.STREAM.INFO.";

/// Subject to create a stream; its name follows.
pub const STREAM_CREATE: &str = "$JS.API.STREAM.CREATE.";

/// Subject to read one message of a stream; its name follows.
pub const MESSAGE_GET: &str = "$JS.API.STREAM.MSG.GET.";

/// Subject to read many messages of a stream; its name follows.
pub const DIRECT_GET: &str = "$JS.API.DIRECT.GET.";

/// Subject to create a consumer; the stream's name, the consumer's and its filter follow.
pub const CONSUMER_CREATE: &str = "$JS.API.CONSUMER.CREATE.";

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// JetStream replied with an error.
    Refused {
        /// The stable number of the error.
        err_code: u32,
        /// The error as text.
        description: String,
    },
    /// The reply is not one of this API.
    Unreadable(String),
    /// The stream exists and is not a bucket: why.
    NotABucket(String),
}

impl ApiError {
    /// No stream of that name.
    pub const NO_STREAM: u32 = 10059;
    /// No message of that subject.
    pub const NO_MESSAGE: u32 = 10037;
    /// JetStream is disabled for the account, or for the server.
    pub const JETSTREAM_OFF: [u32; 2] = [10039, 10076];
    /// Another client has written since: two numbers for the same error.
    pub const WRONG_SEQUENCE: [u32; 2] = [10071, 10164];

    /// The number of the error.
    pub const fn err_code(&self) -> Option<u32> {
        match self {
            ApiError::Refused { err_code, .. } => Some(*err_code),
            ApiError::Unreadable(_) | ApiError::NotABucket(_) => None,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Refused { err_code, description } => write!(f, "{description} ({err_code})"),
            ApiError::NotABucket(why) => write!(f, "the stream is not a bucket: {why}"),
            ApiError::Unreadable(why) => write!(f, "unreadable reply: {why}"),
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct ErrorBody {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

impl From<ErrorBody> for ApiError {
    fn from(error: ErrorBody) -> Self {
        let err_code = if error.err_code == 0 { error.code } else { error.err_code };
        ApiError::Refused { err_code, description: error.description }
    }
}

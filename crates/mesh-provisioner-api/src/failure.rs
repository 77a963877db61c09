//! Error causes, with the operator's next step.

use crate::reason::Reason;
use mesh_jetstream::api::ApiError;
use mesh_model::bucket::Bucket;

/// An error response: its reason and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for programs; it implies the code.
    pub reason: Reason,
    /// What failed, why, and what to do next.
    pub message: String,
}

impl Refusal {
    /// A failure with its message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Refusal { reason, message: message.into() }
    }

    /// The seat is about to end.
    pub fn stopping() -> Self {
        Refusal::new(Reason::Stopping, "the seat is stopping: try again in a moment")
    }

    /// A time-out.
    pub fn too_late(message: impl Into<String>) -> Self {
        Refusal::new(Reason::Timeout, message)
    }
}

/// How much of a long message is kept: its beginning and its end, in bytes.
const MESSAGE_HEAD: usize = 768;
const MESSAGE_TAIL: usize = 256;

/// Removes the middle of a long message: it may quote a client or the server at length, while its end has the next
/// step.
pub fn shorten(message: String) -> String {
    if message.len() <= MESSAGE_HEAD + MESSAGE_TAIL {
        return message;
    }
    let boundary = |at: &usize| message.is_char_boundary(*at);
    let head = (0..=MESSAGE_HEAD).rev().find(boundary).unwrap_or(0);
    let tail = (message.len() - MESSAGE_TAIL..=message.len()).find(boundary).unwrap_or(message.len());
    format!("{} … {}", &message[..head], &message[tail..])
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// JetStream replied with an error.
    Api(ApiError),
    /// The server denied the publish; its text.
    Denied(String),
    /// There are no responders.
    NoResponders,
    /// No reply arrived in time.
    Silent,
    /// The bucket changed faster than its keys could be listed.
    Unsteady,
}

impl Cause {
    /// The failure of `bucket` and the next step, as text.
    pub fn tell(&self, bucket: Bucket) -> String {
        match self {
            Cause::Api(ApiError::NotABucket(why)) => format!(
                "the stream of bucket {bucket} is not a bucket: {why}: delete it and create it again with mesh-provisioner init"
            ),
            Cause::Api(error) => match error.err_code() {
                Some(ApiError::NO_STREAM) => {
                    format!("bucket {bucket} does not exist: run mesh-provisioner init")
                }
                Some(code) if ApiError::JETSTREAM_OFF.contains(&code) => {
                    format!(
                        "bucket {bucket} cannot be reached: {error}: enable JetStream for the seat's account"
                    )
                }
                _ => format!("bucket {bucket} cannot be reached: {error}"),
            },
            Cause::Denied(words) => format!(
                "bucket {bucket} cannot be reached: the server says {words:?}: grant the seat the permissions that mesh-provisioner permissions seat prints"
            ),
            Cause::NoResponders => format!(
                "bucket {bucket} cannot be reached: JetStream does not answer: enable it, or wait until it has started"
            ),
            Cause::Silent => format!(
                "bucket {bucket} cannot be reached: JetStream timed out; check the load and the log of the nats-server"
            ),
            Cause::Unsteady => {
                format!("bucket {bucket} changed faster than its keys could be listed: try again")
            }
        }
    }

    /// The same as an error response.
    pub fn refuse(&self, bucket: Bucket) -> Refusal {
        Refusal::new(self.reason(), self.tell(bucket))
    }

    fn reason(&self) -> Reason {
        match self {
            Cause::Api(error) => match error.err_code() {
                Some(ApiError::NO_STREAM) => Reason::BucketMissing,
                Some(code) if ApiError::JETSTREAM_OFF.contains(&code) => Reason::JetstreamUnavailable,
                _ => Reason::JetstreamError,
            },
            Cause::Denied(_) => Reason::Denied,
            Cause::NoResponders => Reason::JetstreamUnavailable,
            Cause::Silent => Reason::Timeout,
            Cause::Unsteady => Reason::BucketChanging,
        }
    }
}

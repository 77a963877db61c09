//! Everything that can wake the seat.

use mesh_jetstream::direct_get::Part;
use std::time::Duration;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection is up: its subscriptions are in place.
    Up {
        /// The server, in words for people.
        server: String,
        /// The largest message that the server takes, in bytes, headers included.
        max_payload: usize,
    },
    /// The connection ended, or an attempt to connect failed.
    Down {
        /// Fault, in words for people.
        why: String,
    },
    /// The bus said `-ERR`.
    ServerError(String),
    /// From now on the server takes messages of at most so many bytes.
    MaxPayload(usize),
    /// The server is about to shut down and wants its clients to move.
    LameDuck,
    /// A request came on one of the seat's subjects.
    Request {
        /// The subject that was asked.
        subject: String,
        /// Where the answer is to go, if the client said so.
        reply: Option<String>,
        /// The request.
        body: Vec<u8>,
    },
    /// An answer came to a request of our own.
    Reply {
        /// The number that the request was sent with.
        call: u64,
        /// The bus itself answered that nobody listens there.
        no_responders: bool,
        /// The answer.
        body: Vec<u8>,
    },
    /// A part came of the answer to a request in bulk.
    Part {
        /// The number that the request was sent with.
        call: u64,
        /// The part.
        part: Part,
    },
    /// The connection for reads in bulk is up.
    BulkUp,
    /// It ended, or an attempt to make it failed.
    BulkDown {
        /// Fault, in words for people.
        why: String,
    },
    /// So many messages were dropped before the loop saw them, since they came faster than it turned.
    Overrun(u64),
    /// So many answers could not be handed to the connection, since it takes nothing any more.
    Undelivered(u64),
    /// Somebody wants a registry pass now.
    Reload,
    /// Somebody wants the seat to end.
    Stop,
    /// The wall clock shows this time since 1970. It may step; only ages are told by it.
    Clock(Duration),
    /// A deadline that the seat had named has come.
    Due,
}

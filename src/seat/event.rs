//! Everything that can wake the seat.

use mesh_jetstream::direct_get::Part;
use std::time::Duration;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection is up: its subscriptions are in place.
    Up {
        /// The server, as text for people.
        server: String,
        /// The server's `max_payload`, in bytes, headers included.
        max_payload: usize,
    },
    /// The connection was lost, or an attempt to connect failed.
    Down {
        /// Fault, in words for people.
        why: String,
    },
    /// The server sent `-ERR`.
    ServerError(String),
    /// The server changed its `max_payload`, in bytes.
    MaxPayload(usize),
    /// The server is about to shut down and wants its clients to move.
    LameDuck,
    /// A request came on one of the seat's subjects.
    Request {
        /// The subject of the request.
        subject: String,
        /// The reply subject, if there is one.
        reply: Option<String>,
        /// The request.
        body: Vec<u8>,
    },
    /// A reply to a call arrived.
    Reply {
        /// The number of the call.
        call: u64,
        /// The server replied that there are no responders.
        no_responders: bool,
        /// The answer.
        body: Vec<u8>,
    },
    /// A part of the reply to a bulk call arrived.
    Part {
        /// The number of the call.
        call: u64,
        /// The part.
        part: Part,
    },
    /// This many messages were dropped because they arrived faster than the loop took them.
    Overrun(u64),
    /// This many responses were dropped because the outgoing queue is full.
    Undelivered(u64),
    /// An operator requests a registry pass.
    Reload,
    /// The supervisor or an operator stops the seat.
    Stop,
    /// The wall clock, as time since 1970. It may step; only ages depend on it.
    Clock(Duration),
    /// The deadline of the seat has come.
    Due,
}

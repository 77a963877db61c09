//! The shape of the seat's report on itself.

use super::peers::OtherSeat;
use serde::Serialize;

/// A report of the seat on itself (PROTOCOL.md, "health").
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Always true: the response is the proof.
    pub live: bool,
    /// Connected, subscriptions allowed, registry verified within two intervals and not contested.
    pub ready: bool,
    /// Each unmet condition and what to do next; empty if it is ready.
    pub missing: Vec<String>,
    /// The server that it is connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The registry.
    pub registry: RegistryHealth,
    /// Other programs that hold the seat and answered within the last minute.
    pub other_seats: Vec<OtherSeat>,
    /// Counters since the start.
    pub counters: Counters,
    /// The last `-ERR` of the server, verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bus_error: Option<String>,
}

/// The state of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegistryHealth {
    /// Seconds since it was last verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_seconds_ago: Option<u64>,
    /// Seconds since the last pass ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pass_seconds_ago: Option<u64>,
    /// Its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<PassHealth>,
}

/// The outcome of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PassHealth {
    /// The registry is correct.
    Done {
        /// Keys written.
        put: usize,
        /// Keys deleted.
        deleted: usize,
        /// Kinds left unchanged.
        unchanged: usize,
    },
    /// Something could not be corrected.
    Failed {
        /// What, and what to do next.
        error: String,
    },
}

/// Counters since the seat started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests to the verb.
    pub requests: u64,
    /// Responses without an error.
    pub answers: u64,
    /// Error responses with 400 or 413.
    pub bad_requests: u64,
    /// Error responses with 503.
    pub unavailable: u64,
    /// Error responses with 504.
    pub too_late: u64,
    /// Requests without a reply subject.
    pub without_reply: u64,
    /// Requests whose reply subject is not allowed.
    pub refused_replies: u64,
    /// Messages dropped because they arrived faster than the loop took them.
    pub overrun: u64,
    /// Responses dropped because the outgoing queue was full.
    pub undelivered: u64,
    /// Connections made.
    pub connections: u64,
}

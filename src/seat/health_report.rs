//! The shape of the seat's report on itself.

use super::peers::OtherSeat;
use serde::Serialize;

/// A report of the seat on itself (PROTOCOL.md, "health").
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// The loop turns. A report that arrives is its proof.
    pub live: bool,
    /// Connected, subscriptions allowed, registry verified within two intervals and not contested.
    pub ready: bool,
    /// What keeps it from being ready, and what to do next; empty if it is ready.
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
    /// What it has counted since it started.
    pub counters: Counters,
    /// The last error of the bus, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bus_error: Option<String>,
}

/// How the registry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegistryHealth {
    /// Seconds since it was last known to be as it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_seconds_ago: Option<u64>,
    /// Seconds since the last pass ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pass_seconds_ago: Option<u64>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<PassHealth>,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PassHealth {
    /// All is as it should be.
    Done {
        /// Keys written.
        put: usize,
        /// Keys deleted.
        deleted: usize,
        /// Kinds left as they were.
        unchanged: usize,
    },
    /// Something could not be put right.
    Failed {
        /// What, and what to do next.
        error: String,
    },
}

/// What the seat has counted since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests for the verb that came.
    pub requests: u64,
    /// Answers without an error.
    pub answers: u64,
    /// Error answers with 400 or 413.
    pub bad_requests: u64,
    /// Error answers with 503.
    pub unavailable: u64,
    /// Error answers with 504.
    pub too_late: u64,
    /// Requests without a reply subject.
    pub without_reply: u64,
    /// Requests whose reply subject may not be answered.
    pub refused_replies: u64,
    /// Messages that came faster than the loop turned.
    pub overrun: u64,
    /// Answers that the connection would not take.
    pub undelivered: u64,
    /// Connections that came up.
    pub connections: u64,
}

//! How the seat is: for the question `health`, for the status file and for the supervisor's status line.

use super::Seat;
use super::connection::Link;
use super::pass;
use super::presence::OtherSeat;
use serde::Serialize;
use std::time::Duration;

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

impl Seat {
    /// Whether it serves, the registry was verified within two intervals, and nobody contests it: what [`Health::ready`] says.
    pub fn is_ready(&self, now: Duration) -> bool {
        self.is_serving() && self.is_verified(now) && self.pass.contest().is_none()
    }

    fn is_verified(&self, now: Duration) -> bool {
        self.pass.verified().is_some_and(|verified| now <= verified + self.pass.every() * 2)
    }

    /// How the seat is.
    pub fn health(&self, now: Duration) -> Health {
        let ago = |then: Duration| now.saturating_sub(then).as_secs();
        let mut missing = Vec::new();
        let server = match &self.link {
            Link::Up { server, .. } => Some(server.clone()),
            Link::Down { why, .. } | Link::Connecting { why, .. } => {
                missing.push(format!("not connected to the bus: {why}"));
                None
            }
        };
        for subject in &self.denied_subscriptions {
            missing.push(format!("the bus denies the subscription of {subject:?}: grant the seat the rights that mesh-provisioner permissions seat prints"));
        }
        if self.subscriptions_over_limit > 0 {
            let subjects = self.subscriptions();
            let made = subjects.len().saturating_sub(self.subscriptions_over_limit);
            let first = subjects.get(made).or(subjects.last()).map_or("", String::as_str);
            missing.push(format!(
                "the server made {made} of {} subscriptions, and not that of {first:?}: raise max_subs of the seat's account",
                subjects.len()
            ));
        }
        match self.pass.last() {
            _ if self.is_verified(now) => missing.extend(self.pass.contest().map(pass::contest)),
            Some((_, Err(why))) => missing.push(why.clone()),
            _ => missing.push("the registry has not been verified yet".to_owned()),
        }
        if self.stopping.is_some() {
            missing.push("the seat is stopping".to_owned());
        }
        Health {
            live: true,
            ready: missing.is_empty(),
            missing,
            server,
            uptime_seconds: now.as_secs(),
            registry: RegistryHealth {
                verified_seconds_ago: self.pass.verified().map(ago),
                last_pass_seconds_ago: self.pass.last().map(|(ended, _)| ago(*ended)),
                last_pass: self.pass.last().map(|(_, outcome)| match outcome {
                    Ok(tally) => PassHealth::Done {
                        put: tally.put,
                        deleted: tally.deleted,
                        unchanged: tally.unchanged,
                    },
                    Err(why) => PassHealth::Failed { error: why.clone() },
                }),
            },
            other_seats: self.presence.others(now),
            counters: self.counters,
            last_bus_error: self.last_bus_error.clone(),
        }
    }
}

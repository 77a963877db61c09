//! The state of the seat: for the query `health`, for the status file and for the supervisor's status line.

use super::Seat;
use super::health_report::{Health, PassHealth, RegistryHealth};
use super::link_state::LinkState;
use super::registry::pass;
use std::time::Duration;

impl Seat {
    /// Whether it serves, the registry was verified within two intervals, and nobody contests it: the value of
    /// [`Health::ready`].
    pub fn is_ready(&self, now: Duration) -> bool {
        self.is_serving() && self.is_verified(now) && self.pass.contest().is_none()
    }

    fn is_verified(&self, now: Duration) -> bool {
        let bound = self.pass.every() * 2;
        self.pass.verified().is_some_and(|verified| now <= verified + bound)
            && self.checks.is_confirmed(now)
            && !self.pass.is_doubted()
    }

    /// The state of the seat.
    pub fn health(&self, now: Duration) -> Health {
        let ago = |then: Duration| now.saturating_sub(then).as_secs();
        let mut missing = Vec::new();
        let server = match &self.link {
            LinkState::Up { server, .. } => Some(server.clone()),
            LinkState::Down { why, .. } | LinkState::Connecting { why, .. } => {
                missing.push(format!("not connected to the bus: {why}"));
                None
            }
        };
        for subject in &self.denied_subscriptions {
            missing.push(format!("the server denies the subscription of {subject:?}: grant the seat the permissions that mesh-provisioner permissions seat prints"));
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
        missing.extend(self.pass.contest().map(pass::contest));
        match self.pass.last() {
            _ if self.is_verified(now) => {}
            Some((_, Err(why))) => missing.push(why.clone()),
            _ if self.pass.is_doubted() => {
                missing.push("the registry was changed since the last pass, the next one is due".to_owned());
            }
            Some(_) => missing.push(format!(
                "the registry could not be looked at for {} s: look at the JetStream of the nats-server",
                self.checks.counts_for().as_secs()
            )),
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
            other_seats: self.other_seats.others(now),
            counters: self.counters,
            last_bus_error: self.last_bus_error.clone(),
        }
    }
}

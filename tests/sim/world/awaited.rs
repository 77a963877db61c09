//! How many batches the seat awaits, at the least: one that it may have given up by now does not count.

use super::Verdict;
use crate::batch::DIRECT_GET;
use mesh_jetstream::message::Outgoing;
use mesh_provisioner::seat::Event;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many may be awaited at a time.
const MOST_BATCHES: usize = 8;

/// How long the first part of one is awaited.
const PATIENCE: Duration = Duration::from_secs(1);

/// When each batch was asked for of which nothing has come, by the subject of its answer.
#[derive(Debug, Default)]
pub(super) struct Awaited(BTreeMap<String, Duration>);

impl Awaited {
    pub(super) fn sent(&mut self, message: &Outgoing, now: Duration) -> Verdict<()> {
        if message.subject.starts_with(DIRECT_GET) {
            self.0.retain(|_, since| now < *since + PATIENCE);
            self.0.extend(message.reply.clone().map(|reply| (reply, now)));
        }
        if self.0.len() > MOST_BATCHES {
            return Err(format!("{} batches are awaited", self.0.len()));
        }
        Ok(())
    }

    pub(super) fn told(&mut self, event: &Event) {
        match event {
            Event::Reply { call, .. } | Event::Part { call, .. } => {
                self.0.retain(|reply, _| !reply.ends_with(&format!(".{call}")));
            }
            Event::Up { .. } | Event::Down { .. } | Event::ServerError(_) => {
                self.0.clear();
            }
            _ => {}
        }
    }

    /// Somebody has an answer, and nothing more is awaited for that.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

//! The machine as the shared loop takes it.

use crate::machine::{Status, Vault};
use crate::task::{Done, Task};
use mesh_daemon::exit::Exit;
use mesh_runtime::{Action, Event, Subscription};
use std::time::Duration;

/// A vault in the loop.
#[derive(Debug)]
pub struct Machine(pub Vault);

impl mesh_runtime::Machine for Machine {
    type Own = Done;
    type Task = Task;
    type Status = Status;

    fn handle(&mut self, event: Event<Done>, now: Duration) -> Vec<Action<Task>> {
        let mut actions = self.0.handle(event, now);
        if self.0.has_ended() {
            actions.push(Action::Exit(Exit::Done));
        }
        actions
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.0.next_deadline()
    }

    fn inbox(&self) -> String {
        self.0.inbox()
    }

    fn deliveries(&self) -> usize {
        crate::wire::BUCKETS.len()
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        self.0.subscriptions()
    }

    fn is_serving(&self) -> bool {
        self.0.is_serving()
    }

    fn is_ready(&self, _: Duration) -> bool {
        self.0.is_ready()
    }

    fn status_line(&self, _: Duration) -> String {
        self.0.status_line()
    }

    fn status(&self, _: Duration) -> Status {
        self.0.status()
    }

    fn ended(&self, _: Duration, exit: Exit) -> Status {
        self.0.last_status(exit.code())
    }
}

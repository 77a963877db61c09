//! The seat as a machine of the loop that all programs on the bus share: its events and actions under their names there.

use crate::seat::limits::{MAX_UNTAKEN_MONITORING, MAX_UNTAKEN_REQUESTS};
use crate::seat::{self, Action, Event, Health, Seat};
use crossbeam_channel::never;
use mesh_daemon::exit::Exit;
use mesh_model::provisioner::{QUEUE, SERVICE};
use mesh_runtime::{Machine, Started, Subscription};
use mesh_service::identity::Identity;
use serde::Serialize;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

/// Runs the seat until it is stopped.
pub fn serve(settings: seat::Settings, started: Started, status_file: Option<PathBuf>) -> Exit {
    let identity = settings.identity.clone();
    let client = format!("{SERVICE} {}", identity.id);
    let seat = Serving { seat: Seat::new(settings), identity };
    let settings = mesh_runtime::Settings { started, client, status_file };
    mesh_runtime::serve(seat, settings, never(), |task| match task {})
}

struct Serving {
    seat: Seat,
    identity: Identity,
}

/// The contents of the status file.
#[derive(Serialize)]
struct Status {
    seat: Identity,
    #[serde(flatten)]
    health: Health,
}

impl Serving {
    fn status_of(&self, health: Health) -> Status {
        Status { seat: self.identity.clone(), health }
    }
}

impl Machine for Serving {
    type Own = Infallible;
    type Task = Infallible;
    type Status = Status;

    fn handle(
        &mut self,
        event: mesh_runtime::Event<Infallible>,
        now: Duration,
    ) -> Vec<mesh_runtime::Action<Infallible>> {
        let Some(event) = event_of(event) else { return Vec::new() };
        self.seat.handle(event, now).into_iter().map(action_of).collect()
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.seat.next_deadline()
    }

    fn log_target(&self) -> &'static str {
        env!("CARGO_CRATE_NAME")
    }

    fn inbox(&self) -> String {
        self.seat.inbox()
    }

    /// The verb, then the services API.
    fn subscriptions(&self) -> Vec<Subscription> {
        let subscription = |(place, subject): (usize, String)| match place {
            0 => Subscription { subject, queue: Some(QUEUE), limit: MAX_UNTAKEN_REQUESTS },
            _ => Subscription { subject, queue: None, limit: MAX_UNTAKEN_MONITORING },
        };
        // The loop subscribes to the inbox itself.
        self.seat.subscriptions().into_iter().skip(1).enumerate().map(subscription).collect()
    }

    fn is_serving(&self) -> bool {
        self.seat.is_serving()
    }

    fn is_ready(&self, now: Duration) -> bool {
        self.seat.is_ready(now)
    }

    fn status_line(&self, now: Duration) -> String {
        let health = self.seat.health(now);
        match (health.server, health.missing.into_iter().next()) {
            (_, Some(missing)) => missing,
            (server, None) => format!("serving on {}", server.as_deref().unwrap_or("the bus")),
        }
    }

    fn status(&self, now: Duration) -> Status {
        self.status_of(self.seat.health(now))
    }

    fn ended(&self, now: Duration, exit: Exit) -> Status {
        let missing = vec![format!("the seat has ended with exit code {}", exit.code())];
        self.status_of(Health { live: false, ready: false, missing, ..self.seat.health(now) })
    }
}

/// The event of the seat; `None` for those that it never gets, because it has no consumers.
fn event_of(event: mesh_runtime::Event<Infallible>) -> Option<Event> {
    use mesh_runtime::Event as Of;
    Some(match event {
        Of::Up { server, max_payload } => Event::Up { server, max_payload },
        Of::Down { why } => Event::Down { why },
        Of::ServerError(words) => Event::ServerError(words),
        Of::MaxPayload(bytes) => Event::MaxPayload(bytes),
        Of::LameDuck => Event::LameDuck,
        Of::Request { subject, reply, body, .. } => Event::Request { subject, reply, body },
        Of::Reply { call, no_responders, body, .. } => Event::Reply { call, no_responders, body },
        Of::Part { call, part } => Event::Part { call, part },
        Of::Delivery(_) => return None,
        Of::Overrun(count) => Event::Overrun(count),
        Of::Undelivered(count) => Event::Undelivered(count),
        Of::Reload => Event::Reload,
        Of::Stop => Event::Stop,
        Of::Clock(since_1970) => Event::Clock(since_1970),
        Of::Due => Event::Due,
        Of::Own(never) => match never {},
    })
}

fn action_of(action: Action) -> mesh_runtime::Action<Infallible> {
    use mesh_runtime::Action as Of;
    match action {
        Action::Connect => Of::Connect,
        Action::Send(message) => Of::Send(message),
        Action::StopListening => Of::StopListening,
        Action::Say(level, text) => Of::Say(level, text),
        Action::Exit => Of::Exit(Exit::Done),
    }
}

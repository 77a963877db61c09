//! What wakes a machine, and what it asks of the loop.

use mesh_bus::message::Delivery;
use mesh_daemon::exit::Exit;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use std::time::Duration;

/// One event. `Own` is what else can wake this machine, such as the answer of a store or of a socket.
#[derive(Debug)]
pub enum Event<Own> {
    /// A connection is up: its subscriptions are in place.
    Up {
        /// The server, as text for people.
        server: String,
        /// The server's `max_payload`, in bytes, headers included.
        max_payload: usize,
    },
    /// The connection was lost, or an attempt to connect failed.
    Down {
        /// The cause, in words for people.
        why: String,
    },
    /// The server sent `-ERR`.
    ServerError(String),
    /// The server changed its `max_payload`, in bytes.
    MaxPayload(usize),
    /// The server is about to shut down and wants its clients to move.
    LameDuck,
    /// A message came on one of the machine's subscriptions.
    Request {
        /// The position of the subscription in [`Machine::subscriptions`].
        place: usize,
        /// Its subject.
        subject: String,
        /// The reply subject, if there is one.
        reply: Option<String>,
        /// Its body.
        body: Vec<u8>,
    },
    /// A reply came to `<inbox>.<call>`.
    Reply {
        /// The number of the call.
        call: u64,
        /// The server replied that there are no responders.
        no_responders: bool,
        /// The code and the words of a service's error.
        error: Option<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// A part of the reply to a direct get in batches came.
    Part {
        /// The number of the call.
        call: u64,
        /// The part.
        part: Part,
    },
    /// A consumer delivered to `<inbox>.c.<place>`.
    Delivery(Delivery),
    /// This many messages were dropped because they arrived faster than the loop took them.
    Overrun(u64),
    /// This many messages were dropped because the outgoing queue is full.
    Undelivered(u64),
    /// An operator sent HUP.
    Reload,
    /// The supervisor or an operator stops the program.
    Stop,
    /// The wall clock, as time since 1970. It may step; only ages and published times depend on it.
    Clock(Duration),
    /// The deadline of the machine has come.
    Due,
    /// What else happened.
    Own(Own),
}

/// One action. `Task` is what this machine needs done apart from the bus.
#[derive(Debug)]
pub enum Action<Task> {
    /// Try to connect once. The outcome arrives as [`Event::Up`] or [`Event::Down`]. A present connection stays until the
    /// new one is up.
    Connect,
    /// Publish a message.
    Send(Outgoing),
    /// Accept no more requests: end the subscriptions. Those that have arrived by then still come.
    StopListening,
    /// Log a line.
    Say(log::Level, String),
    /// Exit, after all messages were sent. After [`Action::StopListening`] the requests that had arrived are passed to
    /// the machine first, for 4 s at most: it is to answer them at once.
    Exit(Exit),
    /// Carry out a task; what comes of it at once are events of the machine's own.
    Do(Task),
}

/// A subscription for requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its subject.
    pub subject: String,
    /// Its queue group. While a connection is replaced, the old one still brings the requests of a queue group: the
    /// server sends each over one connection only.
    pub queue: Option<&'static str>,
    /// How many messages may wait for the loop; more are dropped and counted.
    pub limit: usize,
}

/// A program's state machine. It knows neither clock nor network.
pub trait Machine {
    /// What else can wake it.
    type Own;
    /// What it needs done apart from the bus.
    type Task;
    /// The contents of its status file, besides time and process id.
    type Status: serde::Serialize;

    /// Takes an event, and says what is to be done now. `now` is the time since the start.
    fn handle(&mut self, event: Event<Self::Own>, now: Duration) -> Vec<Action<Self::Task>>;
    /// When [`Event::Due`] is to come, as time since the start.
    fn next_deadline(&self) -> Option<Duration>;
    /// The target of the machine's log lines, as `RUST_LOG` names it.
    fn log_target(&self) -> &'static str {
        module_path!()
    }
    /// What the subjects of replies begin with, without a dot: a reply comes to `<inbox>.<call>`.
    fn inbox(&self) -> String;
    /// How many subjects for consumers there are: `<inbox>.c.0` and so on.
    fn deliveries(&self) -> usize {
        0
    }
    /// The subscriptions of each connection.
    fn subscriptions(&self) -> Vec<Subscription>;
    /// Whether the service manager may be told that it is ready.
    fn is_serving(&self) -> bool;
    /// Whether all is well; a change writes the status file at once.
    fn is_ready(&self, now: Duration) -> bool;
    /// One line for the service manager.
    fn status_line(&self, now: Duration) -> String;
    /// The contents of the status file.
    fn status(&self, now: Duration) -> Self::Status;
    /// The last contents of the status file: nobody is to take a program that has ended for one that serves.
    fn ended(&self, now: Duration, exit: Exit) -> Self::Status;
}

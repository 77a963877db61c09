//! Everything that the seat can request from the shell.

use mesh_jetstream::message::Outgoing;

/// One action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Try to connect once. The outcome arrives as `Event::Up` or `Event::Down`. A present connection stays until the
    /// new one is up.
    Connect,
    /// Publish a message.
    Send(Outgoing),
    /// Accept no more requests: end their subscriptions.
    StopListening,
    /// Log a line.
    Say(log::Level, String),
    /// Exit with success, after all messages were sent.
    Exit,
}

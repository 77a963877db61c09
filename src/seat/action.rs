//! Everything that the seat can ask the world to do.

use crate::wire::Outgoing;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Try to connect once. The outcome comes as `Event::Up` or `Event::Down`. If a connection is up it stays until
    /// the new one is.
    Connect,
    /// Publish a message.
    Send(Outgoing),
    /// Take no more requests: give up the subscriptions that bring them.
    StopListening,
    /// Say a line in the log.
    Say(log::Level, String),
    /// End the process with success, once what was sent has left.
    Exit,
}

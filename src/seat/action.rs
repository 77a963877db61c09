//! Everything that the seat can ask the world to do.

use mesh_jetstream::message::Outgoing;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Try to connect once. The outcome comes as `Event::Up` or `Event::Down`. If a connection is up it stays until
    /// the new one is.
    Connect,
    /// Publish a message.
    Send(Outgoing),
    /// Try once to make the connection for reads in bulk. The outcome comes as `Event::BulkUp` or `Event::BulkDown`.
    ConnectBulk,
    /// Publish a message over that connection, which brings the answer.
    SendBulk(Outgoing),
    /// End that connection. Nothing more comes of it.
    CloseBulk,
    /// Take no more requests: give up the subscriptions that bring them.
    StopListening,
    /// Say a line in the log.
    Say(log::Level, String),
    /// End the process with success, once what was sent has left.
    Exit,
}

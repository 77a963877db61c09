//! Messages on their way to the bus.

use std::sync::Arc;

/// The longest line of the protocol that a nats-server takes unless it is told otherwise, in bytes. It does not say
/// what it was told, and closes the connection of whoever sends a longer one.
pub const MAX_LINE_BYTES: usize = 4096;

/// Headers of a message, in the order in which they are sent.
pub type Headers = Vec<(&'static str, String)>;

/// The body of a message to publish. Its copies share the bytes: an answer of half a megabyte may go to a thousand
/// askers.
pub type Body = Arc<[u8]>;

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where it goes.
    pub subject: String,
    /// Where an answer to it is to go.
    pub reply: Option<String>,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Body,
}

impl Outgoing {
    /// How many bytes it takes of the bus's `max_payload`: its body, and its headers as the wire has them.
    pub fn payload_bytes(&self) -> usize {
        let lines: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        let headers = if self.headers.is_empty() { 0 } else { "NATS/1.0\r\n\r\n".len() + lines };
        self.body.len() + headers
    }

    /// How many bytes the line of the protocol takes at most that announces it: its subjects and two sizes.
    pub fn line_bytes(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, String::len);
        "HPUB   10000000 10000000\r\n".len() + self.subject.len() + reply
    }
}

/// A request to the bus, or a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where it goes.
    pub subject: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

/// A message that asks for no answer yet: whoever sends it says where that is to go.
impl From<Request> for Outgoing {
    fn from(request: Request) -> Self {
        let Request { subject, headers, body } = request;
        Outgoing { subject, reply: None, headers, body: body.into() }
    }
}

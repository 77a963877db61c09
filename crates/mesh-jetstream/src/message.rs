//! Outgoing messages.

use std::sync::Arc;

/// The default limit of a nats-server for a protocol line, in bytes. A server does not report its setting, and closes
/// the connection of a client that sends a longer line.
pub const MAX_LINE_BYTES: usize = 4096;

/// Headers of a message, in the order in which they are sent.
pub type Headers = Vec<(&'static str, String)>;

/// The body of a message to publish. Copies share the bytes: a response of half a megabyte may go to a thousand
/// clients.
pub type Body = Arc<[u8]>;

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where it goes.
    pub subject: String,
    /// The reply subject.
    pub reply: Option<String>,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Body,
}

impl Outgoing {
    /// Its size in terms of the server's `max_payload`: body and encoded headers, in bytes.
    pub fn payload_bytes(&self) -> usize {
        let lines: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
        let headers = if self.headers.is_empty() { 0 } else { "NATS/1.0\r\n\r\n".len() + lines };
        self.body.len() + headers
    }

    /// The maximum size of its protocol line, in bytes: its subjects and two sizes.
    pub fn line_bytes(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, String::len);
        "HPUB   10000000 10000000\r\n".len() + self.subject.len() + reply
    }
}

/// A call to JetStream, or a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where it goes.
    pub subject: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

/// A message without a reply subject yet: the sender adds it.
impl From<Request> for Outgoing {
    fn from(request: Request) -> Self {
        let Request { subject, headers, body } = request;
        Outgoing { subject, reply: None, headers, body: body.into() }
    }
}

//! What there is under a key.

use mesh_jetstream::kv::Message;

/// What the bus has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) enum Found {
    /// This message is the newest.
    Message(Message),
    /// The key is deleted, or its messages have expired.
    Gone {
        /// What says that it is deleted.
        marker: Option<Marker>,
    },
    /// The key cannot be asked for by its name: it is not UTF-8, or it reads as a pattern that matches others.
    Unnameable,
}

/// The message that says that a key is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Marker {
    /// Its sequence, which the next write must expect.
    pub(in crate::seat) sequence: u64,
    /// Its time, in the bus's words.
    pub(in crate::seat) at: String,
}

impl Found {
    /// Whether there is nothing.
    pub(in crate::seat) const fn is_gone(&self) -> bool {
        matches!(self, Found::Gone { .. })
    }

    /// The message that is there.
    pub(in crate::seat) const fn message(&self) -> Option<&Message> {
        match self {
            Found::Message(message) => Some(message),
            Found::Gone { .. } | Found::Unnameable => None,
        }
    }
}

impl From<Message> for Found {
    fn from(message: Message) -> Self {
        if message.deleted {
            Found::Gone { marker: Some(Marker { sequence: message.sequence, at: message.at }) }
        } else {
            Found::Message(message)
        }
    }
}

//! What there is under a key.

use mesh_jetstream::kv::Message;

/// What was found under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) enum Found {
    /// The newest message.
    Message(Message),
    /// The key is deleted, or its messages have expired.
    Gone {
        /// Its deletion marker, if there is one.
        marker: Option<Marker>,
    },
    /// The key cannot be read by name: it is not UTF-8, or it is a pattern that matches other keys.
    Unnameable,
}

/// The deletion marker of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Marker {
    /// Its sequence, which the next write must expect.
    pub(in crate::seat) sequence: u64,
    /// Its time, as the server wrote it.
    pub(in crate::seat) at: String,
}

impl Found {
    /// Whether there is no value.
    pub(in crate::seat) const fn is_gone(&self) -> bool {
        matches!(self, Found::Gone { .. })
    }

    /// The message, if there is one.
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

use crate::json::Json;
use crate::resource::{Encode, Insert};

/// What a placeholder stands for.
#[derive(Clone, Copy)]
pub enum Value<'v> {
    /// Bytes that go in as they are.
    Bytes(&'v [u8]),
    /// JSON: a string goes in without its quotes, a number digit for digit, an object or a list as the resource says.
    Json(&'v Json),
}

impl<'v> Value<'v> {
    /// The member that a dotted path leads to; an empty path leads to the value itself. Bytes have no members.
    #[must_use]
    pub fn at_path(self, path: &str) -> Option<Value<'v>> {
        match self {
            _ if path.is_empty() => Some(self),
            Value::Json(json) => json.at_path(path).map(Value::Json),
            Value::Bytes(_) => None,
        }
    }

    /// Whether there is something to insert: JSON `null` is nothing, an empty text is something.
    pub fn is_there(self) -> bool {
        !matches!(self, Value::Json(Json::Null))
    }
}

/// How a value is written where it is inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Insertion {
    /// How an object or a list is written.
    pub insert: Option<Insert>,
    /// What the text around it wants.
    pub encode: Option<Encode>,
}

use std::fmt;
use std::str::FromStr;

use crate::json::text_form;

/// The id of a resource: `site` as its author writes it, `web.site` once the controller has put the module's token
/// before it.
///
/// ```
/// use mesh_model::resource::Id;
/// let id: Id = "web.site".parse().unwrap();
/// assert_eq!((id.prefix(), id.own()), (Some("web"), "site"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

impl Id {
    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token before the dot, if there is one.
    pub fn prefix(&self) -> Option<&str> {
        self.0.split_once('.').map(|(prefix, _)| prefix)
    }

    /// What its author wrote.
    pub fn own(&self) -> &str {
        self.0.split_once('.').map_or(&self.0, |(_, own)| own)
    }

    /// The same id below `token`.
    #[must_use]
    pub fn below(&self, token: &str) -> Id {
        Id(format!("{token}.{}", self.own()))
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Id, String> {
        let (prefix, own) = match text.split_once('.') {
            Some((prefix, own)) => (Some(prefix), own),
            None => (None, text),
        };
        let token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/' | b'=');
        let small = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let fits = (1..=64).contains(&own.len())
            && own.bytes().all(|b| small(b) || b == b'-')
            && !own.starts_with('-')
            && prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.bytes().all(token));
        if fits {
            Ok(Id(text.to_owned()))
        } else {
            Err(format!("{text:?} is not an id ([a-z0-9][a-z0-9-]{{0,63}})"))
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(Id);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dot_at_most() {
        for text in ["site", "web.site", "my=2Eweb.site", "9-a", "adoption.guard-1"] {
            assert_eq!(text.parse::<Id>().unwrap().as_str(), text);
        }
        for text in ["", "-a", "A", "a.b.c", ".a", "a.", "a b", "a_b", &"a".repeat(65)] {
            assert!(text.parse::<Id>().is_err(), "{text:?}");
        }
        assert_eq!("site".parse::<Id>().unwrap().below("web"), "web.site".parse().unwrap());
    }
}

use std::fmt;
use std::str::FromStr;

use super::AccountName;
use crate::json::text_form;

/// Who owns a file: `user`, `user:group` or `uid:gid`.
///
/// ```
/// use mesh_model::resource::{Account, Owner};
/// let owner: Owner = "1000:33".parse().unwrap();
/// assert_eq!(owner.user, Account::Id(1000));
/// assert!("1000".parse::<Owner>().is_err(), "a number alone leaves the group open");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: Account,
    /// The group; absent: the user's own group.
    pub group: Option<Account>,
}

/// A user or group, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// A name, which the machine must know.
    Name(AccountName),
    /// A number, known or not.
    Id(u32),
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Owner, String> {
        let wrong = |why: String| format!("{text:?} is not an owner (user, user:group or uid:gid): {why}");
        match text.split_once(':') {
            None => Ok(Owner { user: Account::Name(text.parse().map_err(wrong)?), group: None }),
            Some((user, group)) if is_number(user) && is_number(group) => {
                let id = |text: &str| {
                    text.parse().map(Account::Id).map_err(|_| wrong(format!("{text} is too large")))
                };
                Ok(Owner { user: id(user)?, group: Some(id(group)?) })
            }
            Some((user, group)) => {
                let name = |text: &str| text.parse().map(Account::Name).map_err(wrong);
                Ok(Owner { user: name(user)?, group: Some(name(group)?) })
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Account::Name(name) => write!(f, "{name}"),
            Account::Id(id) => write!(f, "{id}"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            None => write!(f, "{}", self.user),
            Some(group) => write!(f, "{}:{group}", self.user),
        }
    }
}

text_form!(Owner);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_and_no_other() {
        for text in ["web", "web:www-data", "0:0", "4294967295:7", "_apt:root"] {
            assert_eq!(text.parse::<Owner>().unwrap().to_string(), text);
        }
        for text in ["", ":", "web:", ":web", "1000", "1000:web", "web:1000", "4294967296:0", "a:b:c", "We b"]
        {
            assert!(text.parse::<Owner>().is_err(), "{text:?}");
        }
    }
}

//! The four buckets of the mesh and the shapes of their keys.
//!
//! The server does not enforce any of it: a bucket holds whatever bytes a client published. So a key is either parsed
//! into its names, or it is malformed and the reason is reported.

use crate::name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much of a token a message shows, in characters.
const SHOWN_CHARACTERS: usize = 64;

/// A bucket of the mesh. The seat writes only [`Bucket::Registry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Which domain answers which kind.
    Registry,
    /// What each module needs, written by each node's provisioner client.
    Needs,
    /// What each node has applied.
    Applied,
    /// What each node contributes to collections.
    Collect,
}

impl Bucket {
    /// All buckets, in the order in which they are made and checked.
    pub const ALL: [Bucket; 4] = [Bucket::Registry, Bucket::Needs, Bucket::Applied, Bucket::Collect];

    /// The buckets with the nodes' own keys.
    pub const OF_NODES: [Bucket; 3] = [Bucket::Needs, Bucket::Applied, Bucket::Collect];

    /// The bucket's name on the bus.
    pub const fn name(self) -> &'static str {
        match self {
            Bucket::Registry => "mesh-provisioner_registry",
            Bucket::Needs => "mesh-provisioner_needs",
            Bucket::Applied => "mesh-provisioner_applied",
            Bucket::Collect => "mesh-provisioner_collect",
        }
    }

    /// The short name of the bucket in responses.
    pub const fn suffix(self) -> &'static str {
        match self {
            Bucket::Registry => "registry",
            Bucket::Needs => "needs",
            Bucket::Applied => "applied",
            Bucket::Collect => "collect",
        }
    }

    /// The field names of a key's tokens, in order.
    pub const fn token_names(self) -> &'static [&'static str] {
        match self {
            Bucket::Registry => &["kind"],
            Bucket::Needs => &["node", "module", "kind", "name"],
            Bucket::Applied => &["node", "module"],
            Bucket::Collect => &["node", "collection", "contributor"],
        }
    }

    /// What one key of the bucket is, for messages.
    const fn one(self) -> &'static str {
        match self {
            Bucket::Registry => "a kind",
            Bucket::Needs => "a need",
            Bucket::Applied => "an applied module",
            Bucket::Collect => "a contribution",
        }
    }

    /// The names that `key` spells, as many as [`Bucket::token_names`].
    ///
    /// ```
    /// use mesh_model::bucket::{Bucket, Fault};
    ///
    /// let names = Bucket::Collect.parse("attic.shell=3Azsh=3Anormal.web").unwrap();
    /// assert_eq!(names, ["attic", "shell:zsh:normal", "web"]);
    ///
    /// let malformed = Bucket::Needs.parse("attic.web.port").unwrap_err();
    /// assert_eq!((malformed.why, malformed.detail.as_str()), (Fault::Shape, "3 tokens where a need has 4"));
    /// // `a` stands for itself, so `=61` is not its token.
    /// assert_eq!(Bucket::Applied.parse("=61.web").unwrap_err().why, Fault::Token);
    /// ```
    pub fn parse(self, key: &str) -> Result<Vec<String>, Malformed> {
        if key.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Malformed::new(
                Fault::Bytes,
                "contains bytes that are not UTF-8, shown as U+FFFD".to_owned(),
            ));
        }
        let tokens: Vec<&str> = key.split('.').collect();
        let expected = self.token_names();
        if tokens.len() != expected.len() {
            let plural = if tokens.len() == 1 { "" } else { "s" };
            let detail =
                format!("{} token{plural} where {} has {}", tokens.len(), self.one(), expected.len());
            return Err(Malformed::new(Fault::Shape, detail));
        }
        let named = tokens.iter().zip(expected);
        named
            .map(|(token, what)| {
                name::decode(token).map_err(|why| {
                    Malformed::new(Fault::Token, format!("the {what} token {:?} {why}", beginning(token)))
                })
            })
            .collect()
    }
}

/// A token for a message: the complete key is next to it, and may be as long as a subject.
fn beginning(token: &str) -> String {
    match token.char_indices().nth(SHOWN_CHARACTERS) {
        None => token.to_owned(),
        Some((end, _)) => format!("{}…", &token[..end]),
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a key or its value is malformed; the word in responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The key has too many or too few tokens.
    Shape,
    /// A token of the key is not the spelling of a name.
    Token,
    /// The key is not UTF-8.
    Bytes,
    /// The value is not JSON.
    Json,
    /// The message's headers cannot be parsed.
    Header,
    /// The value is too large for a response.
    Size,
}

/// A fault of a key or its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The kind of fault.
    pub why: Fault,
    /// The fault in words.
    pub detail: String,
}

impl Malformed {
    /// A fault of the kind `why`, described by `detail`.
    pub fn new(why: Fault, detail: impl Into<String>) -> Self {
        Malformed { why, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_shape_gives_its_names() {
        assert_eq!(
            Bucket::Needs.parse("n1.web.environment.a=2Eb").unwrap(),
            ["n1", "web", "environment", "a.b"].map(str::to_owned)
        );
        assert_eq!(Bucket::Registry.parse("secret").unwrap(), ["secret"]);
        assert_eq!(Bucket::Applied.parse("n1.web").unwrap(), ["n1", "web"]);
        assert_eq!(
            Bucket::Collect.parse("n1.shell=3Azsh=3Anormal.prompt").unwrap(),
            ["n1", "shell:zsh:normal", "prompt"]
        );
    }

    #[test]
    fn a_key_out_of_shape_says_which_fault_it_has() {
        let said = |bucket: Bucket, key: &str| {
            let malformed = bucket.parse(key).unwrap_err();
            (malformed.why, malformed.detail)
        };
        assert_eq!(
            said(Bucket::Needs, "n1.web.port"),
            (Fault::Shape, "3 tokens where a need has 4".to_owned())
        );
        assert_eq!(
            said(Bucket::Applied, "n1"),
            (Fault::Shape, "1 token where an applied module has 2".to_owned())
        );
        assert_eq!(
            said(Bucket::Collect, "n1.=61.b"),
            (
                Fault::Token,
                "the collection token \"=61\" spells =61 for 'a', which stands for itself".to_owned()
            )
        );
        assert_eq!(said(Bucket::Needs, "n1.\u{fffd}.port.http").0, Fault::Bytes);
        assert_eq!(said(Bucket::Needs, "n1.*.port.http").0, Fault::Token);
    }
}

//! The least rights on the bus that each role needs, in one place: what `permissions` prints, what `check` tries, and
//! what the shipped server configuration holds (a test compares).

use crate::wire::service::{self, Monitor};
use crate::wire::{INBOX, QUEUE, SERVICE, VERB};
use mesh_jetstream::api;
use mesh_jetstream::bucket::Kv;
use mesh_model::bucket::Bucket;
use mesh_model::name::{self, NotAName};
use std::fmt::{self, Write};

/// The first tokens of inboxes that the seat always answers: those of the client libraries and of reply mappings.
pub const ANSWERED: [&str; 2] = ["_INBOX", "_R_"];

/// Rights of the same kind, and why they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Why, in a sentence; empty where the subjects say it themselves.
    pub why: &'static str,
    /// Subjects as a server's configuration has them: with wildcards, and a queue group behind a space.
    pub subjects: Vec<String>,
}

impl Group {
    fn new(why: &'static str, subjects: impl IntoIterator<Item = String>) -> Self {
        Group { why, subjects: subjects.into_iter().collect() }
    }
}

/// All that a role may do. What is not here is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// What it may publish.
    pub publish: Vec<Group>,
    /// What it may subscribe.
    pub subscribe: Vec<Group>,
}

impl Rights {
    /// The rights of the seat, which answers under `reply_prefixes` beside the usual ones.
    pub fn of_seat(reply_prefixes: &[String]) -> Self {
        let answered = ANSWERED.into_iter().chain(reply_prefixes.iter().map(String::as_str));
        let on_all = |request: &'static str| {
            Bucket::ALL.map(|bucket| format!("{request}{}", Kv::new(bucket.name()).stream()))
        };
        Rights {
            publish: vec![
                Group::new(
                    "Writes the registry, and nothing else.",
                    [format!("{}>", Kv::new(Bucket::Registry.name()).subject_prefix())],
                ),
                Group::new(
                    "Lists a bucket's keys, and reads one value.",
                    [api::STREAM_INFO, api::MESSAGE_GET].into_iter().flat_map(on_all),
                ),
                Group::new(
                    "Reads many messages at a time. Without it the seat reads them one by one.",
                    Bucket::OF_NODES
                        .map(|bucket| format!("{}{}", api::DIRECT_GET, Kv::new(bucket.name()).stream())),
                ),
                Group::new("Asks whether somebody else holds the seat too.", [service::ping_subject()]),
                Group::new(
                    "Answers. For each `--reply-prefix` of the seat add a line.",
                    answered.map(|prefix| format!("{prefix}.>")),
                ),
            ],
            subscribe: vec![
                Group::new("", [format!("{INBOX}.>")]),
                Group::new(
                    "In the queue group only, so that a request has one answer even when two hold the seat.",
                    [format!("{VERB} {QUEUE}")],
                ),
                Group::new("", Monitor::subjects("*")),
            ],
        }
    }

    /// The rights of the provisioner's client on the node `name`: its own keys, and an inbox of its own in which it
    /// hears that they are stored.
    pub fn of_node(name: &str) -> Result<Self, BadNode> {
        name::check(name).map_err(BadNode::Name)?;
        if name == SERVICE {
            return Err(BadNode::Seat);
        }
        let token = name::encode(name);
        Ok(Rights {
            publish: vec![Group::new(
                "",
                Bucket::OF_NODES
                    .map(|bucket| format!("{}{token}.>", Kv::new(bucket.name()).subject_prefix())),
            )],
            subscribe: vec![Group::new("", [format!("_INBOX_{token}.>")])],
        })
    }

    /// The rights of whoever asks the seat.
    pub fn of_reader() -> Self {
        Rights {
            publish: vec![Group::new("", [VERB.to_owned()]), Group::new("", Monitor::subjects("*"))],
            subscribe: vec![Group::new("", ["_INBOX.>".to_owned()])],
        }
    }

    /// The rights as a block of a nats-server's configuration, for a user.
    pub fn to_config(&self) -> String {
        let mut text = "permissions: {\n".to_owned();
        for (word, groups) in [("publish", &self.publish), ("subscribe", &self.subscribe)] {
            writeln!(text, "  {word}: [").ok();
            for group in groups {
                if !group.why.is_empty() {
                    writeln!(text, "    # {}", group.why).ok();
                }
                for subject in &group.subjects {
                    writeln!(text, "    {}", quote(subject)).ok();
                }
            }
            text.push_str("  ]\n");
        }
        text.push_str("}\n");
        text
    }
}

/// Why a name cannot be that of a node with rights of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadNode {
    /// It is no name.
    Name(NotAName),
    /// It is the seat's: a node of that name would share the seat's inbox.
    Seat,
}

impl fmt::Display for BadNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadNode::Name(why) => write!(f, "the node's name {why}"),
            BadNode::Seat => write!(
                f,
                "a node cannot be called {SERVICE}: it could listen on the seat's own inbox, {INBOX}.>; give it another name"
            ),
        }
    }
}

/// A string as the server's configuration reads it.
pub fn quote(subject: &str) -> String {
    format!("\"{}\"", subject.replace('\\', r"\\").replace('"', r#"\""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../packaging/bus/nats-server.conf");

    /// The lines of the permissions of `user` in the shipped configuration, without indentation and comments.
    fn shipped(user: &str) -> Vec<&'static str> {
        let from = SHIPPED.find(&format!("user: {user}\n")).expect("a shipped user");
        let block = &SHIPPED[from + SHIPPED[from..].find("permissions: {").expect("its permissions")..];
        let end = block.find("\n        }\n").expect("the end of its permissions");
        lines(&block[..end + "\n        }".len()])
    }

    fn lines(text: &str) -> Vec<&str> {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    /// As [`lines`], with lists of one string opened up.
    fn spread(lines: &[&str]) -> Vec<String> {
        let spread = lines.iter().flat_map(|line| match line.split_once("[\"") {
            Some((word, rest)) => {
                vec![format!("{word}["), format!("\"{}", rest.trim_end_matches(']')), "]".to_owned()]
            }
            None => vec![(*line).to_owned()],
        });
        spread.collect()
    }

    #[test]
    fn the_shipped_configuration_has_these_rights_and_no_others() {
        let node = |name| Rights::of_node(name).unwrap();
        for (user, rights) in [
            ("seat", Rights::of_seat(&[])),
            ("reader", Rights::of_reader()),
            ("attic", node("attic")),
            ("cellar", node("cellar")),
            ("garage", node("garage")),
        ] {
            assert_eq!(spread(&shipped(user)), lines(&rights.to_config()), "{user}");
        }
    }

    #[test]
    fn a_reply_prefix_is_one_more_right_to_publish() {
        let rights = Rights::of_seat(&["_MY.inbox".to_owned()]);
        assert_eq!(rights.publish[4].subjects, ["_INBOX.>", "_R_.>", "_MY.inbox.>"]);
        assert_eq!(rights.subscribe, Rights::of_seat(&[]).subscribe);
    }

    #[test]
    fn a_node_has_rights_on_its_own_keys_whatever_its_name() {
        for (name, token) in [("*", "=2A"), (">", "=3E"), ("a.b", "a=2Eb"), ("a b\"c", "a=20b=22c")] {
            let rights = Rights::of_node(name).unwrap();
            assert_eq!(
                rights.publish[0].subjects,
                [
                    format!("$KV.mesh-provisioner_needs.{token}.>"),
                    format!("$KV.mesh-provisioner_applied.{token}.>"),
                    format!("$KV.mesh-provisioner_collect.{token}.>"),
                ]
            );
            assert_eq!(rights.subscribe[0].subjects, [format!("_INBOX_{token}.>")]);
        }
        assert_eq!(Rights::of_node(""), Err(BadNode::Name(NotAName::Empty)));
        assert_eq!(Rights::of_node("a\nb"), Err(BadNode::Name(NotAName::Control('\n'))));
    }

    #[test]
    fn no_node_listens_on_the_seats_inbox() {
        assert_eq!(Rights::of_node("mesh-provisioner"), Err(BadNode::Seat));
    }

    #[test]
    fn a_string_cannot_end_early() {
        assert_eq!(quote(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}

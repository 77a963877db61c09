//! The least rights on the bus that each role needs, in one place: what `permissions` prints, what `check` tries, what the
//! controller writes into the server's file of users, and what the shipped server configuration holds (a test compares).
//!
//! No node and no module ever gets a right to read a key directly. Whoever reads directly chooses the reply subject, and
//! the server publishes the stored bytes there with nobody's rights: a node could write its own bytes into any bucket
//! and call any verb. A node reads through consumers instead, each limited to its own keys by its subject.

use crate::bucket::Bucket;
use crate::name::{self, NotAName};
use serde_json::json;
use std::fmt::Write;

/// The first tokens of inboxes that a service always answers: those of the client libraries and of reply mappings, and
/// those of the mesh's own accounts.
pub const ANSWERED: [&str; 3] = ["_INBOX", "_INBOX_mesh", "_R_"];

/// The queue group of each verb: one response for each request, however many programs answer it.
pub const QUEUE: &str = "q";

/// The verb of the provisioner's seat.
pub const PROVISIONING: &str = "mesh-provisioner.provisioning";

/// The verb that hands out a secret, sealed to the machine that uses it.
pub const VAULT_SECRET: &str = "mesh-vault.secret";

/// The verb that hands out the credentials of a provider's consumers.
pub const VAULT_CONSUMERS: &str = "mesh-vault.consumers";

/// The verb by which a new node joins.
pub const JOIN: &str = "mesh-controller.join";

/// The verbs of the controller that only read.
pub const CONTROLLER_READS: [&str; 2] = ["mesh-controller.status", "mesh-controller.plan"];

const DECLARATIONS: &str = "mesh-controller_declarations";
const ASSIGNMENTS: &str = "mesh-controller_assignments";
const SETTINGS: &str = "mesh-controller_settings";
const NODES: &str = "mesh-controller_nodes";
const REPORTS: &str = "mesh-controller_reports";
const REVISIONS: &str = "mesh-vault_revisions";

/// An account's own inbox: no other account may subscribe below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inbox<'a> {
    /// The provisioner's seat.
    Provisioner,
    /// The controller.
    Controller,
    /// The vault.
    Vault,
    /// A node's client, by the node's name.
    Node(&'a str),
    /// A module on a node, by both names.
    Module(&'a str, &'a str),
    /// Who joins with a token.
    Joiner,
}

impl Inbox<'_> {
    /// What the subjects of the inbox start with, without the dot that follows.
    pub fn prefix(self) -> String {
        match self {
            Inbox::Provisioner => "_INBOX_mesh.provisioner".to_owned(),
            Inbox::Controller => "_INBOX_mesh.controller".to_owned(),
            Inbox::Vault => "_INBOX_mesh.vault".to_owned(),
            Inbox::Node(node) => format!("_INBOX_mesh.node.{}", name::encode(node)),
            Inbox::Module(node, module) => {
                format!("_INBOX_mesh.module.{}.{}", name::encode(node), name::encode(module))
            }
            Inbox::Joiner => "_INBOX_mesh.joiner".to_owned(),
        }
    }

    fn group(self) -> Group {
        Group::new("", [format!("{}.>", self.prefix())])
    }
}

/// Rights of the same kind, and why they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Why, in a sentence; empty where the subjects say it themselves.
    pub why: &'static str,
    /// Subjects as a server's configuration has them: with wildcards, and a queue group after a space.
    pub subjects: Vec<String>,
}

impl Group {
    fn new(why: &'static str, subjects: impl IntoIterator<Item = String>) -> Self {
        Group { why, subjects: subjects.into_iter().collect() }
    }
}

/// What a module's manifest asks of the bus.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuleBus<'a> {
    /// The subjects that it publishes.
    pub emits: &'a [String],
    /// The subjects that it subscribes.
    pub consumes: &'a [String],
    /// Whether it provides something that other modules are bound to.
    pub provides: bool,
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
        let api = |verb: &'static str| Bucket::ALL.map(|bucket| format!("{verb}.KV_{}", bucket.name()));
        let direct = Bucket::OF_NODES.map(|bucket| format!("$JS.API.DIRECT.GET.KV_{}", bucket.name()));
        Rights {
            publish: vec![
                Group::new(
                    "Writes the registry, and nothing else.",
                    [format!("$KV.{}.>", Bucket::Registry.name())],
                ),
                Group::new(
                    "Lists a bucket's keys, and reads one value.",
                    ["$JS.API.STREAM.INFO", "$JS.API.STREAM.MSG.GET"].into_iter().flat_map(api),
                ),
                Group::new(
                    "Reads many messages at a time. Without it the seat reads them one by one.",
                    direct,
                ),
                Group::new("Finds other programs that hold the seat.", [ping("mesh-provisioner")]),
                answers(reply_prefixes),
            ],
            subscribe: serves(Inbox::Provisioner, PROVISIONING, "mesh-provisioner"),
        }
    }

    /// The rights of the controller, which makes the buckets of `providers`: the modules that others are bound to.
    pub fn of_controller(providers: &[String]) -> Self {
        let own = [DECLARATIONS, ASSIGNMENTS, SETTINGS, NODES];
        let read = [&own[..], &[REPORTS, REVISIONS, Bucket::Needs.name(), Bucket::Applied.name()]].concat();
        let bound = providers.iter().map(|provider| format!("$JS.API.STREAM.CREATE.KV_{provider}_bound"));
        let vault = ["secret", "consumers", "accept", "rotate", "export"];
        Rights {
            publish: vec![
                Group::new("Writes what each node runs.", own.map(|bucket| format!("$KV.{bucket}.>"))),
                Group::new(
                    "Reads its own buckets, and what the nodes and the vault write.",
                    read.iter().flat_map(|bucket| {
                        [
                            format!("$JS.API.STREAM.INFO.KV_{bucket}"),
                            format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"),
                            consumer(bucket, ">"),
                        ]
                    }),
                ),
                Group::new("Makes a bucket for each provider.", bound),
                Group::new("Asks the vault.", vault.map(|verb| format!("mesh-vault.{verb}"))),
                Group::new(
                    "Finds other programs of its kind.",
                    [ping("mesh-controller"), ping("mesh-vault")],
                ),
                answers(&[]),
            ],
            subscribe: serves(Inbox::Controller, "mesh-controller.>", "mesh-controller"),
        }
    }

    /// The rights of the vault.
    pub fn of_vault() -> Self {
        let read = [DECLARATIONS, ASSIGNMENTS, NODES, Bucket::Applied.name(), REVISIONS];
        Rights {
            publish: vec![
                Group::new("Writes which revision of each secret there is.", [format!("$KV.{REVISIONS}.>")]),
                Group::new(
                    "Reads who may have which secret.",
                    read.iter().flat_map(|bucket| {
                        [format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"), consumer(bucket, ">")]
                    }),
                ),
                Group::new("Finds other programs of its kind.", [ping("mesh-vault")]),
                answers(&[]),
            ],
            subscribe: serves(Inbox::Vault, "mesh-vault.>", "mesh-vault"),
        }
    }

    /// The rights of the provisioner's client on the node `name`: it writes and reads its own node's keys, and asks the
    /// vault and the seat. `providers` are the modules that other modules are bound to: each has a bucket of its own.
    pub fn of_node(name: &str, providers: &[String]) -> Result<Self, NotAName> {
        name::check(name)?;
        let token = name::encode(name);
        let own = format!("{token}.>");
        let buckets = Bucket::OF_NODES.map(Bucket::name);
        let mut write = buckets.map(|bucket| format!("$KV.{bucket}.{own}")).to_vec();
        write.push(format!("$KV.{REPORTS}.{token}"));
        let mut read = vec![consumer(DECLARATIONS, &token)];
        read.extend([ASSIGNMENTS, SETTINGS, REVISIONS].iter().map(|bucket| consumer(bucket, &own)));
        read.extend(buckets.iter().map(|bucket| consumer(bucket, &own)));
        read.extend(providers.iter().map(|provider| consumer(&format!("{provider}_bound"), &own)));
        Ok(Rights {
            publish: vec![
                Group::new("Writes its own node's keys.", write),
                Group::new("Reads its own node's keys.", read),
                Group::new("Reads the registry.", [consumer(Bucket::Registry.name(), ">")]),
                Group::new(
                    "Asks the vault and the seat.",
                    [VAULT_SECRET, VAULT_CONSUMERS, PROVISIONING].map(str::to_owned),
                ),
            ],
            subscribe: vec![Inbox::Node(name).group()],
        })
    }

    /// The rights of the module `module` on the node `node`: what its manifest emits and consumes. A provider also writes
    /// its own bucket, and reads which modules need what it provides.
    pub fn of_module(node: &str, module: &str, bus: &ModuleBus<'_>) -> Self {
        let mut publish = Vec::new();
        if !bus.emits.is_empty() {
            publish.push(Group::new("Emits.", bus.emits.iter().cloned()));
        }
        if bus.provides {
            publish.push(Group::new(
                "Tells each consumer where it is, and reads who its consumers are.",
                [format!("$KV.{module}_bound.>"), consumer(Bucket::Needs.name(), "*.*.bound.>")],
            ));
        }
        let mut subscribe = vec![Inbox::Module(node, module).group()];
        if !bus.consumes.is_empty() {
            subscribe.push(Group::new("Consumes.", bus.consumes.iter().cloned()));
        }
        Rights { publish, subscribe }
    }

    /// The rights of a machine that joins with a token.
    pub fn of_joiner() -> Self {
        Rights { publish: vec![Group::new("", [JOIN.to_owned()])], subscribe: vec![Inbox::Joiner.group()] }
    }

    /// The rights of an account that queries the seat and the controller. Its inbox is the one that every client library has.
    pub fn of_reader() -> Self {
        let services = ["mesh-provisioner", "mesh-controller", "mesh-vault"];
        Rights {
            publish: vec![
                Group::new("", [PROVISIONING].into_iter().chain(CONTROLLER_READS).map(str::to_owned)),
                Group::new(
                    "Finds the services of the mesh, as `nats service ls` does.",
                    MONITORING.iter().map(|word| format!("$SRV.{word}")).chain(services.iter().flat_map(
                        |service| {
                            MONITORING.iter().flat_map(move |word| {
                                [format!("$SRV.{word}.{service}"), format!("$SRV.{word}.{service}.*")]
                            })
                        },
                    )),
                ),
            ],
            subscribe: vec![Group::new("", ["_INBOX.>".to_owned()])],
        }
    }

    /// The rights of an administrator, who makes the buckets, deletes malformed keys of them, and asks the seat.
    pub fn of_administrator() -> Self {
        Rights {
            publish: vec![
                Group::new("Makes and mends the buckets.", ["$JS.API.>".to_owned()]),
                Group::new(
                    "Deletes malformed keys, with `nats kv del`.",
                    Bucket::ALL.map(|bucket| format!("$KV.{}.>", bucket.name())),
                ),
                Group::new("Asks the seat.", [PROVISIONING.to_owned()]),
            ],
            subscribe: vec![Group::new("", ["_INBOX.>".to_owned()])],
        }
    }

    fn subjects(groups: &[Group]) -> impl Iterator<Item = &str> {
        groups.iter().flat_map(|group| &group.subjects).map(String::as_str)
    }

    /// The rights as the command line that makes a user with them with `nsc`.
    pub fn to_nsc(&self, user: &str) -> String {
        let mut text = format!("nsc add user --name {}", shell_word(user));
        for (list, groups) in [("pub", &self.publish), ("sub", &self.subscribe)] {
            if groups.is_empty() {
                // An empty list allows everything.
                write!(text, " \\\n  --deny-{list} '>'").ok();
            }
            for subject in Rights::subjects(groups) {
                write!(text, " \\\n  --allow-{list} {}", shell_word(subject)).ok();
            }
        }
        text.push('\n');
        text
    }

    /// The rights as JSON, as a user's JWT has them.
    pub fn to_json(&self) -> String {
        let list = |groups: &[Group]| match groups {
            [] => json!({"deny": [">"]}),
            groups => json!({"allow": Rights::subjects(groups).collect::<Vec<_>>()}),
        };
        format!("{}\n", json!({"pub": list(&self.publish), "sub": list(&self.subscribe)}))
    }

    /// The rights as a block of a nats-server's configuration, for a user.
    pub fn to_config(&self) -> String {
        let mut text = "permissions: {\n".to_owned();
        for (word, groups) in [("publish", &self.publish), ("subscribe", &self.subscribe)] {
            if groups.is_empty() {
                // To nats-server an empty list allows everything.
                writeln!(text, "  {word}: {{ deny: \">\" }}").ok();
                continue;
            }
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

/// The words of the services API.
const MONITORING: [&str; 3] = ["PING", "INFO", "STATS"];

fn ping(service: &str) -> String {
    format!("$SRV.PING.{service}")
}

/// The right to make a consumer on `bucket` for the keys that match `keys`. The server compares the filter in the
/// request's body with the one in its subject.
fn consumer(bucket: &str, keys: &str) -> String {
    format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.*.$KV.{bucket}.{keys}")
}

fn answers(more: &[String]) -> Group {
    let prefixes = ANSWERED.into_iter().chain(more.iter().map(String::as_str));
    Group::new("Answers. For each `--reply-prefix` add a line.", prefixes.map(|prefix| format!("{prefix}.>")))
}

/// What a service subscribes: its inbox, its verbs, and the services API.
fn serves(inbox: Inbox<'_>, verb: &str, service: &str) -> Vec<Group> {
    let monitoring = MONITORING.iter().flat_map(|word| {
        [format!("$SRV.{word}"), format!("$SRV.{word}.{service}"), format!("$SRV.{word}.{service}.*")]
    });
    vec![
        inbox.group(),
        Group::new(
            "In the queue group only, so that a request has one answer even when two programs serve.",
            [format!("{verb} {QUEUE}")],
        ),
        Group::new("", monitoring),
    ]
}

/// A word in quotes for a shell.
fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A string as the server's configuration reads it.
pub fn quote(subject: &str) -> String {
    format!("\"{}\"", subject.replace('\\', r"\\").replace('"', r#"\""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../../packaging/bus/nats-server.conf");

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
        let node = |name| Rights::of_node(name, &[]).unwrap();
        for (user, rights) in [
            ("seat", Rights::of_seat(&[])),
            ("reader", Rights::of_reader()),
            ("administrator", Rights::of_administrator()),
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
        assert_eq!(rights.publish[4].subjects, ["_INBOX.>", "_INBOX_mesh.>", "_R_.>", "_MY.inbox.>"]);
        assert_eq!(rights.subscribe, Rights::of_seat(&[]).subscribe);
    }

    /// All subjects of a list of groups.
    fn subjects(groups: &[Group]) -> Vec<&str> {
        groups.iter().flat_map(|group| &group.subjects).map(String::as_str).collect()
    }

    #[test]
    fn a_node_has_rights_on_its_own_keys_whatever_its_name() {
        for (name, token) in [("*", "=2A"), (">", "=3E"), ("a.b", "a=2Eb"), ("a b\"c", "a=20b=22c")] {
            let rights = Rights::of_node(name, &["postgres".to_owned()]).unwrap();
            let consumer =
                |bucket: &str| format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.*.$KV.{bucket}.{token}.>");
            assert_eq!(
                subjects(&rights.publish),
                [
                    format!("$KV.mesh-provisioner_needs.{token}.>"),
                    format!("$KV.mesh-provisioner_applied.{token}.>"),
                    format!("$KV.mesh-provisioner_collect.{token}.>"),
                    format!("$KV.mesh-controller_reports.{token}"),
                    format!(
                        "$JS.API.CONSUMER.CREATE.KV_mesh-controller_declarations.*.$KV.mesh-controller_declarations.{token}"
                    ),
                    consumer("mesh-controller_assignments"),
                    consumer("mesh-controller_settings"),
                    consumer("mesh-vault_revisions"),
                    consumer("mesh-provisioner_needs"),
                    consumer("mesh-provisioner_applied"),
                    consumer("mesh-provisioner_collect"),
                    consumer("postgres_bound"),
                    "$JS.API.CONSUMER.CREATE.KV_mesh-provisioner_registry.*.$KV.mesh-provisioner_registry.>"
                        .to_owned(),
                    "mesh-vault.secret".to_owned(),
                    "mesh-vault.consumers".to_owned(),
                    "mesh-provisioner.provisioning".to_owned(),
                ]
            );
            assert_eq!(subjects(&rights.subscribe), [format!("_INBOX_mesh.node.{token}.>")]);
        }
        assert_eq!(Rights::of_node("", &[]), Err(NotAName::Empty));
        assert_eq!(Rights::of_node("a\nb", &[]), Err(NotAName::Control('\n')));
    }

    #[test]
    fn no_node_and_no_module_reads_a_key_directly() {
        let bus = ModuleBus { emits: &["web.events.>".to_owned()], consumes: &[], provides: true };
        for rights in [
            Rights::of_node("attic", &["postgres".to_owned()]).unwrap(),
            Rights::of_module("attic", "web", &bus),
            Rights::of_joiner(),
            Rights::of_reader(),
        ] {
            let direct =
                |subject: &&str| subject.contains("DIRECT.GET") || subject.contains("STREAM.MSG.GET");
            assert_eq!(subjects(&rights.publish).into_iter().find(direct), None);
        }
    }

    #[test]
    fn every_account_has_an_inbox_of_its_own() {
        let bus = ModuleBus::default();
        let inboxes: Vec<String> = [
            Rights::of_seat(&[]),
            Rights::of_controller(&[]),
            Rights::of_vault(),
            Rights::of_node("attic", &[]).unwrap(),
            Rights::of_node("cellar", &[]).unwrap(),
            Rights::of_module("attic", "web", &bus),
            Rights::of_joiner(),
        ]
        .iter()
        .map(|rights| rights.subscribe[0].subjects[0].clone())
        .collect();
        for (at, inbox) in inboxes.iter().enumerate() {
            let prefix = inbox.strip_suffix('>').expect("an inbox is everything below a prefix");
            assert!(prefix.starts_with("_INBOX_mesh."), "{inbox}");
            let others = inboxes.iter().enumerate().filter(|(other, _)| *other != at);
            assert!(others.into_iter().all(|(_, other)| !other.starts_with(prefix)), "{inbox}");
        }
    }

    #[test]
    fn whoever_may_publish_nothing_is_told_so() {
        // To nats-server an empty list of rights allows everything.
        let text = Rights::of_module("attic", "web", &ModuleBus::default()).to_config();
        assert!(text.contains("  publish: { deny: \">\" }\n"), "{text}");
        assert!(!text.contains("publish: ["), "{text}");
    }

    #[test]
    fn a_string_cannot_end_early() {
        assert_eq!(quote(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}

//! The file of users: every account of the mesh with its rights, as a nats-server's configuration includes it.
//!
//! It holds `users: [ … ]` and nothing else: the server puts it where the `include` stands. The last user is a sentinel
//! whose key follows from the rest of the file. Whoever is let in as that user knows that the server has this file.

use mesh_model::bucket::Bucket;
use mesh_model::digest::Digest;
use mesh_model::keys::BusKey;
use mesh_model::name;
use mesh_model::rights::{Group, ModuleBus, Rights};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

/// A program or a person that a mesh has once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Makes the buckets.
    Administrator,
    /// This program.
    Controller,
    /// Asks, and changes nothing.
    Reader,
    /// The provisioner.
    Seat,
    /// The vault.
    Vault,
}

impl Role {
    /// All of them, in the order of the file.
    pub const ALL: [Role; 5] = [Role::Administrator, Role::Controller, Role::Reader, Role::Seat, Role::Vault];

    /// Its name, and that of its seed's file.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Administrator => "administrator",
            Role::Controller => "controller",
            Role::Reader => "reader",
            Role::Seat => "seat",
            Role::Vault => "vault",
        }
    }

    /// The role of that name.
    pub fn of(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The account of a module on a node, and what its manifest asks of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleAccount {
    /// Its key.
    pub key: BusKey,
    /// The subjects that it publishes.
    pub emits: Vec<String>,
    /// The subjects that it subscribes.
    pub consumes: Vec<String>,
    /// Whether other modules are bound to it.
    pub provides: bool,
}

/// Everybody who may be on the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The programs and persons that a mesh has once.
    pub roles: BTreeMap<Role, BusKey>,
    /// The clients of nodes, by node.
    pub nodes: BTreeMap<String, BusKey>,
    /// The modules that have an account, by node and module.
    pub modules: BTreeMap<(String, String), ModuleAccount>,
    /// Who joins with a token, by the day on which the token was issued.
    pub joiners: BTreeMap<String, BusKey>,
    /// The modules that others are bound to: each has a bucket.
    pub providers: Vec<String>,
    /// Nodes that were removed and still have keys in the nodes' buckets: the controller may delete those.
    pub leaving: Vec<String>,
}

/// The file without its last user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    text: String,
    digest: Digest,
    users: usize,
}

/// Two accounts with one key. The server refuses the whole file then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameKey {
    /// The first of them.
    pub first: String,
    /// The second.
    pub second: String,
}

impl fmt::Display for SameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} and {} have one key, and the server would refuse all users: issue one of them a new key",
            self.first, self.second
        )
    }
}

impl std::error::Error for SameKey {}

const HEAD: &str = "\
# Every account of the mesh, with its rights. mesh-controller writes this file anew: what is changed here by hand is lost.
# Include it inside the mesh's account by a relative path, and have no other `users` there: the server would take one of
# the two without a word.
users: [
";

impl Accounts {
    /// The file without its last user: the same bytes for the same accounts.
    pub fn body(&self) -> Result<Body, SameKey> {
        let mut text = Text { text: HEAD.to_owned(), seen: BTreeMap::new() };
        for (role, key) in &self.roles {
            text.user(role.name().to_owned(), key, &self.rights(*role))?;
        }
        for (node, key) in &self.nodes {
            let rights = Rights::of_node(node, &self.providers)
                .unwrap_or_else(|why| unreachable!("the name of a node that joined: {why}"));
            text.user(node_name(node), key, &rights)?;
        }
        for ((node, module), account) in &self.modules {
            let ModuleAccount { key, emits, consumes, provides } = account;
            let bus = ModuleBus { emits, consumes, provides: *provides };
            text.user(module_name(node, module), key, &Rights::of_module(node, module, &bus))?;
        }
        for (day, key) in &self.joiners {
            text.user(format!("joiner of {day}"), key, &Rights::of_joiner())?;
        }
        Ok(Body { digest: Digest::of(text.text.as_bytes()), users: text.seen.len() + 1, text: text.text })
    }

    /// The roles that have no key yet: their programs cannot be on the bus.
    pub fn missing(&self) -> Vec<&'static str> {
        Role::ALL.into_iter().filter(|role| !self.roles.contains_key(role)).map(Role::name).collect()
    }

    fn rights(&self, role: Role) -> Rights {
        match role {
            Role::Administrator => Rights::of_administrator(),
            Role::Controller => {
                let mut rights = Rights::of_controller(&self.providers);
                rights.publish.extend(self.leaving.iter().map(|node| cleaning(node)));
                rights
            }
            Role::Reader => Rights::of_reader(),
            Role::Seat => Rights::of_seat(&[]),
            Role::Vault => Rights::of_vault(),
        }
    }
}

/// What the file calls the account of a node.
pub fn node_name(node: &str) -> String {
    format!("node {node}")
}

/// What the file calls the account of a module.
pub fn module_name(node: &str, module: &str) -> String {
    format!("module {module} on {node}")
}

/// Who would be locked out by replacing a file: the roles, nodes and modules of the old one that the new one does not have.
/// `gone` are those that are to go. Who joins has a new account each day, and the sentinel another one in each file.
pub fn locked_out<'a>(old: &'a str, new: &str, gone: &BTreeSet<String>) -> Vec<&'a str> {
    let stays: BTreeSet<&str> = names(new).collect();
    let leaves = |name: &str| {
        let node =
            name.strip_prefix("module ").and_then(|rest| rest.split_once(" on ")).map(|(_, node)| node);
        gone.contains(name) || node.is_some_and(|node| gone.contains(&node_name(node)))
    };
    let counts =
        |name: &str| Role::of(name).is_some() || name.starts_with("node ") || name.starts_with("module ");
    names(old).filter(|name| counts(name) && !stays.contains(name) && !leaves(name)).collect()
}

/// The names of the users of a file: the comments in front of them.
fn names(file: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let is_user = |lines: &[&str]| lines[1] == "{" && lines[2].starts_with("nkey:");
    let found: Vec<&str> = lines
        .windows(3)
        .filter(|lines| is_user(lines))
        .filter_map(|lines| lines[0].strip_prefix("# "))
        .collect();
    found.into_iter()
}

/// The right to delete the keys of a node that was removed, and to find them.
fn cleaning(node: &str) -> Group {
    let token = name::encode(node);
    let mut subjects = Bucket::OF_NODES.map(|bucket| format!("$KV.{}.{token}.>", bucket.name())).to_vec();
    subjects.push(format!("$KV.mesh-controller_reports.{token}"));
    subjects.push(format!("$JS.API.STREAM.MSG.GET.KV_{}", Bucket::Collect.name()));
    Group { why: "Deletes the keys of a node that was removed.", subjects }
}

impl Body {
    /// The digest that the sentinel's key follows from.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many users the file has, the sentinel included.
    pub fn users(&self) -> usize {
        self.users
    }

    /// The whole file. `sentinel` is the key that follows from [`Body::digest`].
    pub fn with_sentinel(&self, sentinel: &BusKey) -> String {
        let mut text = Text { text: self.text.clone(), seen: BTreeMap::new() };
        let nothing = Rights { publish: Vec::new(), subscribe: Vec::new() };
        text.user(format!("sentinel {}", self.digest), sentinel, &nothing)
            .unwrap_or_else(|_| unreachable!("the first key that it sees"));
        text.text.push_str("]\n");
        text.text
    }
}

/// The digest in the sentinel's comment of a whole file; nothing if it has none.
pub fn digest_of(file: &str) -> Option<Digest> {
    let line = file.lines().rev().find_map(|line| line.trim().strip_prefix("# sentinel "))?;
    line.parse().ok()
}

struct Text {
    text: String,
    seen: BTreeMap<String, String>,
}

impl Text {
    fn user(&mut self, name: String, key: &BusKey, rights: &Rights) -> Result<(), SameKey> {
        if let Some(first) = self.seen.get(key.as_str()) {
            return Err(SameKey { first: first.clone(), second: name });
        }
        write!(self.text, "  # {name}\n  {{\n    nkey: {key}\n").ok();
        for line in rights.to_config().lines() {
            writeln!(self.text, "    {line}").ok();
        }
        self.text.push_str("  }\n");
        self.seen.insert(key.as_str().to_owned(), name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nkeys::KeyPair;

    fn key() -> BusKey {
        KeyPair::new_user().public_key().parse().unwrap()
    }

    fn accounts() -> Accounts {
        let module = ModuleAccount {
            key: key(),
            emits: vec!["web.events.>".into()],
            consumes: Vec::new(),
            provides: false,
        };
        Accounts {
            roles: Role::ALL.map(|role| (role, key())).into(),
            nodes: [("cellar", key()), ("attic", key())].map(|(name, key)| (name.to_owned(), key)).into(),
            modules: [(("attic".to_owned(), "web".to_owned()), module)].into(),
            joiners: [("2026-11-30".to_owned(), key()), ("2026-11-29".to_owned(), key())].into(),
            providers: vec!["postgres".into()],
            leaving: Vec::new(),
        }
    }

    #[test]
    fn users_stand_in_one_order_with_a_comment_for_each() {
        let accounts = accounts();
        let body = accounts.body().unwrap();
        let text = body.with_sentinel(&key());
        let comments: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  # ")).collect();
        let sentinel = format!("sentinel {}", body.digest());
        assert_eq!(
            comments,
            [
                "administrator",
                "controller",
                "reader",
                "seat",
                "vault",
                "node attic",
                "node cellar",
                "module web on attic",
                "joiner of 2026-11-29",
                "joiner of 2026-11-30",
                &sentinel,
            ]
        );
        assert_eq!(body.users(), 11);
        assert_eq!(accounts.clone().body().unwrap(), body);
        assert_eq!(digest_of(&text), Some(body.digest()));
        assert_eq!(digest_of("users: []"), None);
    }

    #[test]
    fn every_change_of_an_account_is_another_digest() {
        let accounts = accounts();
        let digest = |change: &dyn Fn(&mut Accounts)| {
            let mut accounts = accounts.clone();
            change(&mut accounts);
            accounts.body().unwrap().digest()
        };
        let changes: [&dyn Fn(&mut Accounts); 7] = [
            &|_| {},
            &|accounts| drop(accounts.nodes.remove("attic")),
            &|accounts| drop(accounts.nodes.insert("attic".into(), key())),
            &|accounts| drop(accounts.joiners.pop_first()),
            &|accounts| accounts.providers.push("mail".into()),
            &|accounts| accounts.leaving.push("garage".into()),
            &|accounts| drop(accounts.roles.remove(&Role::Vault)),
        ];
        let digests: std::collections::BTreeSet<Digest> =
            changes.into_iter().map(|change| digest(change)).collect();
        assert_eq!(digests.len(), 7);
    }

    #[test]
    fn who_would_be_locked_out_is_named_and_who_is_to_go_is_not() {
        let accounts = accounts();
        let file = |accounts: &Accounts| accounts.body().unwrap().with_sentinel(&key());
        let old = file(&accounts);
        let nobody = BTreeSet::new();
        let lost = |new: &Accounts, gone: &BTreeSet<String>| {
            locked_out(&old, &file(new), gone).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(lost(&accounts, &nobody).is_empty());
        // Another key is given by an act of its own; joiners and sentinel change by themselves.
        let mut other = accounts.clone();
        other.nodes.insert("attic".into(), key());
        other.joiners.clear();
        assert!(lost(&other, &nobody).is_empty());
        let all = ["administrator", "controller", "reader", "seat", "vault"];
        let nodes = ["node attic", "node cellar", "module web on attic"];
        assert_eq!(lost(&Accounts::default(), &nobody), [&all[..], &nodes[..]].concat());
        other.nodes.remove("attic");
        other.modules.clear();
        assert_eq!(lost(&other, &nobody), ["node attic", "module web on attic"]);
        assert!(lost(&other, &BTreeSet::from(["node attic".to_owned()])).is_empty());
        assert_eq!(lost(&other, &BTreeSet::from(["module web on attic".to_owned()])), ["node attic"]);
        assert!(locked_out("users: []", &old, &nobody).is_empty());
    }

    #[test]
    fn one_key_twice_is_refused_by_both_names() {
        let mut accounts = accounts();
        let twice = accounts.nodes["attic"].clone();
        accounts.nodes.insert("garage".into(), twice);
        assert_eq!(
            accounts.body().unwrap_err().to_string(),
            "node attic and node garage have one key, and the server would refuse all users: issue one of them a new key"
        );
    }

    #[test]
    fn the_sentinel_may_do_nothing() {
        let text = accounts().body().unwrap().with_sentinel(&key());
        let last = &text[text.find("# sentinel").unwrap()..];
        assert!(
            last.contains("publish: { deny: \">\" }") && last.contains("subscribe: { deny: \">\" }"),
            "{last}"
        );
    }
}

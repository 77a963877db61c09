//! The accounts of the shipped server configuration, with the passwords these tests give them.

use std::borrow::Cow;

/// An account of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub user: Cow<'static, str>,
    pub password: Cow<'static, str>,
    /// The prefix of the inboxes that this user may listen on.
    pub inbox: Cow<'static, str>,
}

impl Account {
    /// An account of a configuration of the test's own, with the inboxes that everybody has.
    pub fn new(user: &str, password: &str) -> Self {
        Self {
            user: Cow::Owned(user.to_owned()),
            password: Cow::Owned(password.to_owned()),
            inbox: Cow::Borrowed("_INBOX"),
        }
    }

    const fn shipped(user: &'static str, password: &'static str, inbox: &'static str) -> Self {
        Self { user: Cow::Borrowed(user), password: Cow::Borrowed(password), inbox: Cow::Borrowed(inbox) }
    }
}

/// May use all of `$JS.API` and delete keys: what `mesh-provisioner init` runs as.
pub const ADMINISTRATOR: Account = Account::shipped("administrator", "password-of-administrator", "_INBOX");
/// What the seat runs as.
pub const SEAT: Account = Account::shipped("seat", "password-of-seat", "_INBOX_mesh.provisioner");
/// May ask the verb, nothing else.
pub const READER: Account = Account::shipped("reader", "password-of-reader", "_INBOX");
/// May do everything. Not shipped: nobody in a real mesh may write every node's keys, and listen to all that
/// others write.
pub const TESTER: Account = Account::shipped("tester", "password-of-tester", "_INBOX");

/// The nodes that the shipped configuration knows.
pub const NODES: [&str; 3] = ["attic", "cellar", "garage"];

/// The account of one node's provisioner client.
#[track_caller]
pub fn node(name: &str) -> Account {
    assert!(NODES.contains(&name), "the shipped configuration has no node {name:?}, only {NODES:?}");
    Account {
        inbox: Cow::Owned(format!("_INBOX_mesh.node.{name}")),
        ..Account::new(name, &format!("password-of-{name}"))
    }
}

/// The environment from which the shipped configuration takes its passwords.
pub fn passwords() -> Vec<(String, String)> {
    [ADMINISTRATOR, SEAT, READER]
        .into_iter()
        .chain(NODES.map(node))
        .map(|account| {
            (format!("MESH_PASSWORD_{}", account.user.to_uppercase()), account.password.into_owned())
        })
        .collect()
}

/// The line that adds [`TESTER`] to the shipped users.
pub fn tester_block() -> String {
    format!("{{ user: {}, password: {} }}", TESTER.user, TESTER.password)
}

//! What the machine of `serve` needs done beside the bus, and what comes of it.

use crate::join::register::Outcome;
use crate::store::sent::Bucket;
use mesh_model::digest::Digest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One of the controller's values by its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The bucket.
    pub bucket: Bucket,
    /// The key.
    pub key: String,
}

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// Take the lease, or renew it.
    Lease,
    /// Give the lease back.
    Release,
    /// The bus showed this fence: have a higher one.
    Raise(u64),
    /// Look at the store, and tell what is wanted if anything changed, or in any case.
    Load {
        /// In any case.
        anyway: bool,
    },
    /// Judge requests to join, each with its number, and register what is good.
    Join(Vec<(u64, Vec<u8>)>),
    /// Keep the reports of nodes.
    Reports(Vec<Report>),
    /// The values of these places, to be written.
    Fetch(Vec<Place>),
    /// The bus has the wanted value of these places, with that sequence.
    Done(Vec<(Place, Option<Digest>, u64)>),
    /// Nothing of this removed node is left on the bus.
    Cleaned(String),
    /// Have the server load the file of users.
    Users(UsersFile),
    /// Answer a verb that reads.
    Read {
        /// The number of the request.
        id: u64,
        /// The verb.
        verb: Reading,
        /// The body of the request.
        body: Vec<u8>,
    },
}

/// A verb that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// How the mesh stands.
    Status,
    /// What a push would change.
    Plan,
}

/// A report as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The node.
    pub node: String,
    /// Its sequence in the bucket.
    pub revision: u64,
    /// The report.
    pub body: Vec<u8>,
}

/// The file of users, and the digest that its sentinel's key follows from. Two files with one generation are one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsersFile {
    /// One more with each change.
    pub generation: u64,
    /// The digest.
    pub digest: Digest,
    /// The whole file.
    pub text: Arc<str>,
    /// How many users it has.
    pub users: usize,
    /// The roles that the store has no key for.
    pub missing: Vec<&'static str>,
    /// The accounts that the store once had and has no more, by their names in the file.
    pub gone: BTreeSet<String>,
}

/// What came of a task.
#[derive(Debug)]
pub enum Own {
    /// Of [`Task::Lease`].
    Lease(Lease),
    /// Of [`Task::Release`].
    Released,
    /// Of [`Task::Load`], and of [`Task::Join`] where it changed something.
    Picture(Picture),
    /// Of [`Task::Load`]: as before.
    Unchanged,
    /// Of [`Task::Join`]: what became of each, and the generation of the file of users that has the accounts.
    Joined(Vec<(u64, Outcome)>, u64),
    /// Of [`Task::Fetch`]: the values; a place that the store no longer has is left out.
    Values(Vec<(Place, Option<Vec<u8>>)>),
    /// Of [`Task::Done`].
    Noted,
    /// Of [`Task::Reports`]: how many were news.
    Reported(usize),
    /// Of [`Task::Cleaned`].
    Cleaned,
    /// Of [`Task::Users`]: whether the server has the file of that generation.
    Users(u64, Result<(), String>),
    /// Of [`Task::Read`]: the body of the answer, or why there is none.
    Answer(u64, Result<String, String>),
    /// A task could not be done: which, and why.
    Failed(Failed, String),
}

/// A task that could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// [`Task::Load`].
    Load,
    /// [`Task::Join`] of these numbers.
    Join(Vec<u64>),
    /// [`Task::Fetch`] of these places.
    Fetch(Vec<Place>),
    /// [`Task::Done`]: the values are written down again after the next load.
    Done,
    /// [`Task::Reports`].
    Reports,
    /// [`Task::Cleaned`].
    Cleaned,
}

/// How it stands with the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// It is ours, with this fence.
    Ours(u64),
    /// Somebody else has it: who, in words.
    Theirs(String),
    /// It was ours: the words say who took it.
    Lost(String),
    /// The store does not tell.
    Unknown(String),
}

/// What the store wants the bus to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Only the values of this bucket are told; of the others nothing changed.
    pub only: Option<Bucket>,
    /// The values.
    pub values: Vec<Value>,
    /// The file of users.
    pub users: Option<UsersFile>,
    /// All nodes.
    pub nodes: BTreeSet<String>,
    /// Nodes that were removed, and whose keys are to be deleted with the rights that the file of users gives.
    pub leaving: BTreeSet<String>,
}

/// A value that the bus is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Where.
    pub place: Place,
    /// Its digest; nothing: the key is to go.
    pub digest: Option<Digest>,
    /// The sequence of the declaration that it went with.
    pub sequence: u64,
    /// Whether the store knows that the bus has it.
    pub done: bool,
}

//! What the machine says of itself: for the service manager, and for the status file.

use super::{Controller, Link};
use crate::store::sent::Bucket;
use mesh_service::follow::Reading;
use serde::Serialize;
use std::time::Duration;

/// The contents of the status file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether it holds the lease and is on the bus.
    pub serving: bool,
    /// Whether all is well.
    pub ready: bool,
    /// The server, if it is connected.
    pub server: Option<String>,
    /// The fence of the lease, if it is held.
    pub fence: Option<u64>,
    /// Who has the lease instead.
    pub standing_by_for: Option<String>,
    /// How many users the file has.
    pub users: usize,
    /// Whether the server has it.
    pub users_loaded: bool,
    /// Why the server does not have it.
    pub users_failure: Option<String>,
    /// How the buckets stand.
    pub mirrors: Vec<BucketStatus>,
    /// Whether the reports of nodes are read.
    pub reports: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes that have joined since the start.
    pub joined: u64,
    /// Requests to join that were refused since the start.
    pub refused: u64,
    /// What is wrong with the store.
    pub store_failure: Option<String>,
}

/// How one bucket stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketStatus {
    /// Its name.
    pub bucket: &'static str,
    /// Whether it is read.
    pub reading: &'static str,
    /// Values that are wanted.
    pub wanted: usize,
    /// Of them those that the bus does not have.
    pub open: usize,
    /// Keys that the store does not know.
    pub foreign: usize,
    /// Declarations that the bus has and the store is behind.
    pub ahead: usize,
}

const fn word(reading: Reading) -> &'static str {
    match reading {
        Reading::Listing => "listing",
        Reading::Current => "current",
        Reading::Missing => "missing",
        Reading::Refused => "refused",
    }
}

impl Controller {
    /// Whether everything is as it should be.
    pub(super) fn is_well(&self, now: Duration) -> bool {
        matches!(self.link, Link::Up { .. })
            && self.is_sure(now)
            && self.has_picture
            && self.store_failure.is_none()
            && self.accounts.is_loaded()
            && self.mirror.is_settled()
    }

    pub(super) fn line(&self, now: Duration) -> String {
        if let Some(who) = &self.held.theirs {
            return format!("stands by: {who} has the lease");
        }
        if let Some(why) = &self.store_failure {
            return format!("the store: {why}");
        }
        let Link::Up { server, .. } = &self.link else { return "not connected".to_owned() };
        let open: usize = Bucket::ALL.iter().map(|bucket| self.mirror.standing(*bucket).open).sum();
        match (self.sure_for(now).is_zero(), open, &self.accounts.failure) {
            (true, ..) => "the lease is not renewed".to_owned(),
            (_, _, Some(why)) => format!("the server does not have the newest file of users: {why}"),
            (_, 0, None) => format!("serves at {server}: {} nodes", self.nodes.len()),
            (_, open, None) => {
                format!("serves at {server}: {} nodes, {open} values to be written", self.nodes.len())
            }
        }
    }

    pub(super) fn tell(&self, now: Duration) -> Status {
        let server = match &self.link {
            Link::Up { server, .. } => Some(server.clone()),
            _ => None,
        };
        let mirrors = Bucket::ALL.iter().enumerate().map(|(place, bucket)| {
            let standing = self.mirror.standing(*bucket);
            BucketStatus {
                bucket: bucket.name(),
                reading: word(self.follows[place].reading()),
                wanted: standing.wanted,
                open: standing.open,
                foreign: standing.foreign,
                ahead: standing.ahead,
            }
        });
        Status {
            serving: server.is_some() && self.held.fence.is_some(),
            ready: self.is_well(now),
            server,
            fence: self.held.fence,
            standing_by_for: self.held.theirs.clone(),
            users: self.accounts.users(),
            users_loaded: self.accounts.is_loaded(),
            users_failure: self.accounts.failure.clone(),
            mirrors: mirrors.collect(),
            reports: self.follows.last().map_or("", |follow| word(follow.reading())),
            nodes: self.nodes.len(),
            joined: self.requests.joined,
            refused: self.requests.refused,
            store_failure: self.store_failure.clone(),
        }
    }
}

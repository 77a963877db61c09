//! Names and numbers of users and groups, read from the files of the tree. A static program has no other source; names
//! that are not there are asked of `getent` by whoever has one.

use crate::facts::Answer;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The users and groups of a tree.
#[derive(Debug)]
pub struct Accounts {
    folder: PathBuf,
    users: BTreeMap<String, (u32, u32)>,
    groups: BTreeMap<String, u32>,
}

impl Accounts {
    /// Those of the tree at `root`.
    pub fn new(root: &Path) -> Self {
        let mut accounts = Self { folder: root.join("etc"), users: BTreeMap::new(), groups: BTreeMap::new() };
        accounts.refresh();
        accounts
    }

    /// Reads the files again.
    pub fn refresh(&mut self) {
        let read = |name| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        self.users = read("passwd")
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?.to_owned();
                let uid = fields.nth(1)?.parse().ok()?;
                Some((name, (uid, fields.next()?.parse().ok()?)))
            })
            .collect();
        self.groups = read("group")
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?.to_owned();
                Some((name, fields.nth(1)?.parse().ok()?))
            })
            .collect();
    }

    /// The numbers of `user`, `user:group` or `uid:gid`.
    pub fn owner(&self, owner: &str) -> Option<(u32, u32)> {
        match owner.split_once(':') {
            None => self.users.get(owner).copied().or_else(|| (owner == "root").then_some((0, 0))),
            Some((user, group)) => {
                let uid = user.parse().ok().or_else(|| self.owner(user).map(|(uid, _)| uid))?;
                let gid = group.parse().ok().or_else(|| self.groups.get(group).copied());
                Some((uid, gid.or_else(|| (group == "root").then_some(0))?))
            }
        }
    }

    /// The number of a group.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }

    /// The answer to the question about an owner.
    pub(super) fn answer(&self, owner: &str) -> Answer {
        self.owner(owner).map_or(Answer::Absent, |(uid, gid)| Answer::Owner { uid, gid })
    }
}

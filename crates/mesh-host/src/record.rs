//! What this host remembers: records, intents, holds and kept originals, and the entries that change them.
//!
//! The memory is a value. The journal stores its entries; nothing here reads or writes a file.

use crate::container::{HeldPort, Shape};
use crate::digest::Digest;
use crate::step::Ids;
use crate::target::{Origin, Target};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How a resource stood when it was last applied with success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The resource's id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// Its place in the declaration. Orphans go in reverse order.
    pub place: u64,
    /// Whether this host made it, or found it as it was declared.
    pub claim: Claim,
    /// How often it was made or mended. Whoever restarts on its change remembers the number that it started with, so
    /// that a restart which failed or was cut off is still owed.
    #[serde(default)]
    pub moves: u64,
    /// The mount point under which its path lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// What was written, by kind.
    pub written: Written,
}

/// Whether a thing is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// This host made it, or replaced what was there.
    Made,
    /// It was there, and this host set something about it. It is left when it is no longer declared.
    Configured,
    /// It was found exactly as declared and is forgotten when it is no longer declared.
    Agreed,
}

/// What was written, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Written {
    /// A directory, or an operator's path.
    Directory {
        /// Twelve bits.
        mode: u32,
        /// As it was set or found.
        owner: Ids,
    },
    /// Keys inside a file of the machine.
    Into {
        /// The file.
        path: String,
        /// Its format.
        format: String,
        /// Of the content whose keys were set; keyed if a secret is in it.
        digest: Digest,
    },
    /// A container, or its schedule.
    Container(Box<ContainerRecord>),
    /// A network of the container runtime.
    Network {},
    /// A port that the firewall lets in.
    Opening {
        /// The firewall that was told.
        firewall: String,
        /// From where; empty: from everywhere.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        from: BTreeSet<String>,
        /// Whether a guard keeps all others out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guard: bool,
    },
    /// A unit of the service manager.
    Unit {
        /// Whether it was made to run, or not to run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runs: Option<bool>,
        /// Whether it was made to start with the machine, or not to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<bool>,
        /// Whether it was enabled before this host first said otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot_was: Option<bool>,
        /// What it was last started with: the moves of each resource in its `restart-on` and `reload-on`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        with: BTreeMap<String, u64>,
    },
    /// An unpacked archive. The list of what it brought is kept beside the state.
    Archive {
        /// Of the archive.
        digest: Digest,
        /// The owner of what was unpacked.
        owner: Ids,
    },
    /// An installed package.
    Package,
    /// An action that is true.
    Action,
    /// An account.
    Account {
        /// Its number.
        uid: u32,
        /// The number of its primary group.
        gid: u32,
    },
    /// A command that the service manager runs.
    Process {
        /// Of its unit file.
        unit: Digest,
        /// Of its environment file; keyed if a secret is in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        env: Option<Digest>,
        /// What it was last started with: the moves of each resource in its `restart-on`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        with: BTreeMap<String, u64>,
    },
    /// A file.
    File {
        /// Where a link led that was followed; `None`: it lies at its own path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// Of the content that this host last wrote. For a create-once file: of what it began with.
        digest: Digest,
        /// Twelve bits.
        mode: u32,
        /// As it was set or found.
        owner: Ids,
    },
}

/// A container as it was last made, run or scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ContainerRecord {
    /// Of all that it was made from.
    pub digest: Digest,
    /// The runtime that holds it: `docker` or `podman`.
    pub runtime: String,
    /// Its image.
    pub image: String,
    /// The ports of the machine that it binds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<HeldPort>,
    /// Whether it runs to an end: once, or at times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// What it was last made with: the moves of each resource in its `restart-on`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, u64>,
    /// When and what it runs, if it is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleRecord>,
}

/// All that the scheduler needs to run a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScheduleRecord {
    /// Its times.
    pub schedule: String,
    /// The zone of these times; `None`: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What is run.
    pub shape: Shape,
}

/// A form of a resource that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Of that form.
    pub digest: Digest,
    /// How often in a row.
    pub times: u64,
    /// When it failed last, in seconds since 1970.
    pub at_s: u64,
}

/// What was about to be done. It stands until the target is recorded or dropped: after a kill, what matches its digest
/// is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// What it is about.
    pub target: Target,
    /// The resource's id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// Its place in the declaration.
    pub place: u64,
    /// Whether nothing was there, so that what is found after a kill was made by this host.
    pub creates: bool,
    /// Of what was about to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What was there, in words, where it is put back one day; of keys inside a file, its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// The temporary file that may have been left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
}

/// A file as it was before this host first wrote over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// Its name in the folder of kept originals.
    pub name: String,
    /// Of its content.
    pub digest: Digest,
    /// Twelve bits.
    pub mode: u32,
    /// Its owner.
    pub owner: Ids,
}

/// Something found on an adopted node that is left as it was found until its module is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The resource's id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// Why it is held.
    pub why: String,
}

/// One change of the memory, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// A declaration was accepted, before anything was looked at.
    Accepted(Accepted),
    /// An effect is about to be tried.
    Intent(Intent),
    /// A resource stands as declared.
    Applied {
        /// What it is about.
        target: Target,
        /// How it stands.
        record: Record,
    },
    /// This form of a resource failed, and is not tried again at every apply.
    Tried {
        /// What it is about.
        target: Target,
        /// Of that form.
        digest: Digest,
        /// When, in seconds since 1970.
        at_s: u64,
    },
    /// Nothing of this target is ours any more.
    Dropped {
        /// What it was about.
        target: Target,
    },
    /// A file was copied before it is written over.
    Kept {
        /// Where it lay.
        path: String,
        /// The copy.
        original: Original,
    },
    /// Nothing of this target is ours any more, and the original that was kept of it is in its place again.
    PutBack {
        /// What it was about.
        target: Target,
    },
    /// Something found is held.
    Held {
        /// What it is about.
        target: Target,
        /// The hold.
        hold: Hold,
    },
    /// A hold ended.
    LetGo {
        /// What it was about.
        target: Target,
    },
    /// A person took over what is held of a module.
    Taken {
        /// The module.
        module: String,
    },
    /// A module that was taken over left: what is there when it comes back is found, and held.
    Returned {
        /// The module.
        module: String,
    },
    /// A secret's revision was accepted; a lower one is refused from now on.
    Revision {
        /// `<module>/<kind>:<name>`.
        secret: String,
        /// The revision.
        revision: u64,
    },
}

/// The newest declaration that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its sequence.
    pub sequence: u64,
    /// The fence of the lease under which it was sent.
    pub fence: u64,
    /// Of the signed payload.
    pub payload: Digest,
}

/// All that this host remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The newest declaration that was accepted.
    pub accepted: Option<Accepted>,
    /// How each target stood when it was last applied with success.
    #[serde(with = "by_target")]
    pub records: BTreeMap<Target, Record>,
    /// What was begun and is neither recorded nor dropped.
    #[serde(with = "by_target")]
    pub intents: BTreeMap<Target, Vec<Intent>>,
    /// What is held.
    #[serde(with = "by_target")]
    pub holds: BTreeMap<Target, Hold>,
    /// The kept originals, by path.
    pub originals: BTreeMap<String, Original>,
    /// What failed when it was last tried.
    #[serde(default, with = "by_target")]
    pub tries: BTreeMap<Target, Tried>,
    /// The newest revision of each secret.
    pub revisions: BTreeMap<String, u64>,
    /// The modules that a person took over on this adopted machine.
    #[serde(default)]
    pub taken: BTreeSet<String>,
}

impl Memory {
    /// Takes one change.
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Accepted(accepted) => self.accepted = Some(accepted),
            Entry::Intent(intent) => {
                let intents = self.intents.entry(intent.target.clone()).or_default();
                // Tried again and again, one target needs each digest once: the temporary of an earlier try was swept
                // when this apply began. What was there first keeps its place.
                let same = |old: &&mut Intent| {
                    old.was.is_some() && old.was == intent.was && old.digest == intent.digest
                };
                if let Some(old) = intents.iter_mut().find(same) {
                    *old = intent;
                } else {
                    intents.retain(|old| old.digest != intent.digest || old.was.is_some());
                    intents.push(intent);
                }
            }
            Entry::Applied { target, record } => {
                self.intents.remove(&target);
                self.holds.remove(&target);
                self.tries.remove(&target);
                self.records.insert(target, record);
            }
            Entry::Tried { target, digest, at_s } => {
                let before = self.tries.remove(&target).filter(|tried| tried.digest == digest);
                let times = before.map_or(0, |tried| tried.times) + 1;
                self.tries.insert(target, Tried { digest, times, at_s });
            }
            Entry::Dropped { target } => {
                self.tries.remove(&target);
                self.intents.remove(&target);
                self.records.remove(&target);
            }
            // The first one is what the machine had; whatever came later was ours or is lost anyway.
            Entry::Kept { path, original } => drop(self.originals.entry(path).or_insert(original)),
            Entry::PutBack { target } => {
                self.originals.remove(&target.name);
                self.apply(Entry::Dropped { target });
            }
            Entry::Held { target, hold } => drop(self.holds.insert(target, hold)),
            Entry::LetGo { target } => drop(self.holds.remove(&target)),
            Entry::Taken { module } => drop(self.taken.insert(module)),
            Entry::Returned { module } => drop(self.taken.remove(&module)),
            Entry::Revision { secret, revision } => {
                let newest = self.revisions.entry(secret).or_default();
                *newest = revision.max(*newest);
            }
        }
    }

    /// Whether `digest` is what this host wrote, or was about to write, for `target`.
    pub fn wrote(&self, target: &Target, is: impl Fn(&Digest) -> bool) -> bool {
        let recorded = match self.records.get(target).map(|record| &record.written) {
            Some(Written::File { digest, .. } | Written::Archive { digest, .. }) => is(digest),
            Some(Written::Process { unit, env, .. }) => is(unit) || env.as_ref().is_some_and(&is),
            _ => false,
        };
        recorded || self.intended(target, is)
    }

    /// How often the resource `id` was made or mended. `None`: it is not recorded.
    pub fn moves(&self, id: &str) -> Option<u64> {
        self.records.values().find(|record| record.id == id).map(|record| record.moves)
    }

    /// Whether `digest` is what this host was about to write for `target`.
    pub fn intended(&self, target: &Target, is: impl Fn(&Digest) -> bool) -> bool {
        let intents = self.intents.get(target).into_iter().flatten();
        intents.filter_map(|intent| intent.digest.as_ref()).any(is)
    }
}

/// Maps by target are stored as lists of pairs: JSON has no other keys than text.
mod by_target {
    use crate::target::Target;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<V: Serialize, S: Serializer>(
        map: &BTreeMap<Target, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Target, V>, D::Error> {
        Ok(Vec::<(Target, V)>::deserialize(from)?.into_iter().collect())
    }
}

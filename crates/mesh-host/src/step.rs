//! What can be done to the machine. A step is plain data and never holds content: that is looked up by the id of the
//! resource when the step is performed. So a step may be written into the journal as it is.

mod managed;

pub use managed::{ActionStep, BootStep, OWN_UNIT, PackageStep, ServiceStep, UserStep};

use crate::container::ContainerStep;
use crate::digest::Digest;
use crate::facts::{Manager, Question, Stamp, Touch};
use crate::target::Origin;
use mesh_model::resource::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One effect on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of files and directories.
    Files(FileStep),
    /// Of a unit of the service manager.
    Service(ServiceStep),
    /// Of the package manager.
    Package(PackageStep),
    /// Of an account.
    User(UserStep),
    /// A declared command.
    Action(ActionStep),
    /// Of a container.
    Container(ContainerStep),
    /// Of a network of the container runtime.
    Network(NetworkStep),
    /// Of the firewall.
    Opening(OpeningStep),
}

/// One effect on the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningStep {
    /// Lets a port in from these places alone; none: from everywhere.
    Open {
        /// `8080/tcp`.
        name: String,
        /// Addresses and networks.
        from: BTreeSet<String>,
        /// Whether a guard keeps all others out, also where a container publishes the port. If not, one goes that is there.
        guard: bool,
    },
    /// Lets it in no longer, and takes its guard down.
    Close {
        /// `8080/tcp`.
        name: String,
        /// Whether it has a guard.
        guard: bool,
        /// Whose it is: it is closed again one day if this is undone.
        of: Option<Owned>,
    },
}

/// Whose something is: what is closed has no record any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// The resource's id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// Its place in the declaration.
    pub place: u64,
}

/// One effect on a network of the container runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkStep {
    /// Makes it.
    Create {
        /// Its name.
        name: String,
    },
    /// Removes it, if nothing uses it.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Where the service manager finds unit files: a write there changes what it says of units.
const UNIT_FOLDERS: [&str; 5] =
    ["/etc/systemd/", "/run/systemd/", "/usr/lib/systemd/", "/lib/systemd/", "/usr/local/lib/systemd/"];

/// The owner that something gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl Ids {
    /// As reports write it.
    pub fn words(self) -> String {
        format!("{}:{}", self.uid, self.gid)
    }
}

/// One effect on a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileStep {
    /// Makes a directory, and the parents that it lacks (0755).
    MakeDirectory {
        /// Where.
        path: String,
        /// Twelve bits.
        mode: u32,
        /// `None` where owners are not managed.
        owner: Option<Ids>,
    },
    /// Sets mode and owner of the directory that was looked at.
    SetDirectory {
        /// Where.
        path: String,
        /// What was looked at.
        seen: Stamp,
        /// Twelve bits.
        mode: u32,
        /// `None`: left as it is.
        owner: Option<Ids>,
    },
    /// Removes an empty directory.
    RemoveDirectory {
        /// Where.
        path: String,
    },
    /// Copies what is there into the kept originals, before it is written over for the first time.
    Keep {
        /// Where.
        path: String,
        /// What was looked at.
        seen: Stamp,
        /// The name among the kept originals.
        name: String,
    },
    /// Writes a new file and puts it in place by a rename, with the parents that it lacks (0755).
    Write {
        /// Where.
        path: String,
        /// Where the content comes from.
        content: Content,
        /// Its digest.
        digest: Digest,
        /// Twelve bits.
        mode: u32,
        /// `None` where owners are not managed.
        owner: Option<Ids>,
        /// What was looked at, and is replaced. `None`: nothing may be there.
        seen: Option<Stamp>,
        /// Writes into the file that is there instead of replacing it.
        in_place: bool,
    },
    /// Sets keys inside a file of the machine, or takes them back.
    SetLeaves {
        /// The file.
        path: String,
        /// The target's name, under which it is kept what the file held before.
        target: String,
        /// The resource whose content is set; `None`: all of it is taken back.
        id: Option<String>,
        /// The file's format.
        format: Format,
        /// What was looked at; `None`: nothing may be there.
        seen: Option<Stamp>,
        /// Of what the file shall hold; `None`: it goes.
        digest: Option<Digest>,
        /// Whether a secret is in the content: a file that is not there yet is then for its owner alone.
        private: bool,
    },
    /// Unpacks an archive beside its place, and puts it there in exchange for what was looked at.
    Unpack {
        /// The directory.
        path: String,
        /// The resource; its content is the archive, unless there is a source.
        id: String,
        /// The file of the machine that is unpacked.
        source: Option<String>,
        /// Of the archive.
        digest: Digest,
        /// How many leading components of each entry are left out.
        strip: u8,
        /// `None` where owners are not managed.
        owner: Option<Ids>,
        /// What was looked at; `None`: nothing may be there.
        seen: Option<Stamp>,
    },
    /// Removes what an archive brought, entry by entry. What was changed since, and what else is there, is left.
    RemoveUnpacked {
        /// The directory.
        path: String,
        /// Of the archive.
        digest: Digest,
    },
    /// Unlinks a file.
    Unlink {
        /// Where.
        path: String,
        /// What was looked at.
        seen: Stamp,
    },
}

/// Where the content of a write comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The filled content of the resource with this id.
    Declared(String),
    /// The kept original of this name.
    Original(String),
}

impl Step {
    /// Which answers are no longer true once it was tried.
    pub fn touches(&self) -> Touch {
        match self {
            Self::Files(step) => {
                // The number of entries of the directory around it changes too.
                let touch = Touch::path(step.path()).and(Touch::path(parent(step.path())));
                let of_units = UNIT_FOLDERS.iter().any(|folder| step.path().starts_with(folder));
                if of_units { touch.and(Touch::manager(Manager::Services)) } else { touch }
            }
            // One unit starts, stops and changes others.
            Self::Service(_) => Touch::manager(Manager::Services),
            // It brings files, units and accounts; a command may do anything.
            Self::Package(_) | Self::Action(_) => Touch::Everything,
            Self::User(_) => Touch::manager(Manager::Accounts).and(Touch::manager(Manager::Owners)),
            Self::Container(ContainerStep::Pull { image, .. }) => {
                Touch::these(vec![Question::Image(image.clone())])
            }
            Self::Container(step) => Touch::these(vec![Question::Container(step.of().to_owned())]),
            Self::Opening(_) => Touch::manager(Manager::Firewall),
            Self::Network(NetworkStep::Create { name } | NetworkStep::Remove { name }) => {
                Touch::these(vec![Question::Network(name.clone())])
            }
        }
    }

    /// Whether steps beside it may share its syncs, since it waits for nobody and changes nothing else.
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Files(_))
    }

    /// The digest by which the result is known to be ours after a kill.
    pub const fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Files(FileStep::Write { digest, .. } | FileStep::Unpack { digest, .. })
            | Self::Container(ContainerStep::Create { digest, .. }) => Some(digest),
            Self::Files(FileStep::SetLeaves { digest, .. }) => digest.as_ref(),
            _ => None,
        }
    }

    /// Whether it makes something where nothing was.
    pub const fn creates(&self) -> bool {
        matches!(
            self,
            Self::Files(
                FileStep::MakeDirectory { .. }
                    | FileStep::Write { seen: None, .. }
                    | FileStep::Unpack { seen: None, .. }
                    | FileStep::SetLeaves { seen: None, .. }
            ) | Self::Service(ServiceStep::Start { .. })
                | Self::Package(PackageStep::Install { .. })
                | Self::User(UserStep::Add { .. })
                | Self::Container(ContainerStep::Create { .. })
                | Self::Network(NetworkStep::Create { .. })
        )
    }

    /// What was there, in words, or the format of the file that keeps it: it is stored with the intent, since it is put
    /// back when nothing declares it any more.
    pub fn was(&self) -> Option<String> {
        match self {
            Self::Service(ServiceStep::Boot { was, .. }) => {
                Some(if *was { "enabled" } else { "disabled" }.to_owned())
            }
            Self::Files(FileStep::SetLeaves { format, .. }) => Some(format.to_string()),
            _ => None,
        }
    }

    /// The directory in which it needs a temporary file.
    pub fn temporary_in(&self) -> Option<&str> {
        match self {
            Self::Files(
                FileStep::Write { path, in_place: false, .. }
                | FileStep::SetLeaves { path, .. }
                | FileStep::Unpack { path, .. },
            ) => Some(parent(path)),
            _ => None,
        }
    }
}

/// The directory around an absolute path.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl FileStep {
    /// The path that it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::MakeDirectory { path, .. }
            | Self::SetDirectory { path, .. }
            | Self::RemoveDirectory { path }
            | Self::Keep { path, .. }
            | Self::Write { path, .. }
            | Self::SetLeaves { path, .. }
            | Self::Unpack { path, .. }
            | Self::RemoveUnpacked { path, .. }
            | Self::Unlink { path, .. } => path,
        }
    }
}

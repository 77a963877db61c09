//! What the managers of the machine know.

use super::Question;
use std::collections::BTreeSet;

/// Who answers a question. Whatever is asked of one of them at a time costs one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Nobody has to be asked: the file system is there.
    Files,
    /// The service manager.
    Services,
    /// The log of the machine.
    Log,
    /// The package manager.
    Packages,
    /// Whoever knows the accounts of the machine.
    Accounts,
    /// The numbers of owners.
    Owners,
    /// A declared command.
    Commands,
    /// The container runtime.
    Runtime,
    /// The firewall.
    Firewall,
    /// The kernel, which knows the sockets.
    Sockets,
}

impl Question {
    /// Who answers it.
    pub const fn manager(&self) -> Manager {
        match self {
            Self::Path(_) | Self::Content { .. } | Self::Leaves { .. } | Self::Unpacked { .. } => {
                Manager::Files
            }
            Self::Owner(_) => Manager::Owners,
            Self::Unit(_) => Manager::Services,
            Self::UnitLog(_) => Manager::Log,
            Self::Package(_) => Manager::Packages,
            Self::Account(_) => Manager::Accounts,
            Self::Holds(_) => Manager::Commands,
            Self::Container(_) | Self::Network(_) | Self::Image(_) => Manager::Runtime,
            Self::Listener(_) => Manager::Sockets,
            Self::Opening(_) | Self::Guard(_) => Manager::Firewall,
        }
    }
}

/// A declared command that says whether something is true, or makes it so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Check {
    /// The resource, under which its environment is kept.
    pub id: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The container in which it runs. `None`: on the machine.
    pub within: Option<String>,
    /// How long it may take, in milliseconds.
    pub limit_ms: u64,
    /// Whether what it says may hold secrets, and is not told on.
    pub private: bool,
}

/// How an account stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountFact {
    /// Its number.
    pub uid: u32,
    /// The number of its primary group.
    pub gid: u32,
    /// The name of its primary group, if it has one.
    pub group: Option<String>,
    /// The groups that name it as a member.
    pub groups: Vec<String>,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
}

/// Whether the service manager could read a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// It knows it.
    Loaded,
    /// There is no such unit.
    Absent,
    /// A person forbade it.
    Masked,
    /// It cannot be read: why.
    Bad(String),
}

/// How a unit stands, in the words of the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFact {
    /// Whether it could be read.
    pub load: Load,
    /// `active`, `inactive`, `failed`, `activating` and so on.
    pub active: String,
    /// The same more closely: `running`, `exited`, `auto-restart` and so on.
    pub sub: String,
    /// `enabled`, `disabled`, `static` and so on; empty without a unit file.
    pub boot: String,
    /// Whether its file was changed since it was read.
    pub stale: bool,
    /// Whether the links that start it with the machine are others than its file says.
    pub links_differ: bool,
    /// How often it was restarted by itself since it was started.
    pub restarts: u64,
    /// How it last ended: `success`, `exit-code`, `signal` and so on.
    pub result: String,
    /// The code with which its main process last ended.
    pub exit: i32,
}

impl UnitFact {
    /// Whether it runs.
    pub fn runs(&self) -> bool {
        ["active", "reloading", "refreshing"].contains(&self.active.as_str())
    }

    /// Whether it does not run, and nothing is about to start it.
    pub fn is_stopped(&self) -> bool {
        ["inactive", "failed"].contains(&self.active.as_str())
    }

    /// Whether it starts with the machine.
    pub fn is_enabled(&self) -> bool {
        ["enabled", "enabled-runtime", "alias"].contains(&self.boot.as_str())
    }

    /// In words: `active (running)`.
    pub fn words(&self) -> String {
        format!("{} ({})", self.active, self.sub)
    }
}

/// How a port stands in the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningFact {
    /// Which firewall it is.
    pub firewall: &'static str,
    /// From where it is let in; empty: from everywhere. `None`: it is not.
    pub from: Option<BTreeSet<String>>,
    /// The rule that a person has to add, since another table drops it.
    pub blocked: Option<String>,
    /// The sequence of the declaration that closed it, where that was undone since the bus was not reached.
    pub undone: Option<u64>,
}

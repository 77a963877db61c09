//! What the managers of the machine know.

use super::Question;

/// Who answers a question. Whatever is asked of one of them at a time costs one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Nobody has to be asked: the file system is there.
    Files,
    /// The service manager.
    Services,
    /// The log of the machine.
    Log,
}

impl Question {
    /// Who answers it.
    pub const fn manager(&self) -> Manager {
        match self {
            Self::Path(_) | Self::Content { .. } | Self::Leaves { .. } | Self::Owner(_) => Manager::Files,
            Self::Unit(_) => Manager::Services,
            Self::UnitLog(_) => Manager::Log,
        }
    }
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

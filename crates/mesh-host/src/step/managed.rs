//! Effects on what the managers of the machine hold.

use crate::facts::Check;

/// The unit in which this program serves. A job of it waits until the apply has ended: it would end the apply before
/// anything is recorded of it, and the next one would do the same again.
pub const OWN_UNIT: &str = "mesh-host.service";

/// One effect on the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceStep {
    /// It reads all unit files again.
    ReadAgain,
    /// Whether a unit starts when the machine does.
    Boot {
        /// The unit.
        unit: String,
        /// What it shall be.
        to: BootStep,
        /// Whether it was enabled, to be put back one day.
        was: bool,
    },
    /// Starts a unit, and waits for it.
    Start {
        /// The unit.
        unit: String,
        /// Whether what it says may hold secrets, and is not told on.
        private: bool,
    },
    /// Restarts a unit, and waits for it.
    Restart {
        /// The unit.
        unit: String,
        /// Whether what it says may hold secrets, and is not told on.
        private: bool,
    },
    /// Has a running unit read its configuration again.
    Reload {
        /// The unit.
        unit: String,
        /// Whether what it says may hold secrets, and is not told on.
        private: bool,
    },
    /// Stops a unit, and waits for it.
    Stop {
        /// The unit.
        unit: String,
    },
}

/// What becomes of a unit's boot state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootStep {
    /// It starts when the machine does.
    Enable,
    /// It does not.
    Disable,
    /// Its links are made again, as its file says now.
    Renew,
}

/// One effect on the package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageStep {
    /// Installs a package. Adjacent ones are installed in one transaction.
    Install {
        /// Its name.
        package: String,
    },
}

/// One effect on an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserStep {
    /// Makes the account, and its primary group if that is missing.
    Add {
        /// The login name.
        name: String,
        /// `None`: the machine takes one.
        uid: Option<u32>,
        /// The primary group. `None`: one of the user's own name.
        group: Option<String>,
        /// Further groups.
        groups: Vec<String>,
        /// `None`: the machine's default.
        home: Option<String>,
        /// `None`: the machine's default.
        shell: Option<String>,
        /// A user of the system, not a person.
        system: bool,
    },
    /// Changes what can be changed of an account.
    Change {
        /// The login name.
        name: String,
        /// `None`: as it is.
        home: Option<String>,
        /// `None`: as it is.
        shell: Option<String>,
        /// The groups that it joins.
        join: Vec<String>,
    },
}

/// A declared command that makes something true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionStep {
    /// The command, and where it runs.
    pub command: Check,
}

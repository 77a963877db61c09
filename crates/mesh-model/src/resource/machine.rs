//! What a machine's managers hold: units, packages, users, networks, openings; and commands.

use super::{
    AbsolutePath, AccountName, Command, ContainerName, Environment, Id, Inserts, Number, PackageName, Period,
    ProcessName, Protocol, Source, UnitName, environment, words,
};
use crate::json::{Fields, Problem};

words!(
    /// Whether a unit runs.
    State, "state of a unit" {
        /// It runs.
        Running = "running",
        /// It does not run.
        Stopped = "stopped",
    }
);

words!(
    /// Whether a unit starts when the machine does.
    Boot, "boot state of a unit" {
        /// It starts.
        Enabled = "enabled",
        /// It does not start.
        Disabled = "disabled",
    }
);

/// A unit that exists on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The unit.
    pub unit: UnitName,
    /// Absent: as it is.
    pub state: Option<State>,
    /// Absent: as it is.
    pub boot: Option<Boot>,
    /// A change of one of these restarts it.
    pub restart_on: Vec<Id>,
    /// A change of one of these reloads it. A restart wins.
    pub reload_on: Vec<Id>,
    /// How long it must stay up to count as started. Absent: two seconds.
    pub settle: Option<Period>,
}

impl Service {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let service = Service {
            unit: fields.required("unit")?,
            state: fields.optional("state")?,
            boot: fields.optional("boot")?,
            restart_on: fields.or_default("restart-on")?,
            reload_on: fields.or_default("reload-on")?,
            settle: fields.optional("settle")?,
        };
        let says_nothing = service.state.is_none()
            && service.boot.is_none()
            && service.restart_on.is_empty()
            && service.reload_on.is_empty();
        if says_nothing {
            return Err(fields
                .at()
                .problem("says nothing of its unit: no state, boot, restart-on or reload-on"));
        }
        Ok(service)
    }
}

/// A package that is installed. Its version is the machine's affair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub package: PackageName,
}

impl Package {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Package { package: fields.required("package")? })
    }
}

/// A network of the container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: ContainerName,
}

impl Network {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Network { name: fields.required("name")? })
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: AccountName,
    /// Absent: the machine takes one.
    pub uid: Option<u32>,
    /// The primary group. Absent: one of the user's own name.
    pub group: Option<AccountName>,
    /// Further groups.
    pub groups: Vec<AccountName>,
    /// The home directory.
    pub home: Option<AbsolutePath>,
    /// The login shell.
    pub shell: Option<AbsolutePath>,
    /// A user of the system, not a person.
    pub system: bool,
}

impl User {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(User {
            name: fields.required("name")?,
            uid: fields.optional::<Number<u32>>("uid")?.map(|uid| uid.0),
            group: fields.optional("group")?,
            groups: fields.or_default("groups")?,
            home: fields.optional("home")?,
            shell: fields.optional("shell")?,
            system: fields.or_default("system")?,
        })
    }
}

/// A command that keeps running, as a unit that the host writes and owns: `mesh-<name>.service`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The name within the unit's.
    pub name: ProcessName,
    /// What runs.
    pub command: Command,
    /// Its environment.
    pub env: Environment,
    /// How objects and lists are written in the environment.
    pub insert: Inserts,
    /// Absent: root.
    pub user: Option<AccountName>,
    /// The working directory.
    pub dir: Option<AbsolutePath>,
    /// A change of one of these restarts it.
    pub restart_on: Vec<Id>,
    /// How long it must stay up to count as started. Absent: two seconds.
    pub settle: Option<Period>,
}

impl Process {
    /// The unit that runs it.
    pub fn unit(&self) -> String {
        format!("mesh-{}.service", self.name)
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Process {
            name: fields.required("name")?,
            command: fields.required("command")?,
            env: environment(fields)?,
            insert: fields.or_default("insert")?,
            user: fields.optional("user")?,
            dir: fields.optional("dir")?,
            restart_on: fields.or_default("restart-on")?,
            settle: fields.optional("settle")?,
        })
    }
}

/// A command that makes something true. Another command says whether it is, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What makes it true.
    pub command: Command,
    /// Exits with 0 where it is true.
    pub verify: Command,
    /// The container in which both run. Absent: on the machine.
    pub within: Option<ContainerName>,
    /// The environment of both.
    pub env: Environment,
    /// How objects and lists are written in the environment.
    pub insert: Inserts,
    /// How long each may take.
    pub limit: Option<Period>,
}

impl Action {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Action {
            command: fields.required("command")?,
            verify: fields.required("verify")?,
            within: fields.optional("in")?,
            env: environment(fields)?,
            insert: fields.or_default("insert")?,
            limit: fields.optional("limit")?,
        })
    }
}

/// A port that the machine's firewall lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The port.
    pub port: u16,
    /// TCP, where nothing is said.
    pub protocol: Protocol,
    /// From where. Empty: from everywhere.
    pub from: Vec<Source>,
}

impl Opening {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let port = fields.required::<Number<u16>>("port")?.0;
        if port == 0 {
            return Err(fields.at().field("port").problem("is 0, which is not a port"));
        }
        Ok(Opening { port, protocol: fields.or_default("protocol")?, from: fields.or_default("from")? })
    }
}

//! What a resource is about: its kind, and the one thing on the machine that it describes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kinds of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A directory.
    Directory,
    /// An operator's path that must be there.
    Access,
    /// A file.
    File,
    /// Keys inside a file that the machine owns.
    Into,
    /// An unpacked archive.
    Archive,
    /// A unit of the service manager.
    Service,
    /// An installed package.
    Package,
    /// An account.
    User,
    /// A command that the service manager runs.
    Process,
    /// A network of the container runtime.
    Network,
    /// A container.
    Container,
    /// A command with a check.
    Action,
    /// A port opened in the found firewall.
    Opening,
}

impl Kind {
    /// The word in declarations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Access => "access",
            Self::File | Self::Into => "file",
            Self::Archive => "archive",
            Self::Service => "service",
            Self::Package => "package",
            Self::User => "user",
            Self::Process => "process",
            Self::Network => "network",
            Self::Container => "container",
            Self::Action => "action",
            Self::Opening => "opening",
        }
    }

    /// Whether it is a file or a directory, which needs no manager of the machine.
    pub const fn is_of_files(self) -> bool {
        matches!(self, Self::Directory | Self::Access | Self::File | Self::Into | Self::Archive)
    }
}

/// The one thing on the machine that a resource describes. Records are kept by target, so that a target which moves to
/// another id keeps its record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// A path, or a name within the kind. For keys inside a file: the path, `#` and the resource's id.
    pub name: String,
}

impl Target {
    /// A target.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Who declared a resource. Each origin has its own orphans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A bundle of this name, from the command line.
    Bundle(String),
    /// A module of the mesh's declaration.
    Mesh(String),
}

impl Origin {
    /// The module's or the bundle's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Bundle(name) | Self::Mesh(name) => name,
        }
    }
}

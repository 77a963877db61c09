//! Containers as plain data: what reaches the runtime, what the runtime answers, and what can be done to one.

use crate::digest::Digest;
use mesh_model::resource::{self, Protocol, VolumeSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name under which a container is made before it takes the place of the old one.
pub fn next_name(name: &str) -> String {
    format!("{name}.next")
}

/// The name of the old one until the new one has settled.
pub fn prev_name(name: &str) -> String {
    format!("{name}.prev")
}

/// Everything about a container that reaches the command line, but for the values of its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shape {
    /// What it runs.
    pub image: String,
    /// Files of the machine with its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_files: Vec<String>,
    /// Ports that are published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// What is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Its network; `None`: the runtime's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Addresses of names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, String>,
    /// What follows the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How long it has to stop, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<u64>,
    /// How long one run may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    /// Whether there is an environment of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub env: bool,
}

impl Shape {
    /// The shape of a declared container; `env`: whether it has an environment.
    pub fn of(container: &resource::Container, env: bool) -> Self {
        let texts = |list: &[resource::AbsolutePath]| list.iter().map(ToString::to_string).collect();
        // Part of a second counts as one: no time at all would mean none.
        let seconds = |period: resource::Period| period.duration().as_millis().div_ceil(1000);
        let seconds = |period| u64::try_from(seconds(period)).unwrap_or(u64::MAX);
        Self {
            image: container.image.to_string(),
            env_files: texts(&container.env_file),
            ports: container.ports.iter().map(ToString::to_string).collect(),
            volumes: container.volumes.iter().map(ToString::to_string).collect(),
            network: container.network.as_ref().map(ToString::to_string),
            hosts: container.hosts.clone(),
            args: container.args.clone(),
            stop_s: container.stop.map(seconds),
            limit_s: container.limit.map(seconds),
            env,
        }
    }
}

/// The files and directories of the machine that it mounts, in order.
pub fn sources(container: &resource::Container) -> Vec<String> {
    let path = |volume: &resource::Volume| match &volume.source {
        VolumeSource::Path(path) => Some(path.to_string()),
        VolumeSource::Named(_) => None,
    };
    container.volumes.iter().filter_map(path).collect()
}

/// A port of the machine that a container binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HeldPort {
    /// The port.
    pub port: u16,
    /// Whether it is of UDP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub udp: bool,
}

/// The ports of the machine that it binds: what is declared counts, not what is open.
pub fn ports(container: &resource::Container) -> Vec<HeldPort> {
    let mut ports: Vec<_> = container
        .ports
        .iter()
        .filter_map(|port| Some(HeldPort { port: port.host?, udp: port.protocol == Protocol::Udp }))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// What a container is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Made, and never started.
    Created,
    /// It runs.
    Running,
    /// It ended, and the runtime starts it again and again.
    Restarting,
    /// It ended with this code.
    Exited(i64),
}

/// What a health check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// There is no check.
    Unchecked,
    /// It has not said yet.
    Starting,
    /// It is well.
    Healthy,
    /// It is not.
    Unhealthy,
}

/// One container, as the runtime has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The runtime's own number of it.
    pub number: String,
    /// Our label with the id of its resource; `None`: this host did not make it.
    pub id: Option<String>,
    /// Our label with the digest of what it was made from.
    pub digest: String,
    /// What it is doing.
    pub status: Status,
    /// When it was last started, as the runtime writes it.
    pub started: String,
    /// How often the runtime has started it again.
    pub restarts: u64,
    /// What its health check says.
    pub health: Health,
    /// Whether it is started again when it ends, and at boot.
    pub lasts: bool,
}

impl Instance {
    /// Whether this host made it.
    pub const fn is_ours(&self) -> bool {
        self.id.is_some()
    }

    /// Whether it runs, or the runtime keeps starting it.
    pub const fn is_up(&self) -> bool {
        matches!(self.status, Status::Running | Status::Restarting)
    }
}

/// The answer about one name: the container of that name, and those of an exchange that is under way or was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// The runtime that answered: `docker` or `podman`.
    pub runtime: String,
    /// The container of the name itself.
    pub current: Option<Instance>,
    /// The new one, before it takes the place.
    pub next: Option<Instance>,
    /// The old one, until the new one has settled.
    pub prev: Option<Instance>,
}

/// One effect on containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerStep {
    /// Fetches an image that is not here.
    Pull {
        /// The container that needs it.
        of: String,
        /// The image.
        image: String,
    },
    /// Makes a container and does not start it.
    Create {
        /// The declared name.
        of: String,
        /// The name that it gets.
        name: String,
        /// The resource, whose content is the environment.
        id: String,
        /// Of everything that it is made from.
        digest: Digest,
        /// What it is made from.
        shape: Box<Shape>,
        /// Whether it runs always: a podman without a service manager has to know when it is made.
        always: bool,
    },
    /// Starts it.
    Start {
        /// The declared name.
        of: String,
        /// The container.
        name: String,
    },
    /// Stops it, and keeps it from being started again.
    Stop {
        /// The declared name.
        of: String,
        /// The container.
        name: String,
        /// How long it has, in seconds; `None`: the runtime's ten.
        within_s: Option<u64>,
    },
    /// Gives it another name.
    Rename {
        /// The declared name.
        of: String,
        /// The name that it has.
        from: String,
        /// The name that it gets.
        to: String,
    },
    /// Has it started again whenever it ends, and at boot.
    Last {
        /// The declared name.
        of: String,
        /// How long it has to stop, in seconds.
        within_s: Option<u64>,
    },
    /// Starts it, waits for its end, and ends it at the limit.
    Finish {
        /// The declared name.
        of: String,
        /// In seconds; `None`: an hour.
        limit_s: Option<u64>,
    },
    /// Removes it, if it is ours. Its volumes stay.
    Remove {
        /// The declared name.
        of: String,
        /// The container.
        name: String,
        /// The runtime's own number of the one that was looked at.
        number: String,
    },
}

impl ContainerStep {
    /// The declared name.
    pub fn of(&self) -> &str {
        match self {
            Self::Pull { of, .. }
            | Self::Create { of, .. }
            | Self::Start { of, .. }
            | Self::Stop { of, .. }
            | Self::Rename { of, .. }
            | Self::Last { of, .. }
            | Self::Finish { of, .. }
            | Self::Remove { of, .. } => of,
        }
    }
}

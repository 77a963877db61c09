//! Containers: running, run once, or scheduled.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    AbsolutePath, ContainerName, Environment, Id, Image, Inserts, Period, PortMapping, Schedule, Volume,
    Zone, environment,
};
use crate::json::{Fields, Problem};

/// A container. Its JSON holds every field that was declared, in one order: material for a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Container {
    /// Its name on the machine, which is its identity.
    pub name: ContainerName,
    /// What it runs.
    pub image: Image,
    /// Its environment.
    pub env: Environment,
    /// How objects and lists are written in the environment.
    pub insert: Inserts,
    /// Files of `NAME=value` lines on the machine.
    pub env_file: Vec<AbsolutePath>,
    /// Ports that are published.
    pub ports: Vec<PortMapping>,
    /// What is mounted.
    pub volumes: Vec<Volume>,
    /// The network; absent: the runtime's own.
    pub network: Option<ContainerName>,
    /// Addresses of names, known inside the container alone.
    pub hosts: BTreeMap<String, String>,
    /// What follows the image: arguments of its program.
    pub args: Vec<String>,
    /// A change of one of these restarts it.
    pub restart_on: Vec<Id>,
    /// How long it must stay up to count as started. Absent: two seconds.
    pub settle: Option<Period>,
    /// How long it has to stop before it is killed. Absent: the runtime's ten seconds.
    pub stop: Option<Period>,
    /// When it runs.
    pub runs: Runs,
    /// How long one run may take, of a container that ends.
    pub limit: Option<Period>,
}

/// When a container runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    /// Always.
    Always,
    /// Once for each declaration of it, to its end.
    Once,
    /// At times, each run to its end.
    Scheduled {
        /// The times.
        schedule: Schedule,
        /// The zone of the times. Absent: UTC.
        zone: Option<Zone>,
    },
}

impl Container {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let container = Container {
            name: fields.required("name")?,
            image: fields.required("image")?,
            env: environment(fields)?,
            insert: fields.or_default("insert")?,
            env_file: fields.or_default("env-file")?,
            ports: fields.or_default("ports")?,
            volumes: fields.or_default("volumes")?,
            network: fields.optional("network")?,
            hosts: hosts(fields)?,
            args: fields.or_default("args")?,
            restart_on: fields.or_default("restart-on")?,
            settle: fields.optional("settle")?,
            stop: fields.optional("stop")?,
            runs: Runs::read(fields)?,
            limit: fields.optional("limit")?,
        };
        let refuse = |name, why: &str| Err(fields.at().field(name).problem(why));
        if let Some(place) = container.args.iter().position(|word| word.contains('\0')) {
            return Err(fields.at().field("args").index(place).problem("holds a NUL byte"));
        }
        match container.runs {
            Runs::Always if container.limit.is_some() => {
                refuse("limit", "has a meaning only with run-once or schedule")
            }
            Runs::Once | Runs::Scheduled { .. } if container.settle.is_some() => {
                refuse("settle", "has no meaning for a container that ends")
            }
            Runs::Once if !container.ports.is_empty() => {
                refuse("ports", "a container that runs once publishes none")
            }
            _ => Ok(container),
        }
    }
}

impl Runs {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let once: bool = fields.or_default("run-once")?;
        let schedule = fields.optional("schedule")?;
        let zone: Option<Zone> = fields.optional("zone")?;
        match (once, schedule) {
            (true, Some(_)) => Err(fields.at().field("run-once").problem("stands beside a schedule")),
            (false, Some(schedule)) => Ok(Runs::Scheduled { schedule, zone }),
            _ if zone.is_some() => {
                Err(fields.at().field("zone").problem("has a meaning only with a schedule"))
            }
            (true, None) => Ok(Runs::Once),
            (false, None) => Ok(Runs::Always),
        }
    }
}

/// Reads the field `hosts`: an object of names and addresses. `host-gateway` is the runtime's word for the machine.
fn hosts(fields: &mut Fields<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let hosts: BTreeMap<String, String> = fields.or_default("hosts")?;
    let at = fields.at().field("hosts");
    for (name, address) in &hosts {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if name.is_empty() || name.len() > 253 || name.starts_with('-') || !name.bytes().all(plain) {
            return Err(at.field(name).problem("is not the name of a host"));
        }
        if address != "host-gateway" && address.parse::<IpAddr>().is_err() {
            return Err(at.field(name).problem(format!("{address:?} is not an address")));
        }
    }
    Ok(hosts)
}

//! A module's manifest: what a module is made of, before any node runs it (PROTOCOL.md, "Manifests").
//!
//! Reading is strict and stops at the first field that is out of shape. [`check()`] then tells everything that cannot
//! work, without a mesh.

mod check;
mod judge;
mod sample;
mod scan;

use std::collections::BTreeMap;

use crate::assignment::Make;
use crate::json::{At, Fields, Json, Problem, Read};
use crate::resource::{AccessMode, AccountName, Draft, Mode, Owner, Protocol, words};
use crate::settings::Schema;

pub use check::{Judged, check};
pub use scan::look_alikes;

/// The four facts of a node that `${machine:…}` can name.
pub const MACHINE_FACTS: [&str; 4] = ["address", "arch", "name", "zone"];

/// What a module is made of.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::manifest::Manifest;
/// let text = br#"{"module":"web","version":"2.4.1","ports":{"http":{"protocol":"tcp","fixed":null}}}"#;
/// assert_eq!(Manifest::from_json_bytes(text).unwrap().module, "web");
///
/// let wrong = br#"{"module":"web","version":"2.4.1","port":{}}"#;
/// assert_eq!(Manifest::from_json_bytes(wrong).unwrap_err().to_string(), "port: unknown field; nearest known: ports");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The module's name.
    pub module: String,
    /// Its version.
    pub version: String,
    /// For people.
    pub description: String,
    /// What a machine is made to hold. Their ids have no prefix yet.
    pub resources: Vec<Draft>,
    /// Ports of the node, by name.
    pub ports: BTreeMap<String, Port>,
    /// Directories of its own, by name.
    pub dirs: BTreeMap<String, Dir>,
    /// Paths that the operator provides, by name.
    pub accesses: BTreeMap<String, AccessMode>,
    /// Secrets, by name.
    pub secrets: BTreeMap<String, SecretSource>,
    /// What can be set.
    pub settings: Settings,
    /// What other modules must provide, by the name that this module gives it.
    pub requires: BTreeMap<String, String>,
    /// What it provides.
    pub provides: Vec<String>,
    /// The collections of its node that it reads.
    pub reads: Vec<String>,
    /// Its item for each collection of its node that it contributes to.
    pub contributes: BTreeMap<String, Json>,
    /// Roles that are held once in a mesh.
    pub seats: Seats,
    /// Subjects that it publishes.
    pub emits: Vec<String>,
    /// Subjects that it subscribes to.
    pub consumes: Vec<String>,
    /// The account on the machine that it runs as.
    pub runs_as: Option<AccountName>,
    /// What it keeps.
    pub data: Option<Data>,
}

/// A port of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// TCP, where nothing is said.
    pub protocol: Protocol,
    /// This port and no other. Absent: the controller takes one.
    pub fixed: Option<u16>,
}

/// A directory of the module's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// Its mode.
    pub mode: Option<Mode>,
    /// Its owner.
    pub owner: Option<Owner>,
}

/// Where a secret comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretSource {
    /// The vault makes it.
    Make(Make),
    /// A person gives it.
    Accept,
}

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The schema, every keyword of which is understood. Absent: anything can be set.
    pub schema: Option<Schema>,
    /// What holds where nobody set anything: an object.
    pub defaults: Json,
}

/// Roles that are held once in a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seats {
    /// Seats that the module holds.
    pub holds: Vec<String>,
    /// Seats whose holder it speaks to.
    pub asks: Vec<String>,
    /// Seats that it holds a copy of.
    pub replicated: Vec<String>,
}

/// What a module keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// What it is, for people.
    pub keeps: String,
    /// What its loss would mean.
    pub worth: Worth,
}

words!(
    /// What the loss of a module's data would mean.
    Worth, "worth" {
        /// Little.
        Low = "low",
        /// Much, and it can be had again.
        High = "high",
        /// It cannot be had again.
        Irreplaceable = "irreplaceable",
    }
);

impl Read for Manifest {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        if json.get("prepare").is_some() {
            return Err(at.field("prepare").problem("is reserved for a later version"));
        }
        let mut fields = Fields::of(json, at)?;
        let manifest = Manifest {
            module: fields.required("module")?,
            version: fields.required("version")?,
            description: fields.or_default("description")?,
            resources: fields.or_default("resources")?,
            ports: fields.or_default("ports")?,
            dirs: fields.or_default("dirs")?,
            accesses: accesses(&mut fields)?,
            secrets: fields.or_default("secrets")?,
            settings: fields.or_default("settings")?,
            requires: requires(&mut fields)?,
            provides: fields.or_default("provides")?,
            reads: fields.or_default("reads")?,
            contributes: fields.or_default("contributes")?,
            seats: fields.or_default("seats")?,
            emits: fields.or_default("emits")?,
            consumes: fields.or_default("consumes")?,
            runs_as: fields.optional("runs-as")?,
            data: fields.optional("data")?,
        };
        fields.done()?;
        Ok(manifest)
    }
}

struct Access(AccessMode);

impl Read for Access {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let mode = Access(fields.required("mode")?);
        fields.done()?;
        Ok(mode)
    }
}

fn accesses(fields: &mut Fields<'_>) -> Result<BTreeMap<String, AccessMode>, Problem> {
    let read: BTreeMap<String, Access> = fields.or_default("accesses")?;
    Ok(read.into_iter().map(|(name, mode)| (name, mode.0)).collect())
}

struct Provision(String);

impl Read for Provision {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let provision = Provision(fields.required("provision")?);
        fields.done()?;
        Ok(provision)
    }
}

fn requires(fields: &mut Fields<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let read: BTreeMap<String, Provision> = fields.or_default("requires")?;
    Ok(read.into_iter().map(|(name, provision)| (name, provision.0)).collect())
}

impl Read for Port {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let port = Port { protocol: fields.or_default("protocol")?, fixed: fields.optional("fixed")? };
        fields.done()?;
        if port.fixed == Some(0) {
            return Err(at.field("fixed").problem("is 0, which is not a port"));
        }
        Ok(port)
    }
}

impl Read for Dir {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let dir = Dir { mode: fields.optional("mode")?, owner: fields.optional("owner")? };
        fields.done()?;
        Ok(dir)
    }
}

impl Read for SecretSource {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let (make, accept) = (fields.optional("make")?, fields.or_default::<bool>("accept")?);
        fields.done()?;
        match (make, accept) {
            (Some(make), false) => Ok(SecretSource::Make(make)),
            (None, true) => Ok(SecretSource::Accept),
            _ => Err(at.problem("says neither make nor \"accept\":true, or both")),
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { schema: None, defaults: Json::Object(Vec::new()) }
    }
}

impl Read for Settings {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let schema: Option<Json> = fields.optional("schema")?;
        let defaults = fields.optional("defaults")?.unwrap_or_else(|| Json::Object(Vec::new()));
        fields.done()?;
        if !matches!(defaults, Json::Object(_)) {
            return Err(at
                .field("defaults")
                .problem(format!("is {} where an object belongs", defaults.kind())));
        }
        let schema = match schema {
            Some(schema) => Some(Schema::check(&schema, &at.field("schema")).map_err(first)?),
            None => None,
        };
        Ok(Settings { schema, defaults })
    }
}

fn first(mut problems: Vec<Problem>) -> Problem {
    problems.swap_remove(0)
}

impl Read for Seats {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let seats = Seats {
            holds: fields.or_default("holds")?,
            asks: fields.or_default("asks")?,
            replicated: fields.or_default("replicated")?,
        };
        fields.done()?;
        Ok(seats)
    }
}

impl Read for Data {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let data = Data { keeps: fields.required("keeps")?, worth: fields.required("worth")? };
        fields.done()?;
        Ok(data)
    }
}

/// The path of a module's directory of that name.
///
/// ```
/// use mesh_model::manifest::dir_path;
/// assert_eq!(dir_path("web", "state"), "/var/lib/web");
/// assert_eq!(dir_path("web", "uploads"), "/var/lib/web/uploads");
/// ```
pub fn dir_path(module: &str, name: &str) -> String {
    match name {
        "state" => format!("/var/lib/{module}"),
        "cache" => format!("/var/cache/{module}"),
        "config" => format!("/etc/{module}"),
        "log" => format!("/var/log/{module}"),
        "run" => format!("/run/{module}"),
        other => format!("/var/lib/{module}/{other}"),
    }
}

/// The id of the directory resource that the controller adds for a declared directory.
pub fn dir_id(name: &str) -> String {
    format!("dir-{name}")
}

#[cfg(test)]
mod tests;

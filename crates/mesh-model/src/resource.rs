//! Resources: what a machine is made to hold, each of one kind with the fields of that kind.
//!
//! A manifest and an assignment hold [drafts](Draft): JSON whose strings may hold placeholders. The host fills all
//! strings of a draft but those that may hold any kind ([`place`]), and reads a [`Resource`] from the result. So the
//! contents of files and the values of environment variables of a [`Resource`] are templates still, and everything
//! else is parsed.

mod container;
mod draft;
mod files;
mod id;
mod kind;
mod machine;
mod target;
mod value;

use std::collections::BTreeMap;

pub use container::{Container, Runs};
pub use draft::{Draft, Place, place};
pub use files::{Access, AccessMode, Archive, ArchiveSource, Content, Directory, File, Placed};
pub use id::Id;
pub use kind::Kind;
pub use machine::{Action, Boot, Network, Opening, Package, Process, Service, State, User};
pub use target::{Space, Target};
pub(crate) use value::words;
pub use value::{
    AbsolutePath, Account, AccountName, Command, ContainerName, Encode, Format, Image, Insert, Mode, Number,
    Owner, PackageName, Period, PortMapping, ProcessName, Protocol, Schedule, Source, UnitName, VariableName,
    Volume, VolumeSource, Zone,
};

use crate::json::{At, Fields, Json, Problem, Read};

/// Environment variables, sorted by name. Their values may hold placeholders until they are filled.
pub type Environment = BTreeMap<VariableName, String>;

/// How the objects and lists that placeholders insert are written, by `kind:name`.
pub type Inserts = BTreeMap<String, Insert>;

/// A resource, all of its fields read.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::resource::{Resource, What};
///
/// let resource = Resource::from_json_bytes(br#"{"id":"site","type":"directory","path":"/var/lib/web"}"#).unwrap();
/// assert!(matches!(resource.what, What::Directory(_)));
///
/// let wrong = br#"{"id":"site","type":"directory","path":"/var/lib/web","mdoe":"0750"}"#;
/// let problem = Resource::from_json_bytes(wrong).unwrap_err();
/// assert_eq!(problem.to_string(), "mdoe: unknown field; nearest known: mode");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its id, which nothing else of its declaration has.
    pub id: Id,
    /// What it is.
    pub what: What,
}

/// The kinds of resources, with their fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described at its type")]
pub enum What {
    Directory(Directory),
    Access(Access),
    File(File),
    Archive(Archive),
    Service(Service),
    Package(Package),
    Network(Network),
    User(User),
    Process(Process),
    Container(Box<Container>),
    Action(Action),
    Opening(Opening),
}

impl Read for Resource {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let id = fields.required("id")?;
        let kind: Kind = fields.required("type")?;
        let what = match kind {
            Kind::Directory => What::Directory(Directory::read(&mut fields)?),
            Kind::Access => What::Access(Access::read(&mut fields)?),
            Kind::File => What::File(File::read(&mut fields)?),
            Kind::Archive => What::Archive(Archive::read(&mut fields)?),
            Kind::Service => What::Service(Service::read(&mut fields)?),
            Kind::Package => What::Package(Package::read(&mut fields)?),
            Kind::Network => What::Network(Network::read(&mut fields)?),
            Kind::User => What::User(User::read(&mut fields)?),
            Kind::Process => What::Process(Process::read(&mut fields)?),
            Kind::Container => What::Container(Box::new(Container::read(&mut fields)?)),
            Kind::Action => What::Action(Action::read(&mut fields)?),
            Kind::Opening => What::Opening(Opening::read(&mut fields)?),
        };
        fields.done()?;
        Ok(Resource { id, what })
    }
}

impl Resource {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.what {
            What::Directory(_) => Kind::Directory,
            What::Access(_) => Kind::Access,
            What::File(_) => Kind::File,
            What::Archive(_) => Kind::Archive,
            What::Service(_) => Kind::Service,
            What::Package(_) => Kind::Package,
            What::Network(_) => Kind::Network,
            What::User(_) => Kind::User,
            What::Process(_) => Kind::Process,
            What::Container(_) => Kind::Container,
            What::Action(_) => Kind::Action,
            What::Opening(_) => Kind::Opening,
        }
    }

    /// The ids whose change restarts it, and those whose change reloads it.
    pub fn triggers(&self) -> (&[Id], &[Id]) {
        match &self.what {
            What::Service(service) => (&service.restart_on, &service.reload_on),
            What::Process(process) => (&process.restart_on, &[]),
            What::Container(container) => (&container.restart_on, &[]),
            _ => (&[], &[]),
        }
    }
}

/// Reads the field `env`: names are checked, and a newline or a NUL in a value is refused by the variable's name.
fn environment(fields: &mut Fields<'_>) -> Result<Environment, Problem> {
    let written: BTreeMap<String, String> = fields.or_default("env")?;
    let at = fields.at().field("env");
    written
        .into_iter()
        .map(|(name, value)| {
            if value.contains(['\n', '\r', '\0']) {
                return Err(at
                    .field(&name)
                    .problem("holds a newline or a NUL, which no environment file can hold"));
            }
            Ok((name.parse().map_err(|why: String| at.field(&name).problem(why))?, value))
        })
        .collect()
}

#[cfg(test)]
mod tests;

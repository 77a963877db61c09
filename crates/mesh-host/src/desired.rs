//! What a resource shall be: as it was declared, checked and filled. Content itself is kept apart, by id.

use crate::digest::Digest;
use crate::target::{Kind, Origin, Target};
use mesh_model::resource::{Format, What};

/// A resource as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Its id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// What it shall be.
    pub spec: Spec,
}

/// What a resource shall be, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A directory.
    Directory(Directory),
    /// An operator's path.
    Access(Access),
    /// A file.
    File(File),
    /// Keys inside a file that the machine owns.
    Into(Into),
    /// An unpacked archive.
    Archive(Archive),
    /// Something that a manager of the machine holds.
    Managed(Box<Managed>),
}

/// What a manager of the machine holds: a unit, a package, a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// As it was declared, its placeholders filled. Its `env` is empty: the values may be secrets.
    pub what: What,
    /// Of the environment file that is the content of this resource: `NAME=value` lines, sorted by name. Keyed if a
    /// secret is in it. `None`: there is no environment.
    pub env: Option<Digest>,
    /// Of a process: of the unit file that runs it.
    pub unit: Option<Digest>,
    /// Whether a secret is anywhere in its module: what its commands say is not told on then.
    pub private: bool,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// An absolute path.
    pub path: String,
    /// Twelve bits.
    pub mode: u32,
    /// `user`, `user:group` or `uid:gid`.
    pub owner: Option<String>,
}

/// A path that the operator provides and this host only looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// An absolute path.
    pub path: String,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// An absolute path.
    pub path: String,
    /// Of the filled content; keyed if a secret is in it.
    pub digest: Digest,
    /// Twelve bits; the declared ones, or what the content calls for.
    pub mode: u32,
    /// `user`, `user:group` or `uid:gid`.
    pub owner: Option<String>,
    /// Written when it is absent, and never again.
    pub create_once: bool,
    /// Written into the file that is there instead of replacing it.
    pub in_place: bool,
    /// A link at the end of the path is followed, once.
    pub through_link: bool,
}

/// Keys inside a file that the machine owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Into {
    /// An absolute path.
    pub path: String,
    /// The file's format.
    pub format: Format,
    /// Of the filled content; keyed if a secret is in it.
    pub digest: Digest,
}

/// An archive, unpacked into a directory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// An absolute path.
    pub path: String,
    /// The file of the machine that is unpacked; `None`: the content of this resource is.
    pub source: Option<String>,
    /// Of the archive.
    pub digest: Digest,
    /// How many leading components of each entry are left out.
    pub strip: u8,
    /// `user`, `user:group` or `uid:gid`.
    pub owner: Option<String>,
}

impl Desired {
    /// The one thing on the machine that it describes.
    pub fn target(&self) -> Target {
        match &self.spec {
            Spec::Directory(directory) => Target::new(Kind::Directory, &directory.path),
            Spec::Access(access) => Target::new(Kind::Access, &access.path),
            Spec::File(file) => Target::new(Kind::File, &file.path),
            Spec::Into(into) => Target::new(Kind::Into, format!("{}#{}", into.path, self.id)),
            Spec::Archive(archive) => Target::new(Kind::Archive, &archive.path),
            Spec::Managed(managed) => managed.target(&self.id),
        }
    }
}

impl Managed {
    fn target(&self, id: &str) -> Target {
        match &self.what {
            What::Service(service) => Target::new(Kind::Service, service.unit.to_string()),
            What::Package(package) => Target::new(Kind::Package, package.package.to_string()),
            What::Network(network) => Target::new(Kind::Network, network.name.to_string()),
            What::User(user) => Target::new(Kind::User, user.name.to_string()),
            What::Process(process) => Target::new(Kind::Process, process.unit()),
            What::Container(container) => Target::new(Kind::Container, container.name.to_string()),
            What::Opening(opening) => {
                Target::new(Kind::Opening, format!("{}/{}", opening.port, opening.protocol))
            }
            What::Action(_) => Target::new(Kind::Action, id),
            // These are of files, and have specs of their own.
            What::Directory(directory) => Target::new(Kind::Directory, directory.path.to_string()),
            What::Access(access) => Target::new(Kind::Access, access.path.to_string()),
            What::File(file) => Target::new(Kind::File, file.place.path().to_string()),
            What::Archive(archive) => Target::new(Kind::Archive, archive.path.to_string()),
        }
    }
}

//! What a resource shall be: as it was declared, checked and filled. Content itself is kept apart, by id.

use crate::digest::Digest;
use crate::target::{Kind, Origin, Target};

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
}

impl Desired {
    /// The one thing on the machine that it describes.
    pub fn target(&self) -> Target {
        match &self.spec {
            Spec::Directory(directory) => Target::new(Kind::Directory, &directory.path),
            Spec::Access(access) => Target::new(Kind::Access, &access.path),
            Spec::File(file) => Target::new(Kind::File, &file.path),
        }
    }
}

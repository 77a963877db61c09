//! What a resource acts on: two resources with one target would undo each other's work.

use super::{Resource, What};

/// A set of names that are apart from those of every other set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Paths.
    Path,
    /// Units of the service manager.
    Unit,
    /// Packages.
    Package,
    /// Networks of the container runtime.
    Network,
    /// Containers.
    Container,
    /// Users.
    User,
    /// Openings of the firewall.
    Opening,
    /// Actions, which are told apart by their ids.
    Action,
}

/// What a resource acts on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The set that the name belongs to.
    pub space: Space,
    /// The name, as people read it in a report.
    pub name: String,
    /// Whether several modules may have it, since having it twice changes nothing.
    pub shared: bool,
}

impl Resource {
    /// What it acts on.
    ///
    /// ```
    /// use mesh_model::json::Read;
    /// use mesh_model::resource::Resource;
    /// let read = |text: &str| Resource::from_json_bytes(text.as_bytes()).unwrap();
    /// let unit = read(r#"{"id":"a","type":"service","unit":"mesh-web","state":"running"}"#);
    /// let process = read(r#"{"id":"b","type":"process","name":"web","command":["web"]}"#);
    /// assert_eq!(unit.target(), process.target());
    /// ```
    pub fn target(&self) -> Target {
        let (space, name, shared) = match &self.what {
            What::Directory(directory) => (Space::Path, directory.path.to_string(), false),
            What::Access(access) => (Space::Path, access.path.to_string(), true),
            What::File(file) => (Space::Path, file.place.path().to_string(), false),
            What::Archive(archive) => (Space::Path, archive.path.to_string(), false),
            What::Service(service) => (Space::Unit, service.unit.to_string(), false),
            What::Process(process) => (Space::Unit, process.unit(), false),
            What::Package(package) => (Space::Package, package.package.to_string(), true),
            What::Network(network) => (Space::Network, network.name.to_string(), true),
            What::Container(container) => (Space::Container, container.name.to_string(), false),
            What::User(user) => (Space::User, user.name.to_string(), false),
            What::Opening(opening) => {
                (Space::Opening, format!("{}/{}", opening.port, opening.protocol), false)
            }
            What::Action(_) => (Space::Action, self.id.to_string(), false),
        };
        Target { space, name, shared }
    }
}

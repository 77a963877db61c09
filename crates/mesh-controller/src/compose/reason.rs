//! Why a part is as it is: data, which the code of the table puts into words.

use super::snapshot::{ActId, Moment};
use std::collections::BTreeMap;

/// A place in a document: names of members, and `[key]` for an item of a list.
pub type Path = Vec<String>;

/// Why a part is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The module was assigned to the node.
    Assigned(ActId),
    /// The module was taken off the node.
    Unassigned,
    /// The manifest of that version says so.
    Manifest(String, ActId),
    /// A directory that the manifest declares.
    Directory,
    /// The operator's path.
    Access(ActId),
    /// A port that was given to the module then.
    PortKept(Moment),
    /// A free port out of the pool.
    PortNew,
    /// The manifest wants this port and no other.
    PortFixed,
    /// The holder of a seat.
    Seat {
        /// The holder's node.
        node: String,
        /// The holder.
        module: String,
    },
    /// The operator said so of the node.
    Node(ActId),
    /// The node said so when it joined.
    Joined(Moment),
    /// The defaults of the manifest.
    Defaults,
    /// Set for the whole mesh.
    Mesh(ActId),
    /// Set for this node.
    ForNode(ActId),
    /// Taken away by a layer, which the reason names.
    Removed(Box<Reason>),
    /// Bound to the only provider there was.
    Bound {
        /// The provider's node.
        node: String,
        /// The provider.
        module: String,
        /// Since when; `None` if it is new.
        since: Option<Moment>,
    },
    /// The modules that are bound to this one.
    Consumers(usize),
    /// The operator's recovery key.
    Recovery,
    /// The mesh's vault.
    Vault,
    /// The order in which a provider comes before who is bound to it.
    Order,
    /// A declaration from a file stood there.
    Declared(ActId),
}

/// What is known of an act, for people.
pub type Acts = BTreeMap<ActId, String>;

impl Reason {
    /// The reason in words. `acts` says what each act was; `at` writes a time.
    pub fn tell(&self, acts: &Acts, at: &dyn Fn(Moment) -> String) -> String {
        let act = |id: &ActId| acts.get(id).cloned().unwrap_or_else(|| format!("act {id}"));
        match self {
            Reason::Assigned(id) => format!("assigned by {}", act(id)),
            Reason::Unassigned => "no longer assigned".into(),
            Reason::Manifest(version, id) => format!("manifest {version}, added by {}", act(id)),
            Reason::Directory => "a directory that the manifest declares".into(),
            Reason::Access(id) => format!("the operator's path, set by {}", act(id)),
            Reason::PortKept(since) => format!("port kept since {}", at(*since)),
            Reason::PortNew => "a free port of the pool".into(),
            Reason::PortFixed => "fixed by the manifest".into(),
            Reason::Seat { node, module } => format!("the seat is held by {module} on {node}"),
            Reason::Node(id) => format!("said of the node by {}", act(id)),
            Reason::Joined(since) => format!("as the node joined at {}", at(*since)),
            Reason::Defaults => "default of the manifest".into(),
            Reason::Mesh(id) => format!("set for the mesh by {}", act(id)),
            Reason::ForNode(id) => format!("set for the node by {}", act(id)),
            Reason::Removed(by) => format!("taken away with null: {}", by.tell(acts, at)),
            Reason::Bound { node, module, since: Some(since) } => {
                format!("bound to {module} on {node} since {}", at(*since))
            }
            Reason::Bound { node, module, since: None } => format!("{module} on {node} is the only provider"),
            Reason::Consumers(count) => format!("{count} modules are bound to it"),
            Reason::Recovery => "the operator's recovery key".into(),
            Reason::Vault => "the mesh's vault".into(),
            Reason::Order => "providers come before who is bound to them".into(),
            Reason::Declared(id) => format!("in place of a declaration from a file, {}", act(id)),
        }
    }
}

/// The reasons of a document, each for a place and everything below it that has no own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<Path, Reason>);

impl Reasons {
    /// Gives a place a reason.
    pub fn put<S: Into<String>>(&mut self, path: impl IntoIterator<Item = S>, reason: Reason) {
        self.0.insert(path.into_iter().map(Into::into).collect(), reason);
    }

    /// The reason of a place: its own, or that of the nearest place above it.
    pub fn of(&self, path: &[String]) -> Option<&Reason> {
        (0..=path.len()).rev().find_map(|end| self.0.get(&path[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_reason_counts() {
        let mut reasons = Reasons::default();
        reasons.put([""; 0], Reason::Assigned(1));
        reasons.put(["placement", "port", "http"], Reason::PortNew);
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(reasons.of(&path("placement.port.http")), Some(&Reason::PortNew));
        assert_eq!(reasons.of(&path("placement.port.http.x")), Some(&Reason::PortNew));
        assert_eq!(reasons.of(&path("placement.dir")), Some(&Reason::Assigned(1)));
        assert_eq!(reasons.of(&[]), Some(&Reason::Assigned(1)));
    }
}

//! What one apply is about.

use crate::desired::Desired;
use crate::digest::DigestKey;
use crate::target::{Origin, Target};
use std::collections::BTreeSet;

/// What one apply is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Request {
    /// Everything that is declared and can be applied now, in order.
    pub desired: Vec<Desired>,
    /// Which records belong to this declaration: what is among them and not declared is an orphan.
    pub scope: Scope,
    /// Whether the node is adopted, and modules are taken over one by one.
    pub adopted: bool,
    /// The origins whose found things are held. Empty unless the node is adopted.
    pub untaken: BTreeSet<Origin>,
    /// Whether there are managers: not with `--root`.
    pub managers: bool,
    /// Whether owners are managed: not without root's rights.
    pub owners: bool,
    /// Whether it shall only be said what would be done.
    pub plan: bool,
    /// Whether what failed before is tried again at once.
    pub again: bool,
    /// Seconds since 1970, when the apply begins.
    pub now_s: u64,
    /// The key of this node's digests.
    pub key: DigestKey,
    /// The folder of this host's own state.
    pub state: String,
}

/// Which records an apply may treat as orphans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The bundle, or the mesh.
    pub family: Family,
    /// These origins are left alone with all their records: they wait.
    pub waiting: BTreeSet<Origin>,
    /// If set, no other origins are looked at.
    pub only: Option<BTreeSet<Origin>>,
    /// What waiting modules declare: it moves to them, and is not an orphan of where it was.
    pub spoken_for: BTreeSet<Target>,
}

/// Whose orphans: each bundle has its own, and so has the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// The bundle of this name.
    Bundle(String),
    /// All modules of the mesh.
    Mesh,
}

impl Scope {
    pub(super) fn includes(&self, origin: &Origin) -> bool {
        let related = match (&self.family, origin) {
            (Family::Bundle(ours), Origin::Bundle(name)) => ours == name,
            (Family::Mesh, Origin::Mesh(_)) => true,
            _ => false,
        };
        related
            && !self.waiting.contains(origin)
            && self.only.as_ref().is_none_or(|only| only.contains(origin))
    }
}

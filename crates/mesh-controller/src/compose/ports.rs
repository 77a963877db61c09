//! Ports: kept ones stay, fixed ones are checked, new ones come out of a pool outside the node's own range.

use super::reason::Reason;
use super::snapshot::{Node, Snapshot};
use mesh_model::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Where new ports come from: above the well-known services, below the range that kernels give to outgoing connections.
pub const POOL: RangeInclusive<u16> = 20_000..=29_999;

/// What is known of the ports of one node while it is composed.
pub(super) struct Ports<'s> {
    node: &'s str,
    of: &'s Node,
    /// Who has a port, by number and protocol: its module and the name there.
    taken: BTreeMap<(u16, String), (String, String)>,
    /// Ports that resources hold, and that the store gives to nobody.
    held: BTreeMap<u16, String>,
    kept: BTreeMap<(&'s str, &'s str), &'s super::snapshot::Port>,
}

/// A port of a module, and why it is this one.
pub(super) struct Placed {
    pub(super) port: u16,
    pub(super) protocol: String,
    pub(super) why: Reason,
}

impl<'s> Ports<'s> {
    pub(super) fn of(snapshot: &'s Snapshot, node: &'s str, of: &'s Node) -> Ports<'s> {
        let mut taken = BTreeMap::new();
        let mut kept = BTreeMap::new();
        let mut known = BTreeSet::new();
        let own = snapshot.ports.range((node.to_owned(), String::new(), String::new())..);
        for ((_, module, name), port) in own.take_while(|((at, ..), _)| at == node) {
            taken.insert((port.port, port.protocol.clone()), (module.clone(), name.clone()));
            kept.insert((module.as_str(), name.as_str()), port);
            known.insert(port.port);
        }
        let held = of.held.iter().filter(|held| !known.contains(&held.port));
        let held = held.map(|held| (held.port, held.id.clone())).collect();
        Ports { node, of, taken, held, kept }
    }

    /// The ports that a module wants by number, before anybody takes one out of the pool.
    pub(super) fn claim_fixed(&mut self, module: &str, manifest: &Manifest, problems: &mut Vec<String>) {
        for (name, port) in &manifest.ports {
            let Some(fixed) = port.fixed else { continue };
            let key = (fixed, port.protocol.to_string());
            match self.taken.get(&key) {
                Some((other, theirs)) if (other.as_str(), theirs.as_str()) != (module, name.as_str()) => {
                    problems.push(format!(
                        "its port {name} is {fixed}/{}, which {other} has on {} as {theirs}",
                        key.1, self.node
                    ));
                }
                _ => {
                    if let Some(id) = self.held.get(&fixed).filter(|id| !is_of(id, module)) {
                        problems.push(format!(
                            "its port {name} is {fixed}, which {id} holds on {}, as the machine reports",
                            self.node
                        ));
                    }
                    self.taken.insert(key, (module.to_owned(), name.clone()));
                }
            }
        }
    }

    /// The ports of a module, by name.
    pub(super) fn place(
        &mut self,
        module: &str,
        manifest: &Manifest,
        problems: &mut Vec<String>,
        notes: &mut Vec<String>,
    ) -> BTreeMap<String, Placed> {
        let mut placed = BTreeMap::new();
        for (name, wanted) in &manifest.ports {
            let protocol = wanted.protocol.to_string();
            let kept = self.kept.get(&(module, name.as_str())).filter(|kept| kept.protocol == protocol);
            let found = match (wanted.fixed, kept) {
                (Some(fixed), Some(kept)) if kept.port == fixed => {
                    Some((fixed, Reason::PortKept(kept.since)))
                }
                (Some(fixed), _) => Some((fixed, Reason::PortFixed)),
                (None, Some(kept)) => {
                    if self.is_ephemeral(kept.port) {
                        let (first, last) = self.of.ephemeral.unwrap_or_default();
                        notes.push(format!(
                            "the port {name} of {module}, {}, lies in the range {first} to {last} that the machine gives to \
                             outgoing connections: narrow net.ipv4.ip_local_port_range there",
                            kept.port
                        ));
                    }
                    Some((kept.port, Reason::PortKept(kept.since)))
                }
                (None, None) => self.free(&protocol).map(|port| (port, Reason::PortNew)),
            };
            match found {
                Some((port, why)) => {
                    self.taken.insert((port, protocol.clone()), (module.to_owned(), name.clone()));
                    placed.insert(name.clone(), Placed { port, protocol, why });
                }
                None => problems.push(format!(
                    "no port is free for {name} on {}: all of {} to {} are taken, held, or given to outgoing connections",
                    self.node,
                    POOL.start(),
                    POOL.end()
                )),
            }
        }
        placed
    }

    fn is_ephemeral(&self, port: u16) -> bool {
        self.of.ephemeral.is_some_and(|(first, last)| (first..=last).contains(&port))
    }

    fn free(&self, protocol: &str) -> Option<u16> {
        POOL.into_iter().find(|port| {
            !self.is_ephemeral(*port)
                && !self.held.contains_key(port)
                && !self.taken.contains_key(&(*port, protocol.to_owned()))
        })
    }
}

/// Whether a resource's id is below the module.
fn is_of(id: &str, module: &str) -> bool {
    id.split_once('.').is_some_and(|(token, _)| token == mesh_model::name::encode(module))
}

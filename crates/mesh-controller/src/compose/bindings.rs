//! Who provides what to whom: each `requires` entry has one provider, kept from its first assignment on.

use super::module::Prepared;
use super::snapshot::{Bound, Holder, Moment, Snapshot};
use mesh_model::assignment::Consumer;
use std::collections::{BTreeMap, BTreeSet};

/// A consumer's entry: its node, its module, the name of the entry.
pub type Entry = (String, String, String);

/// All bindings of the mesh.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// The provider of each entry, and since when it is bound; `None` if that is new.
    pub(super) bound: BTreeMap<Entry, (Bound, Option<Moment>)>,
    /// What is bound to each provider, in the order of the entries.
    consumers: BTreeMap<Holder, Vec<Entry>>,
    /// What is wrong, by node and module.
    pub(super) problems: BTreeMap<(String, String), Vec<String>>,
}

/// Who provides each provision.
fn providers(snapshot: &Snapshot) -> BTreeMap<&str, Vec<Holder>> {
    let mut providers: BTreeMap<&str, Vec<Holder>> = BTreeMap::new();
    for (node, module) in snapshot.assignments.keys() {
        let Some(Ok(manifest)) = snapshot.modules.get(module).map(|known| &known.manifest) else { continue };
        for provision in &manifest.provides {
            providers
                .entry(provision)
                .or_default()
                .push(Holder { node: node.clone(), module: module.clone() });
        }
    }
    providers
}

pub(super) fn find(snapshot: &Snapshot, prepared: &BTreeMap<&str, Prepared>) -> Bindings {
    let providers = providers(snapshot);
    let mut all = Bindings::default();
    let mut edges: BTreeMap<Holder, BTreeSet<Holder>> = BTreeMap::new();
    for (node, module) in snapshot.assignments.keys() {
        let Some(Ok(manifest)) = snapshot.modules.get(module).map(|known| &known.manifest) else { continue };
        let Some(Prepared { needs, .. }) = prepared.get(module.as_str()) else { continue };
        let waits = |name: &String| needs.iter().any(|need| need.provision.is_some() && need.name == *name);
        for (name, provision) in &manifest.requires {
            let entry = (node.clone(), module.clone(), name.clone());
            let there = providers.get(provision.as_str()).map_or(&[][..], Vec::as_slice);
            let kept = snapshot.bindings.get(&entry).filter(|kept| kept.value.provision == *provision);
            let mut refuse = |what: String| {
                all.problems.entry((node.clone(), module.clone())).or_default().push(what);
            };
            let (provider, since) = match (kept, there) {
                (Some(kept), there) => {
                    let provider =
                        Holder { node: kept.value.node.clone(), module: kept.value.module.clone() };
                    if !there.contains(&provider) {
                        refuse(format!(
                            "it is bound to {} on {} for {name}, which does not provide {provision} any more",
                            provider.module, provider.node
                        ));
                        continue;
                    }
                    (provider, Some(kept.since))
                }
                (None, [only]) => (only.clone(), None),
                (None, []) => {
                    let could: Vec<&str> = snapshot
                        .modules
                        .iter()
                        .filter(|(_, known)| {
                            known
                                .manifest
                                .as_ref()
                                .is_ok_and(|manifest| manifest.provides.contains(provision))
                        })
                        .map(|(name, _)| name.as_str())
                        .collect();
                    let advice = if could.is_empty() {
                        format!("add a module that provides {provision}")
                    } else {
                        format!("assign {} to a node", could.join(" or "))
                    };
                    refuse(format!("its {name} requires {provision}, which nobody provides: {advice}"));
                    continue;
                }
                (None, several) => {
                    let several: Vec<String> = several
                        .iter()
                        .map(|holder| format!("{} on {}", holder.module, holder.node))
                        .collect();
                    refuse(format!(
                        "its {name} requires {provision}, which several provide: {}: leave one of them assigned",
                        several.join(", ")
                    ));
                    continue;
                }
            };
            if waits(name) {
                let from = Holder { node: node.clone(), module: module.clone() };
                edges.entry(from).or_default().insert(provider.clone());
            }
            all.consumers.entry(provider.clone()).or_default().push(entry.clone());
            let bound = Bound { provision: provision.clone(), node: provider.node, module: provider.module };
            all.bound.insert(entry, (bound, since));
        }
    }
    for start in edges.keys() {
        if let Some(path) = circle(&edges, start) {
            let told: Vec<String> =
                path.iter().map(|holder| format!("{} on {}", holder.module, holder.node)).collect();
            let what = format!("it waits for itself: {}", told.join(" → "));
            all.problems.entry((start.node.clone(), start.module.clone())).or_default().push(what);
        }
    }
    all
}

/// A way from `start` back to it.
fn circle(edges: &BTreeMap<Holder, BTreeSet<Holder>>, start: &Holder) -> Option<Vec<Holder>> {
    let mut came_from: BTreeMap<&Holder, &Holder> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        for next in edges.get(at).into_iter().flatten() {
            if next == start {
                let mut path = vec![start.clone(), at.clone()];
                let mut back = at;
                while back != start {
                    back = came_from.get(back).copied()?;
                    path.push(back.clone());
                }
                if at == start {
                    path.pop();
                }
                path.reverse();
                return Some(path);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                open.push(next);
            }
        }
    }
    None
}

impl Bindings {
    /// Who a module of a node is bound to.
    pub(super) fn of(&self, node: &str, module: &str) -> impl Iterator<Item = &Bound> {
        let from = (node.to_owned(), module.to_owned(), String::new());
        let (node, module) = (from.0.clone(), from.1.clone());
        let own = self.bound.range(from..).take_while(move |((at, of, _), _)| *at == node && *of == module);
        own.map(|(_, (bound, _))| bound)
    }

    /// Who is bound to that provider for that provision.
    pub(super) fn consumers(&self, node: &str, module: &str, provision: &str) -> Vec<Consumer> {
        let holder = Holder { node: node.to_owned(), module: module.to_owned() };
        let entries = self.consumers.get(&holder).into_iter().flatten();
        let own = entries
            .filter(|entry| self.bound.get(*entry).is_some_and(|(bound, _)| bound.provision == provision));
        own.map(|(node, module, name)| Consumer {
            node: node.clone(),
            module: module.clone(),
            name: name.clone(),
        })
        .collect()
    }
}

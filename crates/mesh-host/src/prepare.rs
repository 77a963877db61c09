//! From what was declared to what shall be: placeholders are filled in one pass, sealed values are opened, formats are
//! checked. All of that before the first effect of a module, so that a module is applied whole or not at all.

mod fill;
pub(crate) mod unit_file;
mod values;

pub use values::{Given, Held, SecretJson, Values};

use crate::desired::{Desired, Spec};
use crate::digest::DigestKey;
use crate::engine::{Family, Scope};
use crate::machine::Contents;
use crate::record::Memory;
use crate::target::{Origin, Target};
use mesh_model::assignment::Need;
use mesh_model::resource::{Draft, Resource, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zeroize::Zeroizing;

/// One module, or a bundle, before it is filled.
pub struct Module {
    /// Who declared it.
    pub origin: Origin,
    /// What is filled.
    pub needs: Vec<Need>,
    /// Its resources.
    pub resources: Vec<Draft>,
    /// The available values.
    pub values: Values,
}

/// Why a module is not applied now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// Something is missing: what runs of it stays as it is.
    Waiting(String),
    /// It cannot be applied as it was declared.
    Refused(String),
}

/// What was made of all modules.
#[derive(Debug)]
pub struct Prepared {
    /// The resources of the modules that are ready, in order.
    pub desired: Vec<Desired>,
    /// Their contents.
    pub contents: Rc<Contents>,
    /// The modules that are not ready, and why.
    pub not_ready: BTreeMap<Origin, NotReady>,
    /// Which records belong to this declaration.
    pub scope: Scope,
}

/// One resource with everything filled in.
struct Filled {
    desired: Desired,
    content: Option<Zeroizing<Vec<u8>>>,
    /// The unit file of a process.
    unit: Option<String>,
    space: mesh_model::resource::Target,
    /// Whether a secret is in the content.
    secret: bool,
}

/// Fills all modules. `missing` are modules that are declared and cannot be had now; of those among them whose
/// assignment is available, in `unfilled`, what they declare is spoken for, so that it is not removed where it runs.
pub fn prepare(
    modules: Vec<Module>,
    unfilled: Vec<Module>,
    missing: BTreeMap<Origin, NotReady>,
    family: Family,
    memory: &Memory,
    key: &DigestKey,
) -> Prepared {
    let mut prepared = Prepared {
        desired: Vec::new(),
        contents: Rc::default(),
        not_ready: missing,
        scope: Scope { family, waiting: BTreeSet::new(), only: None, spoken_for: BTreeSet::new() },
    };
    for module in unfilled {
        prepared.scope.spoken_for.extend(match fill::module(module, key) {
            Ok(filled) => filled.iter().map(|filled| filled.desired.target()).collect(),
            Err((_, targets)) => targets,
        });
    }
    let mut ready = Vec::new();
    for module in modules {
        let origin = module.origin.clone();
        match fill::module(module, key) {
            Ok(filled) => ready.push((origin, filled)),
            Err((why, spoken_for)) => {
                prepared.not_ready.insert(origin, why);
                prepared.scope.spoken_for.extend(spoken_for);
            }
        }
    }
    let mut contents = Contents::default();
    let taken = double(&ready, memory);
    for (origin, filled) in ready {
        if let Some(why) = taken.get(&origin) {
            prepared.scope.spoken_for.extend(filled.iter().map(|filled| filled.desired.target()));
            prepared.not_ready.insert(origin, NotReady::Refused(why.clone()));
            continue;
        }
        for Filled { desired, content, unit, .. } in filled {
            if let Some(unit) = unit {
                contents.insert(unit_file::content_of(&desired.id), Zeroizing::new(unit.into_bytes()));
            }
            if let Some(content) = content {
                contents.insert(desired.id.clone(), content);
            }
            prepared.desired.push(desired);
        }
    }
    prepared.contents = Rc::new(contents);
    prepared.scope.waiting = prepared.not_ready.keys().cloned().collect();
    prepared
}

/// Of two modules with one target, the one that has the record keeps it, else the first; the other is refused.
fn double(ready: &[(Origin, Vec<Filled>)], memory: &Memory) -> BTreeMap<Origin, String> {
    let mut owners: BTreeMap<(Space, &str), (&Origin, &Target)> = BTreeMap::new();
    let mut refused = BTreeMap::new();
    let targets: BTreeMap<&str, Target> = ready
        .iter()
        .flat_map(|(_, filled)| filled)
        .map(|filled| (filled.desired.id.as_str(), filled.desired.target()))
        .collect();
    for (origin, filled) in ready {
        for Filled { desired, space, .. } in filled.iter().filter(|filled| !filled.space.shared) {
            let target = &targets[desired.id.as_str()];
            let place = (space.space, space.name.as_str());
            let Some((first, _)) = owners.get(&place).copied().filter(|(first, _)| *first != origin) else {
                owners.entry(place).or_insert((origin, target));
                continue;
            };
            let recorded = memory.records.get(target).is_some_and(|record| record.origin == *origin);
            let (keeps, loses) = if recorded { (origin, first) } else { (first, origin) };
            let why = format!("{} of {} has the target {target} too", keeps.name(), desired.id);
            refused.insert(loses.clone(), why);
            if recorded {
                owners.insert(place, (origin, target));
            }
        }
    }
    refused
}

/// The target of a resource that is not filled yet, as far as its path and name need no value from outside.
fn target_of(id: &str, origin: &Origin, resource: Resource) -> Target {
    let digest = crate::digest::Digest::plain(b"");
    let spec: Spec = fill::spec(resource.what, digest, None);
    Desired { id: id.to_owned(), origin: origin.clone(), spec }.target()
}

//! Images are fetched before the lock is taken, since that may take long. A module whose image cannot be fetched waits, and
//! keeps what it has.

use super::{Input, Ready, ready};
use crate::desired::{Desired, Spec};
use crate::facts::Answer;
use crate::managers::Runtimes;
use crate::prepare::NotReady;
use crate::record::{Memory, Written};
use crate::site::Site;
use crate::target::Origin;
use mesh_model::resource::{Kind, What};
use std::collections::{BTreeMap, BTreeSet};

/// Fetches what is missing. Returns the images that cannot be had, and why.
pub(super) fn fetch(site: &Site, input: &Input) -> BTreeMap<String, String> {
    let mut missing = BTreeMap::new();
    if !site.is_machine() || !mentions_containers(input) {
        return missing;
    }
    // Whatever is wrong here is told by the apply itself.
    let Ok(memory) = super::memory(site) else { return missing };
    let Ok(key) = site.digest_key() else { return missing };
    let Ok(found) = ready(site, input.clone(), &memory, &key) else { return missing };
    let wanted: BTreeSet<&str> =
        found.prepared.desired.iter().filter_map(|desired| new_image(desired, &memory)).collect();
    let mut runtimes = Runtimes::new(&site.run());
    for image in wanted {
        let Ok(runtime) = runtimes.runtime() else { return missing };
        if runtime.image(image) != Answer::Absent {
            continue;
        }
        log::info!("the image {image} is fetched");
        if let Err(failure) = runtime.pull(image) {
            missing.insert(image.to_owned(), failure.text().to_owned());
        }
    }
    missing
}

fn mentions_containers(input: &Input) -> bool {
    match input {
        Input::Bundle(bundle) => bundle.resources.iter().any(|draft| draft.kind() == Kind::Container),
        Input::Mesh(apply) => apply.assignments.values().any(|bytes| {
            let word = Kind::Container.as_str().as_bytes();
            bytes.windows(word.len()).any(|found| found == word)
        }),
    }
}

/// The image of a declared container, unless it was made from that image before.
fn new_image<'d>(desired: &'d Desired, memory: &Memory) -> Option<&'d str> {
    let image = image(desired)?;
    let recorded = memory.records.get(&desired.target()).map(|record| &record.written);
    let known = matches!(recorded, Some(Written::Container(record)) if record.image == image);
    if known { None } else { Some(image) }
}

fn image(desired: &Desired) -> Option<&str> {
    match &desired.spec {
        Spec::Managed(managed) => match &managed.what {
            What::Container(container) => Some(container.image.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// Lets the modules wait whose images cannot be had.
pub(super) fn hold_back(ready: &mut Ready, missing: &BTreeMap<String, String>) {
    let waits = |desired: &Desired| {
        let image = image(desired)?;
        let why = missing.get(image)?;
        Some((desired.origin.clone(), format!("the image {image} is not here: {why}")))
    };
    let waiting: BTreeMap<Origin, String> = ready.prepared.desired.iter().filter_map(waits).collect();
    let (held, rest) = std::mem::take(&mut ready.prepared.desired)
        .into_iter()
        .partition(|desired: &Desired| waiting.contains_key(&desired.origin));
    ready.prepared.desired = rest;
    let held: Vec<Desired> = held;
    ready.prepared.scope.spoken_for.extend(held.iter().map(Desired::target));
    for (origin, why) in waiting {
        let why = NotReady::Waiting(why);
        ready.gathering.not_ready(origin.name(), &why);
        ready.prepared.scope.waiting.insert(origin.clone());
        ready.prepared.not_ready.insert(origin, why);
    }
}

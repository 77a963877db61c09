//! A placement as some node might have it: with it, resources can be read before any node runs the module.

use super::{MACHINE_FACTS, Manifest, dir_path};
use crate::assignment::Placement;

/// Where the samples of unfixed ports begin.
const FIRST_PORT: u16 = 20_000;

pub(super) fn placement(manifest: &Manifest) -> Placement {
    let seats = [&manifest.seats.holds, &manifest.seats.asks, &manifest.seats.replicated];
    let ports = manifest.ports.iter().zip(FIRST_PORT..);
    let fact = |name: &str| match name {
        "address" => "192.0.2.7",
        "arch" => "x86_64",
        "zone" => "zone",
        _ => "node",
    };
    Placement {
        dir: manifest.dirs.keys().map(|name| (name.clone(), dir_path(&manifest.module, name))).collect(),
        access: manifest.accesses.keys().map(|name| (name.clone(), access_path(name))).collect(),
        port: ports.map(|((name, port), free)| (name.clone(), port.fixed.unwrap_or(free))).collect(),
        seat: seats.into_iter().flatten().map(|name| (name.clone(), "192.0.2.1".to_owned())).collect(),
        machine: MACHINE_FACTS.iter().map(|name| ((*name).to_owned(), fact(name).to_owned())).collect(),
    }
}

/// A path that no author would write by chance.
pub(super) fn access_path(name: &str) -> String {
    format!("/access-of-the-operator/{name}")
}

//! Everything that the store knows, as the values that the composition takes.

use crate::compose::snapshot::{Bound, Holder, Keys, Module, Node, Port, Set, Snapshot};
use crate::store::{Error, identity, inventory, nodes};
use mesh_model::json::{Json, Read};
use mesh_model::manifest::Manifest;
use mesh_model::report::Report;
use rusqlite::Connection;

/// Reads the store. Each connection sees one moment; a change of either is made in a transaction.
pub fn read(inventory: &Connection, identity: &Connection) -> Result<Snapshot, Error> {
    let mesh = identity::expect_mesh(identity)?;
    let mut snapshot =
        Snapshot { mesh: mesh.id, vault: mesh.vault, recovery: mesh.recovery, ..Snapshot::default() };
    read_nodes(inventory, identity, &mut snapshot)?;
    for module in inventory::modules(inventory)? {
        let manifest = Manifest::from_json_bytes(&module.manifest).map_err(|problem| problem.to_string());
        snapshot.modules.insert(module.name, Module { manifest, act: module.act });
    }
    for layer in inventory::layers(inventory)? {
        let value = Json::parse_bytes(&layer.value)
            .map_err(|problem| Error::Broken(format!("stored settings of {}: {problem}", layer.module)))?;
        let set = Set { value, since: layer.since, act: layer.act };
        snapshot.layers.insert((layer.module, layer.node), set);
    }
    for one in inventory::assignments(inventory)? {
        let set = Set { value: (), since: one.since, act: one.act };
        snapshot.assignments.insert((one.node, one.module), set);
    }
    for kept in inventory::ports(inventory)? {
        let port = Port { port: kept.port, protocol: kept.protocol, since: kept.since };
        snapshot.ports.insert((kept.node, kept.module, kept.name), port);
    }
    for one in inventory::bindings(inventory)? {
        let bound = Bound { provision: one.provision, node: one.provider_node, module: one.provider_module };
        let set = Set { value: bound, since: one.since, act: one.act };
        snapshot.bindings.insert((one.node, one.module, one.name), set);
    }
    for seat in inventory::seats(inventory)? {
        let holder = Holder { node: seat.node, module: seat.module };
        snapshot.seats.insert(seat.seat, Set { value: holder, since: seat.since, act: seat.act });
    }
    for data in inventory::data(inventory)? {
        snapshot.data.insert((data.node, data.module), data.keeps);
    }
    Ok(snapshot)
}

fn read_nodes(inventory: &Connection, identity: &Connection, snapshot: &mut Snapshot) -> Result<(), Error> {
    for node in nodes::all(inventory)? {
        let declared = inventory::declared(inventory, &node.name)?.map(|declared| declared.act);
        let known = Node {
            adopted: node.adopted,
            address: node.address,
            zone: node.zone,
            act: node.act,
            declared,
            ..Node::default()
        };
        snapshot.nodes.insert(node.name, known);
    }
    for access in nodes::accesses(inventory)? {
        if let Some(node) = snapshot.nodes.get_mut(&access.node) {
            node.accesses.insert(access.name, (access.path, access.act));
        }
    }
    for keys in identity::node_keys(identity)? {
        if let Some(node) = snapshot.nodes.get_mut(&keys.node) {
            node.keys = Some(Keys {
                epoch: keys.epoch,
                bus: keys.bus,
                sealing: keys.sealing,
                joined: keys.joined,
                address: keys.address,
                arch: keys.arch,
            });
        }
    }
    for (name, heard) in nodes::reports(inventory)? {
        // A report that cannot be read takes nothing away; `status` says that it cannot.
        if let (Some(node), Ok(report)) = (snapshot.nodes.get_mut(&name), Report::parse(&heard.body)) {
            node.ephemeral = report.facts.ephemeral;
            node.held = report.facts.ports_held;
        }
    }
    Ok(())
}

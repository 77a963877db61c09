//! The signed record of each node, kept in line with what the store knows.

use crate::identity::Signer;
use crate::store::{Error, Moment, Store, acts::Act, identity, nodes, sent};
use mesh_model::name;
use mesh_model::node_record::{NodeRecord, Recovery};
use mesh_model::signed::{Envelope, PayloadType};
use std::collections::BTreeMap;

/// The record of a node that has joined.
pub fn of(mesh: &identity::Mesh, node: &nodes::Node, keys: &identity::NodeKeys) -> NodeRecord {
    NodeRecord {
        mesh: mesh.id.clone(),
        node: node.name.clone(),
        epoch: keys.epoch,
        bus: keys.bus.clone(),
        sealing: keys.sealing.clone(),
        recovery: mesh.recovery.clone().unwrap_or(Recovery::None),
        address: node.address.clone().or_else(|| keys.address.clone()),
        zone: node.zone.clone(),
        arch: keys.arch.clone(),
    }
}

/// Writes down the records of nodes whose keys are not those that were sent, as intended under that fence; how many those
/// are. What an operator changed of a node waits for a push, and so does a node that is gone. There is no record before it is
/// decided who can open second copies: the vault would take its silence for the operator's word that there are none.
pub fn refresh(store: &mut Store, signer: &Signer, fence: u64, at: Moment) -> Result<usize, Error> {
    let mesh = identity::expect_mesh(store.identity())?;
    if mesh.recovery.is_none() {
        return Ok(0);
    }
    let all: BTreeMap<String, nodes::Node> =
        nodes::all(store.inventory())?.into_iter().map(|node| (node.name.clone(), node)).collect();
    let mut sent: BTreeMap<String, sent::Sent> =
        sent::records(store.inventory())?.into_iter().map(|sent| (sent.key.clone(), sent)).collect();
    let mut intended = Vec::new();
    for keys in identity::node_keys(store.identity())? {
        let Some(node) = all.get(&keys.node) else { continue };
        let key = name::encode(&node.name);
        let record = of(&mesh, node, &keys);
        let before = sent.remove(&key);
        if !before.as_ref().is_some_and(|before| has_keys(before, &mesh, &record)) {
            let envelope = signer.sign(PayloadType::Node, &record)?;
            intended.push(row(&node.name, key, Some(envelope.to_bytes()), before.as_ref(), fence));
        }
    }
    if intended.is_empty() {
        return Ok(0);
    }
    let what: Vec<&str> = intended.iter().map(|row| row.node.as_str()).collect();
    let what = what.join(" ");
    let act = Act { at, who: "mesh-controller serve", command: "record", what: &what, why: None };
    let change = store.change_inventory(&act)?;
    for row in &intended {
        sent::intend(&change, row)?;
    }
    change.commit()?;
    Ok(intended.len())
}

fn has_keys(sent: &sent::Sent, mesh: &identity::Mesh, record: &NodeRecord) -> bool {
    let envelope = sent.value.as_deref().and_then(|value| Envelope::parse(value).ok());
    let sent: Option<NodeRecord> =
        envelope.and_then(|envelope| envelope.open(PayloadType::Node, &mesh.key).ok());
    sent.is_some_and(|sent| {
        (sent.epoch, &sent.bus, &sent.sealing) == (record.epoch, &record.bus, &record.sealing)
    })
}

fn row(
    node: &str,
    key: String,
    value: Option<Vec<u8>>,
    before: Option<&sent::Sent>,
    fence: u64,
) -> sent::Sent {
    sent::Sent {
        bucket: sent::Bucket::Nodes,
        key,
        node: node.to_owned(),
        module: String::new(),
        value,
        sequence: before.map_or(0, |before| before.sequence),
        fence,
        done: false,
        revision: before.map_or(0, |before| before.revision),
        at: 0,
    }
}

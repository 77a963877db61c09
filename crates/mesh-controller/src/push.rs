//! Sending: what differs is written down as intended, then written on the bus in order, then written down as done.
//!
//! Between any two steps the program may end: the next holder of the lease finishes what was intended.

pub mod write;

use crate::identity::Signer;
use crate::plan::{NodeChange, Plan};
use crate::store::sent::{self, Bucket, Sent};
use crate::store::{Change, Error, inventory};
use mesh_model::declaration::Declaration;
use mesh_model::name;
use mesh_model::node_record::NodeRecord;
use mesh_model::signed::PayloadType;
use std::collections::BTreeMap;

/// The highest numbers that are known from the bus: of declarations and reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Highest {
    /// The highest sequence of each node.
    pub sequences: BTreeMap<String, u64>,
    /// The highest fence of all.
    pub fence: u64,
}

/// Numbers beyond this are not numbers of ours: a node that reports one would raise all others without end.
const MOST: u64 = 1 << 53;

impl Highest {
    /// Takes in what a declaration or a report says.
    pub fn saw(&mut self, node: &str, sequence: u64, fence: u64) {
        if sequence <= MOST {
            let highest = self.sequences.entry(node.to_owned()).or_default();
            *highest = sequence.max(*highest);
        }
        if fence <= MOST {
            self.fence = self.fence.max(fence);
        }
    }

    fn sequence(&self, node: &str) -> u64 {
        self.sequences.get(node).copied().unwrap_or(0)
    }
}

/// What signing and numbering needs beside the plan.
pub struct Sending<'s> {
    /// The mesh's id.
    pub mesh: &'s str,
    /// The mesh's key.
    pub signer: &'s Signer,
    /// The fence of the lease.
    pub fence: u64,
    /// What is known from the bus.
    pub highest: &'s Highest,
    /// The time, as RFC 3339.
    pub at: &'s str,
}

/// Writes down, for every node that nothing hinders, what is to be sent. Gives the names of those nodes.
pub fn intend(change: &Change<'_>, plan: &Plan, sending: &Sending<'_>) -> Result<Vec<String>, Error> {
    let mut nodes = Vec::new();
    for (node, of_node) in &plan.nodes {
        if of_node.differs() && of_node.problems.is_empty() {
            intend_node(change, node, of_node, sending)?;
            nodes.push(node.clone());
        }
    }
    Ok(nodes)
}

fn intend_node(
    change: &Change<'_>,
    node: &str,
    of_node: &NodeChange,
    sending: &Sending<'_>,
) -> Result<(), Error> {
    let known = sent::highest_sequence(change, node)?.max(sending.highest.sequence(node));
    let sequence = if of_node.declaration.is_some() { known + 1 } else { known };
    let row = |bucket: Bucket, key: String, module: &str, value: Option<Vec<u8>>| Sent {
        bucket,
        key,
        node: node.to_owned(),
        module: module.to_owned(),
        value,
        sequence,
        fence: sending.fence,
        done: false,
        revision: 0,
        at: change.at,
    };
    let key = name::encode(node);
    if let Some(record) = &of_node.record {
        sent::intend(
            change,
            &row(Bucket::Nodes, key.clone(), "", Some(sign_record(sending.signer, record)?)),
        )?;
    }
    for value in &of_node.values {
        sent::intend(change, &row(value.bucket, value.key.clone(), &value.module, value.bytes.clone()))?;
    }
    if let Some(declared) = &of_node.declaration {
        let declaration = Declaration {
            mesh: sending.mesh.to_owned(),
            node: node.to_owned(),
            sequence,
            fence: sending.fence,
            at: sending.at.to_owned(),
            vault: declared.vault.clone(),
            modules: declared.parts.clone(),
            adoption: declared.adoption.clone(),
        };
        let signed = sending.signer.sign(PayloadType::Declaration, &declaration)?.to_bytes();
        sent::intend(change, &row(Bucket::Declarations, key, "", Some(signed)))?;
        inventory::set_declared(change, node, None)?;
    }
    Ok(())
}

/// A node's record as it lies in the bucket.
pub fn sign_record(signer: &Signer, record: &NodeRecord) -> Result<Vec<u8>, Error> {
    Ok(signer.sign(PayloadType::Node, record)?.to_bytes())
}

#[cfg(test)]
mod tests;

//! A small controller: signs declarations, node records and requests, and has the hosts' keys to open what is sealed.

use mesh_model::assignment::Consumer;
use mesh_model::digest::Digest;
use mesh_model::keys::{MeshKey, SealingKey};
use mesh_model::sealed::{Label, NotOpened, Sealed};
use mesh_model::secret::Secret;
use mesh_model::signed::{Envelope, PayloadType};
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The controller of a mesh.
pub(crate) struct Controller {
    pub(crate) pair: KeyPair,
    pub(crate) id: String,
    /// The key of the vault that declarations name.
    pub(crate) vault: SealingKey,
    pub(crate) recovery: XKey,
    pub(crate) nodes: BTreeMap<String, Node>,
}

/// What it knows of a node.
pub(crate) struct Node {
    pub(crate) host: XKey,
    pub(crate) bus: String,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) recovery: bool,
    pub(crate) modules: BTreeMap<String, Vec<u8>>,
}

impl Controller {
    pub(crate) fn new(vault: SealingKey) -> Controller {
        Controller {
            pair: KeyPair::new_operator(),
            id: "mesh-of-the-tests".to_owned(),
            vault,
            recovery: XKey::new(),
            nodes: BTreeMap::new(),
        }
    }

    pub(crate) fn key(&self) -> MeshKey {
        self.pair.public_key().parse().expect("a public key")
    }

    /// A new node, or the same with new keys.
    pub(crate) fn join(&mut self, node: &str) {
        let epoch = self.nodes.get(node).map_or(0, |node| node.epoch) + 1;
        let (sequence, modules) =
            self.nodes.remove(node).map_or((0, BTreeMap::new()), |node| (node.sequence, node.modules));
        let (host, bus) = (XKey::new(), KeyPair::new_user().public_key());
        self.nodes.insert(node.to_owned(), Node { host, bus, epoch, sequence, recovery: true, modules });
    }

    /// The value at the node's key of the bucket of records.
    pub(crate) fn record(&self, name: &str) -> Vec<u8> {
        let node = &self.nodes[name];
        let recovery = if node.recovery { self.recovery.public_key() } else { "none".to_owned() };
        let record = json!({
            "mesh": self.id, "node": name, "epoch": node.epoch, "bus": node.bus, "sealing": node.host.public_key(),
            "recovery": recovery, "address": null, "zone": null, "arch": null,
        });
        self.sign(PayloadType::Node, &record)
    }

    /// Gives the module these needs; returns the assignment, the value at `<node>.<module>`.
    pub(crate) fn assign(&mut self, node: &str, module: &str, needs: &Value) -> Vec<u8> {
        let assignment = json!({
            "module": module, "version": "1.0.0", "needs": needs, "contributes": [],
            "placement": {"dir": {}, "access": {}, "port": {}, "seat": {}, "machine": {}}, "resources": [],
        });
        let bytes = assignment.to_string().into_bytes();
        self.nodes.get_mut(node).expect("a node").modules.insert(module.to_owned(), bytes.clone());
        bytes
    }

    pub(crate) fn unassign(&mut self, node: &str, module: &str) {
        self.nodes.get_mut(node).expect("a node").modules.remove(module);
    }

    /// The next declaration of a node, of what is assigned to it.
    pub(crate) fn declare(&mut self, name: &str) -> Vec<u8> {
        let node = self.nodes.get_mut(name).expect("a node");
        node.sequence += 1;
        let sequence = node.sequence;
        self.declaration(name, sequence)
    }

    /// A declaration with that sequence.
    pub(crate) fn declaration(&self, name: &str, sequence: u64) -> Vec<u8> {
        let part = |(module, bytes): (&String, &Vec<u8>)| json!({"module": module, "assignment": Digest::of(bytes), "settings": Digest::of(b"{}")});
        let modules: Vec<Value> = self.nodes[name].modules.iter().map(part).collect();
        let declaration = json!({
            "mesh": self.id, "node": name, "sequence": sequence, "fence": 1, "at": "2026-12-01T00:00:00Z",
            "vault": self.vault, "modules": modules, "adoption": null,
        });
        self.sign(PayloadType::Declaration, &declaration)
    }

    pub(crate) fn sign(&self, of: PayloadType, document: &Value) -> Vec<u8> {
        let payload = document.to_string().into_bytes();
        Envelope::sign(of, payload, &self.pair).expect("a signature").to_bytes()
    }

    /// A signed request of these fields.
    pub(crate) fn request(&self, verb: &str, id: &str, at: &str, fields: &Value) -> Vec<u8> {
        let mut request = json!({"mesh": self.id, "verb": verb, "id": id, "at": at});
        for (name, value) in fields.as_object().expect("fields") {
            request[name] = value.clone();
        }
        self.sign(PayloadType::VaultRequest, &request)
    }

    /// A value sealed to the vault with a key that is thrown away.
    pub(crate) fn value(&self, node: &str, module: &str, name: &str, value: &[u8]) -> Sealed {
        let label = self.label(node, module, name);
        let nonce = [9; 24];
        Sealed::seal(&label, 0, &Secret::copy(value), &XKey::new(), &self.vault, nonce)
            .expect("a sealed value")
    }

    /// What the copy of a secret says that it is.
    pub(crate) fn label(&self, node: &str, module: &str, name: &str) -> Label {
        Label {
            mesh: self.id.clone(),
            node: node.to_owned(),
            module: module.to_owned(),
            kind: "secret".to_owned(),
            name: name.to_owned(),
            of: None,
        }
    }

    /// What the provider's copy of a consumer's credential says that it is.
    pub(crate) fn consumer_label(&self, node: &str, module: &str, provision: &str, of: &Consumer) -> Label {
        Label { kind: "consumers".to_owned(), of: Some(of.clone()), ..self.label(node, module, provision) }
    }

    /// Opens what is sealed to a node's host.
    pub(crate) fn open(
        &self,
        node: &str,
        sealed: &Sealed,
        label: &Label,
    ) -> Result<(u64, Vec<u8>), NotOpened> {
        let opened = sealed.open(&self.nodes[node].host, &self.vault, label)?;
        Ok((opened.revision, opened.value.expose().to_vec()))
    }

    /// Opens a second copy.
    pub(crate) fn recover(&self, sealed: &Sealed, label: &Label) -> Result<(u64, Vec<u8>), NotOpened> {
        let opened = sealed.open(&self.recovery, &self.vault, label)?;
        Ok((opened.revision, opened.value.expose().to_vec()))
    }
}

/// The need of a secret that the vault makes.
pub(crate) fn made(name: &str, alphabet: &str) -> Value {
    json!({"kind": "secret", "name": name, "make": {"bytes": 32, "as": alphabet}})
}

/// The need of a secret that a person gives.
pub(crate) fn accepted(name: &str) -> Value {
    json!({"kind": "secret", "name": name, "accept": true})
}

/// The need of a credential.
pub(crate) fn bound(name: &str, provision: &str, node: &str, module: &str) -> Value {
    json!({"kind": "secret", "name": name, "provision": provision, "provider": {"node": node, "module": module}})
}

/// The need of a provider's consumers.
pub(crate) fn consumers(provision: &str, of: &[(&str, &str, &str)]) -> Value {
    let of: Vec<Value> =
        of.iter().map(|(node, module, name)| json!({"node": node, "module": module, "name": name})).collect();
    json!({"kind": "consumers", "name": provision, "of": of})
}

//! What is looked at from outside: whether everything is as it should be, and how the client stands.

use std::collections::BTreeMap;

use mesh_model::digest::Digest;
use mesh_model::host_api::Given;
use mesh_runtime::Machine as _;
use serde_json::Value;

use super::{APPLIED, NEEDS, World};

impl World {
    /// What the client's status file would say.
    pub fn status(&self) -> Value {
        let (client, began) = self.client.as_ref().unwrap();
        serde_json::to_value(client.status(self.now.saturating_sub(*began))).unwrap()
    }

    /// How much the client remembers in memory, as text, in bytes.
    pub fn memory(&self) -> usize {
        format!("{:?}", self.client.as_ref().unwrap().0).len()
    }

    /// Nothing is left in a bucket, and nobody is told: as after a purge, or with a server that lost its disk.
    pub fn empty(&mut self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let keys = std::mem::take(&mut self.buckets.get_mut(bucket).unwrap().keys);
        keys.into_iter().filter_map(|(key, (value, _))| Some((key, value?))).collect()
    }

    /// There is no such bucket.
    pub fn remove_bucket(&mut self, bucket: &str) {
        self.buckets.remove(bucket).unwrap();
    }

    /// The client forgets everything that it kept on the disk.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    /// What is wrong with how everything stands, now that everything should be current.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, (assignment, settings)) in &self.modules {
            let digest = |value: &Value| Digest::of(value.to_string().as_bytes()).to_string();
            let (assignment_digest, settings_digest) = (digest(assignment), digest(settings));
            let Some(content) = self.machine.get(name) else {
                wrong.push(format!("{name} is not on the machine"));
                continue;
            };
            if content.assignment != assignment_digest || content.settings != settings_digest {
                wrong.push(format!("{name} is an old one"));
            }
            let values = &self.copy[name];
            for (key, revision) in revisions(values) {
                let newest = self.secrets[&(name.clone(), key.clone())];
                if revision != newest {
                    wrong.push(format!("{name} {key} has revision {revision}, the newest is {newest}"));
                }
            }
            let applied = self.get(APPLIED, &self.key_of(name)).unwrap_or_default();
            if applied["assignment"] != assignment_digest.as_str()
                || applied["settings"] != settings_digest.as_str()
            {
                wrong.push(format!("{name} is not said to be applied: {applied}"));
            }
            for need in assignment["needs"].as_array().unwrap() {
                let text = |field: &str| mesh_model::name::encode(need[field].as_str().unwrap());
                let key = format!("{}.{name}.{}.{}", self.name, text("kind"), text("name"));
                let value = self.get(NEEDS, &key).unwrap_or_default();
                if value["state"] != "filled" {
                    wrong.push(format!("{key}: {value}"));
                }
            }
        }
        for bucket in [NEEDS, APPLIED] {
            for key in self.keys(bucket) {
                if !self.modules.contains_key(key.split('.').nth(1).unwrap()) {
                    wrong.push(format!("{bucket} {key} is of no module"));
                }
            }
        }
        wrong
    }
}

/// The revisions of the secrets in some values, by their names.
pub(super) fn revisions(values: &BTreeMap<String, Given>) -> Vec<(String, u64)> {
    let secrets = values.iter().filter_map(|(key, given)| {
        let name = key.strip_prefix("secret:")?;
        let Given::Sealed(sealed) = given else { return None };
        let text = serde_json::to_value(&sealed[0]).unwrap();
        let body = text.as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let bytes = data_encoding::BASE64.decode(body.as_bytes()).unwrap();
        // `xkv1` and the nonce.
        Some((name.to_owned(), u64::from_be_bytes(bytes[4..12].try_into().unwrap())))
    });
    secrets.collect()
}

pub(super) fn shown(values: &BTreeMap<String, Given>) -> String {
    serde_json::to_string(values).unwrap()
}

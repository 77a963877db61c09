//! The available values for one module, by `kind:name`.

use mesh_model::json::Json;
use mesh_model::placeholder::Value;
use mesh_model::secret::{Credential, Secret};
use std::collections::BTreeMap;
use zeroize::Zeroize as _;

/// One value.
pub enum Held {
    /// Bytes that nobody else may see.
    Secret(Secret),
    /// What a consumer reaches its provider with; a dotted path takes a member.
    Credential(Credential),
    /// JSON that nobody else may see.
    SecretJson(SecretJson),
    /// JSON, or a text; a dotted path takes a member.
    Plain(Json),
}

/// JSON that is wiped when it is dropped.
pub struct SecretJson(pub Json);

impl Drop for SecretJson {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A value, and whether it is a secret.
#[derive(Clone, Copy)]
pub struct Given<'v> {
    /// The value.
    pub value: Value<'v>,
    /// Whether nobody else may see it.
    pub secret: bool,
}

/// The available values for one module.
#[derive(Default)]
pub struct Values {
    /// By `kind:name`, the name without a dotted path.
    roots: BTreeMap<String, Held>,
}

impl Values {
    /// Takes a value under `kind:name`.
    pub fn insert(&mut self, key: String, held: Held) {
        self.roots.insert(key, held);
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.roots.keys().map(String::as_str)
    }

    /// The value of `kind:name`, where the name may be a dotted path into a value.
    pub fn get(&self, key: &str) -> Option<Given<'_>> {
        if let Some(held) = self.roots.get(key) {
            return held.at_path("");
        }
        let (root, path) = key.split_once('.')?;
        self.roots.get(root)?.at_path(path)
    }
}

impl Held {
    fn at_path(&self, path: &str) -> Option<Given<'_>> {
        let (value, secret) = match self {
            Self::Secret(secret) => (Value::Bytes(secret.expose()).at_path(path)?, true),
            Self::Credential(credential) => (Value::Bytes(credential.member(path)?.expose()), true),
            Self::SecretJson(json) => (Value::Json(json.0.at_path(path)?), true),
            Self::Plain(json) => (Value::Json(json.at_path(path)?), false),
        };
        Some(Given { value, secret })
    }
}

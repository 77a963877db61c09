//! Node records: what the mesh knows of a node, signed by the mesh key (payload type `application/vnd.mesh.node.v1+json`).

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::json::{At, Fields, Json, Problem, Read, text_form};
use crate::keys::{BusKey, SealingKey};

/// What the mesh knows of a node.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::node_record::{NodeRecord, Recovery};
/// let (bus, sealing) = (nkeys::KeyPair::new_user().public_key(), nkeys::XKey::new().public_key());
/// let text = format!(r#"{{"mesh":"m","node":"attic","epoch":1,"bus":"{bus}","sealing":"{sealing}","recovery":"none","address":"10.0.0.7","zone":null,"arch":"x86_64"}}"#);
/// let record = NodeRecord::from_json_bytes(text.as_bytes()).unwrap();
/// assert_eq!(record.recovery, Recovery::None);
/// assert_eq!(serde_json::to_string(&record).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRecord {
    /// The mesh's id.
    pub mesh: String,
    /// The node.
    pub node: String,
    /// One more with every new pair of keys. The vault refuses a lower one.
    pub epoch: u64,
    /// Its key on the bus.
    pub bus: BusKey,
    /// The key that its secrets are sealed to.
    pub sealing: SealingKey,
    /// The key that the second copy of each secret is sealed to.
    pub recovery: Recovery,
    /// Where the others reach it.
    pub address: Option<String>,
    /// Where it stands, in the operator's words.
    pub zone: Option<String>,
    /// Its architecture, such as `x86_64`.
    pub arch: Option<String>,
}

impl Read for NodeRecord {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let record = NodeRecord {
            mesh: fields.required("mesh")?,
            node: fields.required("node")?,
            epoch: fields.required("epoch")?,
            bus: fields.required("bus")?,
            sealing: fields.required("sealing")?,
            recovery: fields.required("recovery")?,
            address: fields.optional("address")?,
            zone: fields.optional("zone")?,
            arch: fields.optional("arch")?,
        };
        fields.done()?;
        Ok(record)
    }
}

/// Who can open the second copy of each secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// The operator, with this key.
    Key(SealingKey),
    /// Nobody: the operator said that there is to be no second copy.
    None,
}

impl FromStr for Recovery {
    type Err = String;

    fn from_str(text: &str) -> Result<Recovery, String> {
        match text {
            "none" => Ok(Recovery::None),
            key => key.parse().map(Recovery::Key).map_err(|_| "is neither a public key (X…) nor none".into()),
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recovery::Key(key) => write!(f, "{key}"),
            Recovery::None => f.write_str("none"),
        }
    }
}

text_form!(Recovery);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_a_key_or_none() {
        let key = nkeys::XKey::new().public_key();
        assert_eq!(key.parse::<Recovery>().unwrap().to_string(), key);
        assert_eq!("none".parse(), Ok(Recovery::None));
        for wrong in ["", "None", "X", &nkeys::KeyPair::new_user().public_key()] {
            assert!(wrong.parse::<Recovery>().is_err(), "{wrong}");
        }
    }
}

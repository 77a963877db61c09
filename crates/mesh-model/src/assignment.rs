//! An assignment: what one node runs of one module (PROTOCOL.md, "Assignments").
//!
//! It is the value at `<node>.<module>` of the bucket `mesh-controller_assignments`: readable by anyone who may look,
//! and covered by the signature of the declaration that names its digest.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::json::{At, Fields, Json, Problem, Read};
use crate::placeholder::MAX_NAME_BYTES;
use crate::resource::{Draft, words};

mod make;

pub use make::{Alphabet, Make};

/// The largest assignment, in bytes.
pub const MAX_BYTES: usize = 512 * 1024;

/// What one node runs of one module.
///
/// ```
/// use mesh_model::assignment::Assignment;
/// use mesh_model::json::Read;
/// let bytes = br#"{"module":"web","version":"2.4.1","needs":[{"kind":"port","name":"http","since":1.10}],"contributes":[],"placement":{"dir":{},"access":{},"port":{"http":8080},"seat":{},"machine":{}},"resources":[]}"#;
/// let assignment = Assignment::from_json_bytes(bytes).unwrap();
/// assert_eq!(assignment.placement.port["http"], 8080);
/// assert_eq!(serde_json::to_vec(&assignment).unwrap(), bytes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Assignment {
    /// The module.
    pub module: String,
    /// The version of its manifest.
    pub version: String,
    /// The placeholders that are filled. Absent: the client leaves the module alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<Need>>,
    /// What it gives to the collections of its node.
    pub contributes: Vec<Contribution>,
    /// What the controller decided for this node.
    pub placement: Placement,
    /// What the machine is made to hold.
    pub resources: Vec<Draft>,
}

impl Read for Assignment {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let assignment = Assignment {
            module: fields.required("module")?,
            version: fields.required("version")?,
            needs: fields.optional("needs")?,
            contributes: fields.or_default("contributes")?,
            placement: fields.or_default("placement")?,
            resources: fields.or_default("resources")?,
        };
        fields.done()?;
        Ok(assignment)
    }
}

/// A placeholder that is filled on this node, and what is known of where its value comes from.
///
/// Providers' programs read needs too, so fields that are not known here are kept, digit for digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The kind, such as `secret`.
    pub kind: String,
    /// The name; with a `provision`, what stands before the first dot of the placeholders' names.
    pub name: String,
    /// How the vault makes the secret.
    pub make: Option<Make>,
    /// Whether the vault waits for a person to give the secret.
    pub accept: bool,
    /// What a `requires` entry wants.
    pub provision: Option<String>,
    /// Who provides it.
    pub provider: Option<Provider>,
    /// Of `consumers`: those who are bound to this module.
    pub of: Option<Vec<Consumer>>,
    /// Fields that are not known here, as they were written.
    pub further: Vec<(String, Json)>,
}

impl Need {
    /// A need of which nothing more is known.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Need {
        Need {
            kind: kind.into(),
            name: name.into(),
            make: None,
            accept: false,
            provision: None,
            provider: None,
            of: None,
            further: Vec::new(),
        }
    }

    /// Its fields, in their order, into an object that is being written.
    pub fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("name", &self.name)?;
        self.write_plan_fields(map)
    }

    /// Its fields but kind and name, which a key of a bucket says already.
    pub fn write_plan_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if let Some(make) = &self.make {
            map.serialize_entry("make", make)?;
        }
        if self.accept {
            map.serialize_entry("accept", &true)?;
        }
        if let Some(provision) = &self.provision {
            map.serialize_entry("provision", provision)?;
        }
        if let Some(provider) = &self.provider {
            map.serialize_entry("provider", provider)?;
        }
        if let Some(of) = &self.of {
            map.serialize_entry("of", of)?;
        }
        for (name, value) in &self.further {
            map.serialize_entry(name, value)?;
        }
        Ok(())
    }
}

impl Serialize for Need {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_fields(&mut map)?;
        map.end()
    }
}

impl Read for Need {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let mut need = Need::new(fields.required::<String>("kind")?, fields.required::<String>("name")?);
        need.make = fields.optional("make")?;
        need.accept = fields.or_default("accept")?;
        need.provision = fields.optional("provision")?;
        need.provider = fields.optional("provider")?;
        need.of = fields.optional("of")?;
        need.further = fields.rest();
        if need.kind.is_empty() || !need.kind.bytes().all(|b| b.is_ascii_lowercase()) {
            return Err(at.field("kind").problem(format!("{:?} is not a kind ([a-z]+)", need.kind)));
        }
        if need.name.is_empty() || need.name.len() > MAX_NAME_BYTES || need.name.contains(['}', '\n']) {
            return Err(at.field("name").problem("is not the name of a placeholder"));
        }
        Ok(need)
    }
}

/// A module of a node that provides something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Provider {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
}

impl Read for Provider {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let provider = Provider { node: fields.required("node")?, module: fields.required("module")? };
        fields.done()?;
        Ok(provider)
    }
}

/// A `requires` entry of a module of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Consumer {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// The name of the entry.
    pub name: String,
}

impl Read for Consumer {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let consumer = Consumer {
            node: fields.required("node")?,
            module: fields.required("module")?,
            name: fields.required("name")?,
        };
        fields.done()?;
        Ok(consumer)
    }
}

/// An item that a module gives to a collection.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Contribution {
    /// The collection, such as `shell:zsh:normal`.
    pub collection: String,
    /// The item, as it was written.
    pub item: Json,
}

impl Read for Contribution {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let contribution =
            Contribution { collection: fields.required("collection")?, item: fields.required("item")? };
        fields.done()?;
        Ok(contribution)
    }
}

/// What the controller decided for a module on its node: the values of the signed kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Placement {
    /// Paths of directories, by name.
    pub dir: BTreeMap<String, String>,
    /// Paths that the operator provides, by name.
    pub access: BTreeMap<String, String>,
    /// Ports, by name.
    pub port: BTreeMap<String, u16>,
    /// Addresses of the holders of seats, by the seat's name.
    pub seat: BTreeMap<String, String>,
    /// Facts of the node: `address`, `name`, `zone`, `arch`.
    pub machine: BTreeMap<String, String>,
}

words!(
    /// The kinds whose values stand in the placement.
    PlacedKind, "kind of the placement" {
        /// `${dir:…}`
        Dir = "dir",
        /// `${access:…}`
        Access = "access",
        /// `${port:…}`
        Port = "port",
        /// `${seat:…}`
        Seat = "seat",
        /// `${machine:…}`
        Machine = "machine",
    }
);

impl Placement {
    /// The value of a placeholder of a signed kind.
    pub fn value(&self, kind: PlacedKind, name: &str) -> Option<String> {
        match kind {
            PlacedKind::Dir => self.dir.get(name).cloned(),
            PlacedKind::Access => self.access.get(name).cloned(),
            PlacedKind::Port => self.port.get(name).map(ToString::to_string),
            PlacedKind::Seat => self.seat.get(name).cloned(),
            PlacedKind::Machine => self.machine.get(name).cloned(),
        }
    }
}

impl Read for Placement {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let placement = Placement {
            dir: fields.or_default("dir")?,
            access: fields.or_default("access")?,
            port: fields.or_default("port")?,
            seat: fields.or_default("seat")?,
            machine: fields.or_default("machine")?,
        };
        fields.done()?;
        Ok(placement)
    }
}

#[cfg(test)]
mod tests;

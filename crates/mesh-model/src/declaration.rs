//! A declaration: what one node runs, by the digests of its parts (PROTOCOL.md, "Declarations").
//!
//! It is the payload of a signed envelope. One signature covers plan, placement, settings and
//! contributions, since it covers the digests of their exact bytes.

use serde::Serialize;

use crate::digest::Digest;
use crate::json::{At, Fields, Json, Problem, Read};
use crate::keys::SealingKey;
use crate::resource::Draft;

/// What one node runs. It is read from signed bytes, and never written again from what was read.
///
/// ```
/// use mesh_model::declaration::Declaration;
/// use mesh_model::json::Read;
/// let vault = nkeys::XKey::new().public_key();
/// let text = format!(r#"{{"mesh":"m","node":"attic","sequence":17,"fence":3,"at":"2026-11-30T20:00:00Z","vault":"{vault}","modules":[],"adoption":null}}"#);
/// let declaration = Declaration::from_json_bytes(text.as_bytes()).unwrap();
/// assert_eq!((declaration.sequence, declaration.modules.len()), (17, 0));
/// assert_eq!(serde_json::to_string(&declaration).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Declaration {
    /// The mesh's id.
    pub mesh: String,
    /// The node.
    pub node: String,
    /// Only grows, for each node.
    pub sequence: u64,
    /// The lease under which it was written. Only grows.
    pub fence: u64,
    /// When it was made, for people.
    pub at: String,
    /// The only key whose sealed values count.
    pub vault: SealingKey,
    /// The node's modules, in the order in which they are applied.
    pub modules: Vec<Part>,
    /// What holds while the mesh takes over a machine that was in use.
    pub adoption: Option<Adoption>,
}

impl Declaration {
    /// The part of a module.
    pub fn part(&self, module: &str) -> Option<&Part> {
        self.modules.iter().find(|part| part.module == module)
    }
}

/// One module of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The module.
    pub module: String,
    /// The digest of the assignment's exact bytes.
    pub assignment: Digest,
    /// The digest of the settings' exact bytes.
    pub settings: Digest,
}

impl Part {
    /// What tells this plan from any other of the module: 16 hex digits over both digests.
    pub fn plan(&self) -> String {
        let mut hex = Digest::of_pieces(&[self.assignment.bytes(), self.settings.bytes()]).hex();
        hex.truncate(16);
        hex
    }
}

/// What holds while the mesh takes over a machine that was in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Adoption {
    /// Modules that may change what was found.
    pub taken: Vec<String>,
    /// The guard's resources, `adoption.guard-…`, and openings, `adoption.opening-…`.
    pub resources: Vec<Draft>,
}

/// The token before the ids of an adoption's resources.
pub const ADOPTION: &str = "adoption";

impl Read for Declaration {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let declaration = Declaration {
            mesh: fields.required("mesh")?,
            node: fields.required("node")?,
            sequence: fields.required("sequence")?,
            fence: fields.required("fence")?,
            at: fields.required("at")?,
            vault: fields.required("vault")?,
            modules: fields.required("modules")?,
            adoption: fields.optional("adoption")?,
        };
        fields.done()?;
        let mut seen = std::collections::BTreeSet::new();
        for (place, part) in declaration.modules.iter().enumerate() {
            if !seen.insert(&part.module) {
                let modules = at.field("modules");
                return Err(modules.index(place).problem(format!("the module {} stands twice", part.module)));
            }
        }
        Ok(declaration)
    }
}

impl Read for Part {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let part = Part {
            module: fields.required("module")?,
            assignment: fields.required("assignment")?,
            settings: fields.required("settings")?,
        };
        fields.done()?;
        Ok(part)
    }
}

impl Read for Adoption {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let adoption =
            Adoption { taken: fields.or_default("taken")?, resources: fields.or_default("resources")? };
        fields.done()?;
        for (place, draft) in adoption.resources.iter().enumerate() {
            let own = draft.id().own();
            let ours = own.starts_with("guard-") || own.starts_with("opening-");
            if draft.id().prefix() != Some(ADOPTION) || !ours {
                let resources = at.field("resources");
                return Err(resources.index(place).problem(format!(
                    "the id {} is neither adoption.guard-… nor adoption.opening-…",
                    draft.id()
                )));
            }
        }
        Ok(adoption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> String {
        let vault = nkeys::XKey::new().public_key();
        let digest = Digest::of(b"x");
        format!(
            r#"{{"mesh":"m","node":"attic","sequence":17,"fence":3,"at":"now","vault":"{vault}","modules":[{{"module":"web","assignment":"{digest}","settings":"{digest}"}}],"adoption":{{"taken":["web"],"resources":[{{"id":"adoption.guard-ssh","type":"opening","port":22}}]}}}}"#
        )
    }

    fn problem(text: &str) -> String {
        Declaration::from_json_bytes(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let declaration = Declaration::from_json_bytes(text().as_bytes()).unwrap();
        let again = serde_json::to_vec(&declaration).unwrap();
        assert_eq!(Declaration::from_json_bytes(&again).unwrap(), declaration);
        assert_eq!(declaration.part("web").unwrap().plan().len(), 16);
        assert_eq!(declaration.part("mail"), None);
    }

    #[test]
    fn what_is_wrong_in_a_declaration_is_told_with_its_place() {
        let digest = Digest::of(b"x").to_string();
        for (from, to, what) in [
            (
                "\"sequence\":17",
                "\"sequence\":-1",
                "sequence: -1 is not a whole number from 0 to 18446744073709551615",
            ),
            ("\"sequence\":17", "\"sequenc\":17", "sequenc: unknown field; nearest known: sequence"),
            ("\"vault\":\"X", "\"vault\":\"U", "vault: is not the public key for sealing (X…)"),
            (
                "sha256:",
                "sha512:",
                "modules[0].assignment: is not a digest: sha256: and 64 lower-case hex digits",
            ),
            (
                "adoption.guard-ssh",
                "adoption.ssh",
                "adoption.resources[0]: the id adoption.ssh is neither adoption.guard-… nor adoption.opening-…",
            ),
            (",\"adoption\"", ",\"mode\":1,\"adoption\"", "mode: unknown field; nearest known: node"),
        ] {
            assert_eq!(problem(&text().replacen(from, to, 1)), what);
        }
        let twice =
            format!(r#""modules":[{{"module":"web","assignment":"{digest}","settings":"{digest}"}},"#);
        assert_eq!(
            problem(&text().replacen("\"modules\":[", &twice, 1)),
            "modules[1]: the module web stands twice"
        );
    }

    proptest! {
        #[test]
        fn a_changed_byte_panics_nowhere(place in 0usize..500, byte: u8) {
            let mut bytes = text().into_bytes();
            let place = place % bytes.len();
            bytes[place] = byte;
            let _ = Declaration::from_json_bytes(&bytes);
        }
    }
}

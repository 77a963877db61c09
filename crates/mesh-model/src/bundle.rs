//! Bundles: resources that root applies by hand, unsigned and without a mesh.

use std::collections::BTreeMap;

use crate::assignment::Need;
use crate::host_api::Given;
use crate::json::{At, Fields, Json, Problem, Read};
use crate::resource::Draft;

/// Resources that root applies by hand.
///
/// ```
/// use mesh_model::bundle::Bundle;
/// use mesh_model::json::Read;
/// let text = br#"{"bundle":"foundation","resources":[{"id":"curl","type":"package","package":"curl"}]}"#;
/// assert_eq!(Bundle::from_json_bytes(text).unwrap().resources.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its name, which is the origin of its records.
    pub bundle: String,
    /// What the machine is made to hold.
    pub resources: Vec<Draft>,
    /// The placeholders that are filled.
    pub needs: Vec<Need>,
    /// Their values, by `kind:name`.
    pub values: BTreeMap<String, Given>,
}

impl Read for Bundle {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let bundle = Bundle {
            bundle: fields.required("bundle")?,
            resources: fields.required("resources")?,
            needs: fields.or_default("needs")?,
            values: fields.or_default("values")?,
        };
        fields.done()?;
        Ok(bundle)
    }
}

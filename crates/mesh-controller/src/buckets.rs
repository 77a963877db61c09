//! The buckets that `init` makes, as JSON of the JetStream API.

use crate::store::sent::Bucket;
use serde_json::Value;

/// The buckets of the controller and of the vault, each with how many values of a key it keeps.
pub fn all() -> Vec<(&'static str, u8)> {
    let own = Bucket::ALL.into_iter().map(|bucket| (bucket.name(), bucket.history()));
    own.chain([("mesh-controller_reports", 1), ("mesh-vault_revisions", 1)]).collect()
}

/// The bucket of a provider.
pub fn bound(module: &str) -> String {
    format!("{module}_bound")
}

/// How a stream that is there differs from what would be made, in what matters here.
pub fn differences(there: &Value, wanted: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in [
        "max_msgs_per_subject",
        "max_consumers",
        "max_age",
        "allow_rollup_hdrs",
        "deny_delete",
        "allow_direct",
    ] {
        let zero = match &wanted[field] {
            Value::Bool(_) => Value::Bool(false),
            _ => 0.into(),
        };
        let there = there.get(field).cloned().unwrap_or(zero);
        if there != wanted[field] {
            found.push(format!("{field} is {there}, advised is {}", wanted[field]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_jetstream::bucket::Kv;
    use serde_json::json;

    #[test]
    fn a_bucket_that_differs_says_how() {
        let wanted = Kv::new("mesh-controller_declarations").configuration(8, 1);
        assert_eq!(wanted["subjects"][0], "$KV.mesh-controller_declarations.>");
        assert_eq!(
            (&wanted["max_msgs_per_subject"], &wanted["allow_rollup_hdrs"]),
            (&json!(8), &json!(false))
        );
        let mut there = wanted.clone();
        assert!(differences(&there, &wanted).is_empty());
        there["allow_rollup_hdrs"] = json!(true);
        there.as_object_mut().unwrap().remove("deny_delete");
        assert_eq!(
            differences(&there, &wanted),
            ["allow_rollup_hdrs is true, advised is false", "deny_delete is false, advised is true"]
        );
        assert_eq!(all().len(), 6);
    }
}

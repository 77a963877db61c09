//! The buckets that `init` makes, as JSON of the JetStream API.

use crate::store::sent::Bucket;

/// The buckets of the controller and of the vault, each with how many values of a key it keeps.
pub fn all() -> Vec<(&'static str, u8)> {
    let own = Bucket::ALL.into_iter().map(|bucket| (bucket.name(), bucket.history()));
    own.chain([("mesh-controller_reports", 1), ("mesh-vault_revisions", 1)]).collect()
}

/// The bucket of a provider.
pub fn bound(module: &str) -> String {
    format!("{module}_bound")
}

//! Filters on keys: the tokens that a key must have at certain positions.

use mesh_model::bucket::Bucket;
use mesh_model::name;
use mesh_provisioner_api::request::Ask;

/// The required token at each position of a bucket's keys, where a query filters it.
#[derive(Debug)]
pub(super) struct KeyFilter(Vec<Option<String>>);

impl KeyFilter {
    /// The filter of `ask` in `bucket`. Filters are names, encoded like any other, and never patterns.
    pub(super) fn new(bucket: Bucket, ask: &Ask) -> Self {
        let filter = |field: &&str| match *field {
            "node" => ask.node.as_deref(),
            "module" | "contributor" => ask.module.as_deref(),
            "kind" => ask.kind.as_deref(),
            "collection" => ask.collection.as_deref(),
            _ => None,
        };
        KeyFilter(bucket.token_names().iter().map(|field| filter(field).map(name::encode)).collect())
    }

    /// Whether the filter selects `key`. It selects a malformed key if its tokens at the filtered positions match.
    pub(super) fn holds(&self, key: &str) -> bool {
        let mut tokens = key.split('.');
        self.0.iter().all(|filter| {
            let token = tokens.next();
            filter.as_deref().is_none_or(|filter| token == Some(filter))
        })
    }
}

/// The node's token, if the query is for one node: JetStream can list only its keys.
pub(super) fn node_token(ask: &Ask) -> Option<String> {
    ask.node.as_deref().map(name::encode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_provisioner_api::request::What;

    #[test]
    fn a_filter_is_a_name_and_a_malformed_key_is_within_it_by_its_tokens() {
        let ask = Ask { node: Some("n1".to_owned()), kind: Some("port".to_owned()), ..Ask::new(What::Needs) };
        let reach = KeyFilter::new(Bucket::Needs, &ask);
        for within in ["n1.web.port.http", "n1.web.port", "n1.web.port.a.b", "n1.\u{fffd}.port.x"] {
            assert!(reach.holds(within), "{within}");
        }
        for beyond in ["n10.web.port.http", "n1.web.secret.x", "n1.web", "n1", "N1.web.port.http"] {
            assert!(!reach.holds(beyond), "{beyond}");
        }
        let star = Ask { node: Some("*".to_owned()), ..Ask::new(What::Needs) };
        assert!(!KeyFilter::new(Bucket::Needs, &star).holds("n1.web.port.http"));
        assert!(KeyFilter::new(Bucket::Needs, &star).holds("=2A.web.port.http"));
    }
}

//! What new keys of a node mean for its secrets, said before they are there. The vault forgets what was sealed to the old
//! ones: it makes again what it makes, and a person gives again what a person gave.

use crate::compose::modules_of;
use crate::compose::snapshot::Snapshot;
use crate::join::tokens::{Standing, standing};
use crate::plan::Plan;
use crate::store::{Moment, identity::Token};
use mesh_model::manifest::SecretSource;
use std::collections::BTreeMap;

/// What a join with new keys would mean, for each node that has keys and a token that is still good.
pub fn notes(snapshot: &Snapshot, tokens: &[Token], at: Moment) -> BTreeMap<String, String> {
    let good = tokens.iter().filter(|token| standing(token, at) == Standing::Good);
    good.filter_map(|token| Some((token.node.clone(), note(snapshot, token)?))).collect()
}

/// Puts them to the other notes of a plan.
pub fn put(plan: &mut Plan, notes: BTreeMap<String, String>) {
    for (node, note) in notes {
        if let Some(change) = plan.nodes.get_mut(&node) {
            change.notes.push(note);
        }
    }
}

fn note(snapshot: &Snapshot, token: &Token) -> Option<String> {
    let keys = snapshot.nodes.get(&token.node)?.keys.as_ref()?;
    let (mut made, mut accepted) = (Vec::new(), Vec::new());
    for module in modules_of(snapshot, &token.node) {
        let Some(Ok(manifest)) = snapshot.modules.get(module).map(|known| &known.manifest) else { continue };
        for need in manifest.needs().into_iter().filter(|need| need.kind == "secret") {
            let is_given = matches!(manifest.secrets.get(&need.name), Some(SecretSource::Accept));
            let list = if is_given { &mut accepted } else { &mut made };
            list.push(format!("{module} {}", need.name));
        }
    }
    let begin =
        format!("the token {} lets it join with new keys, in place of epoch {}", token.id, keys.epoch);
    let mut parts = vec![begin];
    if !made.is_empty() {
        parts.push(format!("the vault then makes again: {}", made.join(", ")));
    }
    if !accepted.is_empty() {
        parts.push(format!("missing until they are accepted again or recovered: {}", accepted.join(", ")));
    }
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::tests::{mesh, module, set};

    fn token(node: &str, until: Moment) -> Token {
        Token {
            id: "T1".into(),
            node: node.into(),
            key: "U".into(),
            adopted: false,
            issued: 0,
            until,
            used: None,
            used_by: None,
            revoked: None,
        }
    }

    #[test]
    fn a_plan_says_before_what_new_keys_do_to_secrets() {
        let web = r#"{"module":"web","version":"1","secrets":{"session":{"make":{"bytes":32,"as":"hex"}},"api":{"accept":true}},
            "resources":[{"id":"x","type":"file","path":"/etc/x","content":"${secret:session}${secret:api}"}]}"#;
        let mut snapshot = mesh();
        snapshot.modules.insert("web".into(), module(web));
        snapshot.assignments.insert(("attic".into(), "web".into()), set(()));
        let said = notes(&snapshot, &[token("attic", 10)], 5);
        assert_eq!(
            said["attic"],
            "the token T1 lets it join with new keys, in place of epoch 1; the vault then makes again: web session; missing until they are accepted again or recovered: web api"
        );
        // A token that is no longer good, one that was used, a node that has no keys: nothing of it is to come.
        assert!(notes(&snapshot, &[token("attic", 10)], 11).is_empty());
        let used = Token { used: Some(1), ..token("attic", 10) };
        assert!(notes(&snapshot, &[used, token("other", 10)], 5).is_empty());
    }
}

//! What becomes of a request to join, by what the store knows. Pure: the store is read before, and written after.

use crate::store::identity::{Mesh, NodeKeys, Token};
use crate::store::{Moment, time_of};
use mesh_daemon::time::rfc3339;
use mesh_model::join::{Proven, Request};
use std::fmt;

/// Why a request to join is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the error: 400, 403, 409 or 503.
    pub code: u16,
    /// A word for programs.
    pub reason: &'static str,
    /// The words for people.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, reason, message: message.into() }
    }
}

/// What the store knows about a request.
#[derive(Debug, Clone, Copy)]
pub struct Known<'k> {
    /// The mesh.
    pub mesh: &'k Mesh,
    /// The token that it names.
    pub token: Option<&'k Token>,
    /// The keys that its node has.
    pub keys: Option<&'k NodeKeys>,
    /// Whose the key that it would register is or was, and whether it still is.
    pub owner: Option<(&'k str, bool)>,
    /// The highest epoch that the node ever had.
    pub epoch: u64,
    /// Now.
    pub at: Moment,
}

/// What becomes of a request that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its node has these very keys: it is answered as before, and the token is not looked at.
    Known,
    /// The keys are registered under this epoch, and the token is spent.
    Register(u64),
}

/// Judges a request. Its proofs are checked first: a client that cannot prove anything learns nothing.
pub fn judge<'r>(request: &'r Proven, known: Known<'_>) -> Result<(&'r Request, Verdict), Refusal> {
    let denied = |message: String| Refusal::new(403, "denied", message);
    let conflict = |message: String| Refusal::new(409, "conflict", message);
    let token = known.token.ok_or_else(|| {
        denied("the token is not one of this mesh: issue one with mesh-controller token issue".into())
    })?;
    let request = request.check(&token.key).map_err(|why| denied(why.into()))?;
    if request.mesh != known.mesh.key.as_str() && request.mesh != known.mesh.id {
        return Err(denied("the token is of another mesh".into()));
    }
    if request.node != token.node {
        return Err(denied(format!("the token is for {}, and not for {}", token.node, request.node)));
    }
    let has = |keys: &&NodeKeys| keys.bus == request.bus && keys.sealing == request.sealing;
    if known.keys.is_some_and(|keys| has(&keys)) {
        return Ok((request, Verdict::Known));
    }
    let again = format!("issue a new one with mesh-controller token issue --node {}", token.node);
    if let Some(used) = token.used {
        let by = token.used_by.as_deref().unwrap_or("another key");
        let words = format!("the token was used for {} by {by} at {}: {again}", token.node, shown(used));
        let same = token.used_by.as_deref() == Some(request.bus.as_str());
        return Err(if same { denied(words) } else { conflict(words) });
    }
    if let Some(revoked) = token.revoked {
        return Err(denied(format!("the token was taken back at {}: {again}", shown(revoked))));
    }
    if token.until <= known.at {
        return Err(denied(format!("the token was good until {}: {again}", shown(token.until))));
    }
    match known.owner {
        Some((node, true)) if node != request.node => {
            return Err(conflict(format!("the key {} is that of {node}: make a new one", request.bus)));
        }
        Some((_, false)) => {
            return Err(conflict(format!("the key {} was replaced before: make a new one", request.bus)));
        }
        _ => {}
    }
    Ok((request, Verdict::Register(known.epoch + 1)))
}

fn shown(at: Moment) -> String {
    rfc3339(time_of(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_model::json::Json;
    use mesh_model::keys::SealingKey;
    use nkeys::{KeyPair, XKey};

    const NOW: Moment = 1_000_000;

    struct Case {
        mesh: Mesh,
        token: Token,
        token_pair: KeyPair,
        bus: KeyPair,
        sealing: XKey,
    }

    fn case() -> Case {
        let mesh_key = KeyPair::new_operator().public_key().parse().unwrap();
        let token_pair = KeyPair::new_user();
        Case {
            mesh: Mesh { id: "m".into(), key: mesh_key, vault: None, recovery: None, since: 0 },
            token: Token {
                id: "t1".into(),
                node: "attic".into(),
                key: token_pair.public_key(),
                adopted: false,
                issued: 0,
                until: NOW + 1,
                used: None,
                used_by: None,
                revoked: None,
            },
            token_pair,
            bus: KeyPair::new_user(),
            sealing: XKey::new(),
        }
    }

    impl Case {
        fn request(&self, node: &str, mesh: &str) -> Proven {
            let keys = (self.bus.public_key().parse().unwrap(), SealingKey::of(&self.sealing));
            let request = Request::new(&self.token.id, mesh, node, keys.0, keys.1, Json::Object(vec![]));
            request.prove(&self.token_pair, &self.bus).unwrap()
        }

        fn own(&self) -> Proven {
            self.request("attic", self.mesh.key.as_str())
        }

        fn known(&self) -> Known<'_> {
            Known { mesh: &self.mesh, token: Some(&self.token), keys: None, owner: None, epoch: 0, at: NOW }
        }

        fn keys(&self) -> NodeKeys {
            NodeKeys {
                node: "attic".into(),
                epoch: 1,
                bus: self.bus.public_key().parse().unwrap(),
                sealing: SealingKey::of(&self.sealing),
                token: "t1".into(),
                joined: 5,
                address: None,
                arch: None,
                facts: "{}".into(),
            }
        }
    }

    fn refused(request: &Proven, known: Known<'_>, code: u16, words: &str) {
        let refusal = judge(request, known).unwrap_err();
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.message.contains(words), "{refusal}");
    }

    #[test]
    fn a_good_token_registers_under_the_next_epoch() {
        let case = case();
        assert_eq!(judge(&case.own(), case.known()).unwrap().1, Verdict::Register(1));
        let by_id = case.request("attic", "m");
        assert_eq!(judge(&by_id, Known { epoch: 7, ..case.known() }).unwrap().1, Verdict::Register(8));
    }

    #[test]
    fn a_token_that_is_unknown_foreign_or_not_proven_is_refused() {
        let case = case();
        refused(&case.own(), Known { token: None, ..case.known() }, 403, "not one of this mesh");
        refused(&case.request("attic", "x"), case.known(), 403, "of another mesh");
        refused(&case.request("cellar", "m"), case.known(), 403, "is for attic, and not for cellar");
        let other = Token { key: KeyPair::new_user().public_key(), ..case.token.clone() };
        refused(&case.own(), Known { token: Some(&other), ..case.known() }, 403, "by the token's key");
    }

    #[test]
    fn j02_a_known_key_is_welcome_whatever_became_of_its_token() {
        let mut case = case();
        case.token.until = 3;
        case.token.revoked = Some(4);
        let keys = case.keys();
        let known = Known { keys: Some(&keys), owner: Some(("attic", true)), epoch: 1, ..case.known() };
        assert_eq!(judge(&case.own(), known).unwrap().1, Verdict::Known);
    }

    #[test]
    fn j05_the_same_keys_again_are_known_and_others_are_refused() {
        let mut case = case();
        let keys = case.keys();
        case.token.used = Some(5);
        case.token.used_by = Some(keys.bus.to_string());
        let known = Known { keys: Some(&keys), owner: Some(("attic", true)), epoch: 1, ..case.known() };
        assert_eq!(judge(&case.own(), known).unwrap().1, Verdict::Known);
        let bus = KeyPair::new_user();
        let other = Request::new(
            "t1",
            "m",
            "attic",
            bus.public_key().parse().unwrap(),
            keys.sealing.clone(),
            Json::Object(vec![]),
        );
        let other = other.prove(&case.token_pair, &bus).unwrap();
        let known = Known { keys: Some(&keys), epoch: 1, ..case.known() };
        refused(&other, known, 409, "used for attic by U");
    }

    #[test]
    fn j01_a_used_token_stays_used_when_its_node_is_gone() {
        let mut case = case();
        case.token.used = Some(5);
        case.token.used_by = Some(case.bus.public_key());
        let known = Known { owner: Some(("attic", false)), epoch: 1, ..case.known() };
        refused(&case.own(), known, 403, "was used for attic by U");
    }

    #[test]
    fn j07_a_token_that_was_taken_back_or_is_too_old_is_refused() {
        let mut case = case();
        case.token.until = NOW;
        refused(&case.own(), case.known(), 403, "good until 1970-01-01T00:16:40");
        case.token.revoked = Some(1000);
        refused(&case.own(), case.known(), 403, "taken back at 1970-01-01T00:00:01");
    }

    #[test]
    fn nobody_takes_a_key_that_is_or_was_in_use() {
        let case = case();
        refused(
            &case.own(),
            Known { owner: Some(("cellar", true)), ..case.known() },
            409,
            "is that of cellar",
        );
        refused(
            &case.own(),
            Known { owner: Some(("attic", false)), ..case.known() },
            409,
            "was replaced before",
        );
    }
}

//! Joining: the request of a new machine, its two proofs, and the signed answer.

use data_encoding::BASE64;
use nkeys::KeyPair;
use serde::Serialize;

use crate::json::{At, Fields, Json, Problem, Read};
use crate::keys::{BusKey, SealingKey};
use crate::signed::{Base64, pae, verify};

/// What both proofs sign: the PAE of this type and of the request without them.
pub const PROOF_TYPE: &str = "application/vnd.mesh.join.v1";

/// What a new machine asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    v: u8,
    /// The token's id.
    pub token: String,
    /// The mesh's id or key, as the token has it.
    pub mesh: String,
    /// The node's name.
    pub node: String,
    /// The public half of its new key on the bus.
    pub bus: BusKey,
    /// The public half of its sealing key.
    pub sealing: SealingKey,
    /// What the machine is, as the host says.
    pub facts: Json,
}

impl Request {
    /// A request without its proofs.
    pub fn new(
        token: &str,
        mesh: &str,
        node: &str,
        bus: BusKey,
        sealing: SealingKey,
        facts: Json,
    ) -> Request {
        Request { v: 1, token: token.into(), mesh: mesh.into(), node: node.into(), bus, sealing, facts }
    }

    /// What both proofs sign.
    fn message(&self) -> Vec<u8> {
        pae(PROOF_TYPE, &serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("JSON and texts")))
    }

    /// The request with both proofs: the token is available, and so is the new key.
    ///
    /// ```
    /// use mesh_model::join::{Proven, Request};
    /// use mesh_model::json::{Json, Read};
    /// use nkeys::{KeyPair, XKey};
    /// let (token, bus, sealing) = (KeyPair::new_user(), KeyPair::new_user(), XKey::new());
    /// let keys = (bus.public_key().parse().unwrap(), sealing.public_key().parse().unwrap());
    /// let request = Request::new("t1", "m", "attic", keys.0, keys.1, Json::Object(vec![]));
    ///
    /// let bytes = serde_json::to_vec(&request.prove(&token, &bus).unwrap()).unwrap();
    /// let received = Proven::from_json_bytes(&bytes).unwrap();
    /// assert_eq!(received.check(&token.public_key()).unwrap().node, "attic");
    /// assert!(received.check(&KeyPair::new_user().public_key()).is_err());
    /// ```
    pub fn prove(self, token: &KeyPair, bus: &KeyPair) -> Result<Proven, nkeys::error::Error> {
        let message = self.message();
        let (proof, bus_proof) = (BASE64.encode(&token.sign(&message)?), BASE64.encode(&bus.sign(&message)?));
        Ok(Proven { request: self, proof, bus_proof })
    }
}

/// A request with its proofs, which nobody has checked yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proven {
    #[serde(flatten)]
    request: Request,
    proof: String,
    bus_proof: String,
}

impl Proven {
    /// The id of the token that it is proven with.
    pub fn token(&self) -> &str {
        &self.request.token
    }

    /// The key that it wants to register, which nobody has checked yet.
    pub fn bus(&self) -> &BusKey {
        &self.request.bus
    }

    /// The request, if both proofs hold; `token` is the public half of the token's key. Otherwise which does not.
    pub fn check(&self, token: &str) -> Result<&Request, &'static str> {
        let message = self.request.message();
        let holds = |key: &str, proof: &str| {
            BASE64.decode(proof.as_bytes()).is_ok_and(|signature| verify(key, &message, &signature))
        };
        if !holds(token, &self.proof) {
            return Err("the proof is not by the token's key");
        }
        if !holds(self.request.bus.as_str(), &self.bus_proof) {
            return Err("the proof is not by the key that is to be registered");
        }
        Ok(&self.request)
    }
}

impl Read for Proven {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let version: u8 = fields.required("v")?;
        if version != 1 {
            return Err(at.field("v").problem(format!("{version} is not known here, only 1")));
        }
        let request = Request {
            v: version,
            token: fields.required("token")?,
            mesh: fields.required("mesh")?,
            node: fields.required("node")?,
            bus: fields.required("bus")?,
            sealing: fields.required("sealing")?,
            facts: fields.required("facts")?,
        };
        if !matches!(request.facts, Json::Object(_)) {
            return Err(at.field("facts").problem("is not an object"));
        }
        let proof = BASE64.encode(&fields.required::<Base64>("proof")?.0);
        let bus_proof = BASE64.encode(&fields.required::<Base64>("bus_proof")?.0);
        fields.done()?;
        Ok(Proven { request, proof, bus_proof })
    }
}

/// The payload of the signed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The mesh's id.
    pub mesh: String,
    /// The node's name.
    pub node: String,
    /// The key that was registered on the bus.
    pub bus: BusKey,
    /// The key that values will be sealed to.
    pub sealing: SealingKey,
    /// The only key whose sealed values count.
    pub vault: SealingKey,
    /// The id of the token that is spent.
    pub token: String,
}

impl Answer {
    /// Whether it answers that request: same node, same keys, same token.
    pub fn fits(&self, request: &Request) -> bool {
        self.node == request.node
            && self.bus == request.bus
            && self.sealing == request.sealing
            && self.token == request.token
    }
}

impl Read for Answer {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let answer = Answer {
            mesh: fields.required("mesh")?,
            node: fields.required("node")?,
            bus: fields.required("bus")?,
            sealing: fields.required("sealing")?,
            vault: fields.required("vault")?,
            token: fields.required("token")?,
        };
        fields.done()?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nkeys::XKey;

    fn proven() -> (Json, KeyPair) {
        let (token, bus) = (KeyPair::new_user(), KeyPair::new_user());
        let (bus_key, sealing) = (bus.public_key().parse().unwrap(), SealingKey::of(&XKey::new()));
        let facts = Json::parse(r#"{"memory":1.50}"#).unwrap();
        let request = Request::new("t1", "m", "attic", bus_key, sealing, facts);
        let text = serde_json::to_string(&request.prove(&token, &bus).unwrap()).unwrap();
        (Json::parse(&text).unwrap(), token)
    }

    #[test]
    fn a_request_has_one_shape_and_keeps_its_digits() {
        let (json, token) = proven();
        let Json::Object(members) = &json else { unreachable!() };
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["v", "token", "mesh", "node", "bus", "sealing", "facts", "proof", "bus_proof"]);
        let received = Proven::read(&json, &At::Root).unwrap();
        assert!(received.check(&token.public_key()).is_ok());
        assert_eq!(serde_json::to_string(&received).unwrap(), json.to_string());
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (json, token) = proven();
        let other = KeyPair::new_user().public_key();
        let sealing = XKey::new().public_key();
        for (name, value) in [
            ("token", Json::text("t2")),
            ("mesh", Json::text("x")),
            ("node", Json::text("x")),
            ("bus", Json::text(&*other)),
            ("sealing", Json::text(&*sealing)),
            ("facts", Json::Object(vec![])),
        ] {
            let mut changed = json.clone();
            let Json::Object(members) = &mut changed else { unreachable!() };
            members.iter_mut().find(|(key, _)| key == name).unwrap().1 = value;
            let received = Proven::read(&changed, &At::Root).unwrap();
            assert_eq!(
                received.check(&token.public_key()),
                Err("the proof is not by the token's key"),
                "{name}"
            );
        }
    }

    #[test]
    fn nobody_registers_a_key_of_another() {
        let (token, bus) = (KeyPair::new_user(), KeyPair::new_user());
        let keys = (KeyPair::new_user().public_key().parse().unwrap(), SealingKey::of(&XKey::new()));
        let request = Request::new("t1", "m", "attic", keys.0, keys.1, Json::Object(vec![]));
        let proven = request.prove(&token, &bus).unwrap();
        assert_eq!(
            proven.check(&token.public_key()),
            Err("the proof is not by the key that is to be registered")
        );
    }

    #[test]
    fn an_answer_fits_one_request() {
        let (json, token) = proven();
        let received = Proven::read(&json, &At::Root).unwrap();
        let request = received.check(&token.public_key()).unwrap();
        let answer = Answer {
            mesh: "m".into(),
            node: "attic".into(),
            bus: request.bus.clone(),
            sealing: request.sealing.clone(),
            vault: SealingKey::of(&XKey::new()),
            token: "t1".into(),
        };
        assert!(answer.fits(request));
        assert!(!Answer { token: "t2".into(), ..answer.clone() }.fits(request));
        let again = Answer::from_json_bytes(&serde_json::to_vec(&answer).unwrap()).unwrap();
        assert_eq!(again, answer);
    }
}

//! Signed documents: the DSSE envelope with one Ed25519 signature of the mesh key.
//!
//! The signature is over the PAE of type and payload, so a document of one type never passes for one of another. It
//! is verified strictly: no key of small order, no second spelling of a signature.

use std::fmt;

use data_encoding::BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use nkeys::KeyPair;
use serde::Serialize;

use crate::json::{At, Fields, Json, Problem, Read};
use crate::keys::MeshKey;
use crate::resource::words;

words!(
    /// What a signed document is.
    PayloadType, "payload type" {
        /// A [declaration](crate::declaration).
        Declaration = "application/vnd.mesh.declaration.v1+json",
        /// A [node record](crate::node_record).
        Node = "application/vnd.mesh.node.v1+json",
        /// The answer to a [join](crate::join).
        JoinAnswer = "application/vnd.mesh.join-answer.v1+json",
        /// A [request to the vault](crate::vault_api).
        VaultRequest = "application/vnd.mesh.vault-request.v1+json",
    }
);

/// What is signed in place of the body alone: `DSSEv1 SP len SP type SP len SP body`.
///
/// ```
/// let pae = mesh_model::signed::pae("http://example.com/HelloWorld", b"hello world");
/// assert_eq!(pae, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
/// ```
pub fn pae(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let mut text = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), body.len()).into_bytes();
    text.extend_from_slice(body);
    text
}

/// Whether `signature` is the key's signature over `message`; `public` is the text of an Ed25519 key.
pub(crate) fn verify(public: &str, message: &[u8], signature: &[u8]) -> bool {
    let Ok((_, bytes)) = nkeys::from_public_key(public) else { return false };
    match (VerifyingKey::from_bytes(&bytes), Signature::from_slice(signature)) {
        (Ok(key), Ok(signature)) => key.verify_strict(message, &signature).is_ok(),
        _ => false,
    }
}

/// A signed document that nobody has verified yet.
///
/// ```
/// use mesh_model::signed::{Envelope, PayloadType, Refused};
/// let pair = nkeys::KeyPair::new_operator();
/// let bytes = Envelope::sign(PayloadType::Node, b"{}".to_vec(), &pair).unwrap().to_bytes();
///
/// let envelope = Envelope::parse(&bytes).unwrap();
/// let key = pair.public_key().parse().unwrap();
/// assert_eq!(envelope.verify(PayloadType::Node, &key), Ok(&b"{}"[..]));
/// assert!(matches!(envelope.verify(PayloadType::Declaration, &key), Err(Refused::PayloadType(_))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    payload_type: String,
    payload: Vec<u8>,
    key: String,
    signature: Vec<u8>,
}

/// Why a signed document does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is not an envelope, or its payload is not what its type says.
    Shape(Problem),
    /// It is of another type than the one that was asked for.
    PayloadType(String),
    /// It is signed by another key.
    Key(String),
    /// Its signature is not that key's.
    Signature,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Shape(problem) => write!(f, "{problem}"),
            Refused::PayloadType(found) => write!(f, "the payload type is {found:?}"),
            Refused::Key(found) => write!(f, "signed by {found:?}, which is not this mesh's key"),
            Refused::Signature => f.write_str("the signature does not fit"),
        }
    }
}

impl std::error::Error for Refused {}

impl Envelope {
    /// Signs a payload with the mesh key.
    pub fn sign(
        payload_type: PayloadType,
        payload: Vec<u8>,
        pair: &KeyPair,
    ) -> Result<Envelope, nkeys::error::Error> {
        let signature = pair.sign(&pae(payload_type.as_str(), &payload))?;
        Ok(Envelope {
            payload_type: payload_type.as_str().to_owned(),
            payload,
            key: pair.public_key(),
            signature,
        })
    }

    /// Signs the compact JSON of `document`.
    pub fn sign_json(
        payload_type: PayloadType,
        document: &impl Serialize,
        pair: &KeyPair,
    ) -> Result<Envelope, nkeys::error::Error> {
        let payload =
            serde_json::to_vec(document).unwrap_or_else(|_| unreachable!("our own documents are JSON"));
        Envelope::sign(payload_type, payload, pair)
    }

    /// Reads an envelope. Its payload counts only once it is verified.
    pub fn parse(bytes: &[u8]) -> Result<Envelope, Problem> {
        Envelope::from_json_bytes(bytes)
    }

    /// The payload, if this is a document of that type, signed by that key.
    pub fn verify(&self, payload_type: PayloadType, key: &MeshKey) -> Result<&[u8], Refused> {
        if self.payload_type != payload_type.as_str() {
            return Err(Refused::PayloadType(self.payload_type.clone()));
        }
        if self.key != key.as_str() {
            return Err(Refused::Key(self.key.clone()));
        }
        if !verify(key.as_str(), &pae(payload_type.as_str(), &self.payload), &self.signature) {
            return Err(Refused::Signature);
        }
        Ok(&self.payload)
    }

    /// The payload as it stands there, for the program that made the envelope or only shows it. It proves nothing.
    pub fn payload_unverified(&self) -> &[u8] {
        &self.payload
    }

    /// Verifies the envelope and reads its payload.
    pub fn open<T: Read>(&self, payload_type: PayloadType, key: &MeshKey) -> Result<T, Refused> {
        T::from_json_bytes(self.verify(payload_type, key)?).map_err(Refused::Shape)
    }

    /// Compact JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("texts alone"))
    }
}

impl Serialize for Envelope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let signature = Json::Object(vec![
            ("keyid".into(), Json::text(&*self.key)),
            ("sig".into(), Json::text(BASE64.encode(&self.signature))),
        ]);
        Json::Object(vec![
            ("payloadType".into(), Json::text(&*self.payload_type)),
            ("payload".into(), Json::text(BASE64.encode(&self.payload))),
            ("signatures".into(), Json::List(vec![signature])),
        ])
        .serialize(serializer)
    }
}

impl Read for Envelope {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let payload_type = fields.required("payloadType")?;
        let payload = fields.required::<Base64>("payload")?.0;
        let mut signatures: Vec<Signed> = fields.required("signatures")?;
        fields.done()?;
        match (signatures.pop(), signatures.pop()) {
            (Some(signed), None) => {
                Ok(Envelope { payload_type, payload, key: signed.key, signature: signed.signature })
            }
            _ => Err(at.field("signatures").problem("is not one signature")),
        }
    }
}

struct Signed {
    key: String,
    signature: Vec<u8>,
}

impl Read for Signed {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let signed =
            Signed { key: fields.required("keyid")?, signature: fields.required::<Base64>("sig")?.0 };
        fields.done()?;
        Ok(signed)
    }
}

/// Bytes in padded standard base64.
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl Read for Base64 {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let text = String::read(json, at)?;
        BASE64.decode(text.as_bytes()).map(Base64).map_err(|_| at.problem("is not padded standard base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signed() -> (Envelope, MeshKey) {
        let pair = KeyPair::new_operator();
        let envelope = Envelope::sign(PayloadType::Declaration, b"{\"a\":1}".to_vec(), &pair).unwrap();
        (envelope, pair.public_key().parse().unwrap())
    }

    #[test]
    fn the_envelope_has_one_shape() {
        let (envelope, _) = signed();
        let text = String::from_utf8(envelope.to_bytes()).unwrap();
        let start = r#"{"payloadType":"application/vnd.mesh.declaration.v1+json","payload":"eyJhIjoxfQ==","signatures":[{"keyid":"O"#;
        assert!(text.starts_with(start), "{text}");
        assert_eq!(Envelope::parse(text.as_bytes()).unwrap(), envelope);
        for (from, to, what) in [
            ("eyJhIjoxfQ==", "eyJhIjoxfQ", "payload: is not padded standard base64"),
            ("eyJhIjoxfQ==", "eyJhIjoxfR==", "payload: is not padded standard base64"),
            ("[{", "[{\"keyid\":\"a\",\"sig\":\"\"},{", "signatures: is not one signature"),
            ("\"keyid\"", "\"kid\"", "signatures[0]: has no keyid"),
        ] {
            assert_eq!(Envelope::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string(), what);
        }
    }

    #[test]
    fn another_type_key_payload_or_signature_is_refused() {
        let (envelope, key) = signed();
        let payload_type = PayloadType::Declaration;
        assert!(envelope.verify(payload_type, &key).is_ok());
        let (_, other) = signed();
        assert_eq!(envelope.verify(payload_type, &other), Err(Refused::Key(key.to_string())));
        let posing = Envelope { key: other.to_string(), ..envelope.clone() };
        assert_eq!(posing.verify(payload_type, &other), Err(Refused::Signature));
        let moved = Envelope { payload_type: PayloadType::Node.to_string(), ..envelope.clone() };
        assert_eq!(moved.verify(PayloadType::Node, &key), Err(Refused::Signature));
        let short = Envelope { signature: envelope.signature[..63].to_vec(), ..envelope };
        assert_eq!(short.verify(payload_type, &key), Err(Refused::Signature));
    }

    #[test]
    fn a_second_spelling_of_a_signature_is_refused() {
        let (mut envelope, key) = signed();
        // Adding the order of the group to s gives another number with the same meaning.
        let order = data_encoding::HEXLOWER
            .decode(b"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
            .unwrap();
        let mut carry = 0;
        for (byte, add) in envelope.signature[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = u8::try_from(sum & 0xFF).unwrap();
            carry = sum >> 8;
        }
        assert_eq!(envelope.verify(PayloadType::Declaration, &key), Err(Refused::Signature));
    }

    #[test]
    fn a_key_of_small_order_signs_nothing() {
        // With this key, and R and s of zero, the plain equation holds for every message.
        let mut raw = vec![14 << 3, 1];
        raw.extend([0; 31]);
        let crc = raw.iter().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            })
        });
        raw.extend(crc.to_le_bytes());
        let key: MeshKey = data_encoding::BASE32_NOPAD.encode(&raw).parse().unwrap();
        let mut signature = vec![1];
        signature.extend([0; 63]);
        assert!(!verify(key.as_str(), b"anything", &signature));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_changed_bit_is_refused(bit in 0usize..(7 + 64) * 8) {
            let (mut envelope, key) = signed();
            let (byte, mask) = (bit / 8, 1 << (bit % 8));
            if byte < 7 { envelope.payload[byte] ^= mask } else { envelope.signature[byte - 7] ^= mask }
            prop_assert_eq!(envelope.verify(PayloadType::Declaration, &key), Err(Refused::Signature));
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = Envelope::parse(&bytes);
        }
    }
}

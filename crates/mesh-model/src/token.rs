//! Tokens: the one-time right to join, as one word that a person carries to the new machine.

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde::Serialize;
use zeroize::{Zeroize, Zeroizing};

use crate::digest::Digest;
use crate::json::{At, Fields, Json, Problem, Read};
use crate::keys::{MeshKey, SealingKey};

const START: &str = "mesh1_";

/// The longest token, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// A seed of an account's key, `SU…`. It is never printed, and overwritten when it is dropped.
pub struct Seed(Zeroizing<String>);

impl Seed {
    /// The text of the seed. Whoever copies it sees to the copy.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The pair that it stands for.
    pub fn pair(&self) -> KeyPair {
        KeyPair::from_seed(&self.0).unwrap_or_else(|_| unreachable!("checked when it was read"))
    }
}

/// What is wrong is told without the text: it is a secret.
impl TryFrom<String> for Seed {
    type Error = String;

    fn try_from(text: String) -> Result<Seed, String> {
        let seed = Seed(Zeroizing::new(text));
        if seed.0.starts_with("SU") && KeyPair::from_seed(&seed.0).is_ok() {
            Ok(seed)
        } else {
            Err("is not a seed of an account (SU…)".into())
        }
    }
}

impl Read for Seed {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        Seed::try_from(String::read(json, at)?).map_err(|why| at.problem(why))
    }
}

/// The right to join once, under one name.
///
/// ```
/// use mesh_model::digest::Digest;
/// use mesh_model::token::{Seed, Token};
/// let seed = || Seed::try_from(nkeys::KeyPair::new_user().seed().unwrap()).unwrap();
/// let token = Token {
///     id: "t1".into(),
///     node: "attic".into(),
///     servers: vec!["tls://bus.example:4222".into()],
///     pin: Some(Digest::of(b"the certificate's public key")),
///     mesh: nkeys::KeyPair::new_operator().public_key().parse().unwrap(),
///     vault: nkeys::XKey::new().public_key().parse().unwrap(),
///     key: seed(),
///     joiner: seed(),
/// };
/// let word = token.to_word();
/// assert!(word.starts_with("mesh1_"));
/// assert_eq!(Token::from_word(&word).unwrap().node, "attic");
/// ```
pub struct Token {
    /// Its id, which is not a secret.
    pub id: String,
    /// The only name that may join with it.
    pub node: String,
    /// Where the bus is.
    pub servers: Vec<String>,
    /// The SHA-256 of the public key of the bus's certificate (its SPKI). Absent where the bus has none.
    pub pin: Option<Digest>,
    /// The mesh's public key.
    pub mesh: MeshKey,
    /// The vault's public key.
    pub vault: SealingKey,
    /// Proves that the token is available; the controller has its public half.
    pub key: Seed,
    /// Opens the bus, for a request to join and nothing else.
    pub joiner: Seed,
}

impl Token {
    /// The one word.
    pub fn to_word(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct Fields<'t> {
            v: u8,
            id: &'t str,
            node: &'t str,
            servers: &'t [String],
            pin: Option<Digest>,
            mesh: &'t MeshKey,
            vault: &'t SealingKey,
            key: &'t str,
            joiner: &'t str,
        }
        let fields = Fields {
            v: 1,
            id: &self.id,
            node: &self.node,
            servers: &self.servers,
            pin: self.pin,
            mesh: &self.mesh,
            vault: &self.vault,
            key: self.key.expose(),
            joiner: self.joiner.expose(),
        };
        let text = serde_json::to_vec(&fields).unwrap_or_else(|_| unreachable!("texts alone"));
        let text = Zeroizing::new(text);
        Zeroizing::new(format!("{START}{}", BASE64URL_NOPAD.encode(&text)))
    }

    /// Reads the one word; blanks around it do not count. No part of the word is in an error.
    pub fn from_word(word: &str) -> Result<Token, Problem> {
        let wrong = |why: &str| Problem::at_root(format!("is not a token: {why}"));
        let word = word.trim();
        let coded = word.strip_prefix(START).ok_or_else(|| wrong("it does not begin with mesh1_"))?;
        if word.len() > MAX_BYTES {
            return Err(wrong("it is too long"));
        }
        let text = BASE64URL_NOPAD.decode(coded.as_bytes());
        let text = Zeroizing::new(text.map_err(|_| wrong("it is cut off or has a wrong character"))?);
        let mut json = Json::parse_bytes(&text).map_err(|_| wrong("it is cut off"))?;
        let token = Token::read(&json, &At::Root);
        json.zeroize();
        token
    }
}

impl Read for Token {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let version: u64 = fields.required("v")?;
        if version != 1 {
            return Err(at.problem(format!("is a token of version {version}, and only 1 is known here")));
        }
        let token = Token {
            id: fields.required("id")?,
            node: fields.required("node")?,
            servers: fields.required("servers")?,
            pin: fields.optional("pin")?,
            mesh: fields.required("mesh")?,
            vault: fields.required("vault")?,
            key: fields.required("key")?,
            joiner: fields.required("joiner")?,
        };
        fields.done()?;
        if token.servers.is_empty() {
            return Err(at.field("servers").problem("names no server"));
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let seed = || Seed::try_from(KeyPair::new_user().seed().unwrap()).unwrap();
        Token {
            id: "t1".into(),
            node: "attic".into(),
            servers: vec!["tls://bus:4222".into(), "tls://bus2:4222".into()],
            pin: None,
            mesh: KeyPair::new_operator().public_key().parse().unwrap(),
            vault: nkeys::XKey::new().public_key().parse().unwrap(),
            key: seed(),
            joiner: seed(),
        }
    }

    #[test]
    fn a_word_brings_everything_back() {
        let token = token();
        let again =
            Token::from_word(&format!(" {}\n", &*token.to_word())).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((&again.servers, &again.mesh, &again.vault), (&token.servers, &token.mesh, &token.vault));
        assert_eq!((again.key.expose(), again.joiner.expose()), (token.key.expose(), token.joiner.expose()));
        assert_eq!(again.key.pair().public_key(), token.key.pair().public_key());
    }

    #[test]
    fn no_error_holds_a_part_of_it() {
        let word = token().to_word();
        let damaged = |change: &dyn Fn(&str) -> String| {
            let text =
                String::from_utf8(BASE64URL_NOPAD.decode(&word.as_bytes()[START.len()..]).unwrap()).unwrap();
            let word = format!("{START}{}", BASE64URL_NOPAD.encode(change(&text).as_bytes()));
            Token::from_word(&word).err().expect("damaged").to_string()
        };
        assert_eq!(
            damaged(&|text| text.replace("\"key\":\"SU", "\"key\":\"SX")),
            "key: is not a seed of an account (SU…)"
        );
        assert_eq!(
            damaged(&|text| text.replace("\"v\":1", "\"v\":2")),
            "is a token of version 2, and only 1 is known here"
        );
        assert_eq!(damaged(&|text| text[..text.len() - 9].to_owned()), "is not a token: it is cut off");
        let short = Token::from_word(&word[..word.len() - 1]).err().unwrap().to_string();
        assert!(short.starts_with("is not a token: it is cut off"), "{short}");
        assert!(Token::from_word("mesh2_abc").is_err() && Token::from_word("").is_err());
    }
}

//! Sealed values: a secret that one machine alone can open, and that says what it is.
//!
//! A sealed value is `sealed:v1:<sender X…>:<recipient X…>:<base64>`. The opened text begins with one line of JSON
//! that names its place; the program that opens it compares that line with what was asked for. So a sealed value cannot be
//! moved to another place.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use nkeys::XKey;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::assignment::Consumer;
use crate::json::text_form;
use crate::keys::SealingKey;
use crate::secret::Secret;

/// How many random bytes each sealing takes. The same ones twice between two keys would give both values away.
pub const NONCE_BYTES: usize = 24;

/// What a sealed value is, and whose: everything of its first line but the revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The mesh's id.
    pub mesh: String,
    /// The node that opens it.
    pub node: String,
    /// The module that uses it.
    pub module: String,
    /// The kind, such as `secret`.
    pub kind: String,
    /// The name within kind and module; for consumers the provision.
    pub name: String,
    /// Of a credential that a provider gets: who has it.
    #[serde(skip)]
    pub of: Option<Consumer>,
}

impl Label {
    /// The first line of the opened text, with its newline.
    fn line(&self, revision: u64) -> Vec<u8> {
        #[derive(Serialize)]
        struct Line<'l> {
            #[serde(flatten)]
            label: &'l Label,
            revision: u64,
            #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
            of: &'l Option<Consumer>,
        }
        let line = Line { label: self, revision, of: &self.of };
        let mut bytes = serde_json::to_vec(&line).unwrap_or_else(|_| unreachable!("texts and a number"));
        bytes.push(b'\n');
        bytes
    }
}

/// A sealed value. What is in it is not known here.
///
/// ```
/// use mesh_model::keys::SealingKey;
/// use mesh_model::sealed::{Label, Sealed};
/// use mesh_model::secret::Secret;
/// use nkeys::XKey;
///
/// let (vault, host) = (XKey::new(), XKey::new());
/// let label = Label {
///     mesh: "m".into(),
///     node: "attic".into(),
///     module: "web".into(),
///     kind: "secret".into(),
///     name: "session-key".into(),
///     of: None,
/// };
/// let nonce = [7; 24]; // in earnest: random
/// let sealed = Sealed::seal(&label, 3, &Secret::copy(b"hunter2"), &vault, &SealingKey::of(&host), nonce).unwrap();
///
/// let received: Sealed = sealed.to_string().parse().unwrap();
/// let opened = received.open(&host, &SealingKey::of(&vault), &label).unwrap();
/// assert_eq!((opened.revision, opened.value.expose()), (3, &b"hunter2"[..]));
///
/// let elsewhere = Label { module: "mail".into(), ..label };
/// assert!(received.open(&host, &SealingKey::of(&vault), &elsewhere).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    sender: SealingKey,
    recipient: SealingKey,
    body: Vec<u8>,
}

/// A value that was opened, and that is what was asked for.
pub struct Opened {
    /// Its revision, which only grows.
    pub revision: u64,
    /// The value, byte for byte.
    pub value: Secret,
}

/// Why a sealed value was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    /// It is sealed by another key than the one that counts.
    Sender,
    /// It is sealed to another key than the one available.
    Recipient,
    /// It was changed, or its keys are not those that it names.
    Damaged,
    /// It is another value than the one that was asked for.
    Other,
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotOpened::Sender => "sealed by another key than the vault's",
            NotOpened::Recipient => "sealed to another key than this one",
            NotOpened::Damaged => "cannot be opened: changed, or sealed with other keys than it names",
            NotOpened::Other => "is another value than the one that was asked for",
        })
    }
}

impl std::error::Error for NotOpened {}

impl Sealed {
    /// Seals a value. The nonce is 24 random bytes, new for each sealing.
    pub fn seal(
        label: &Label,
        revision: u64,
        value: &Secret,
        sender: &XKey,
        recipient: &SealingKey,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Sealed, nkeys::error::Error> {
        let line = label.line(revision);
        let mut text = Zeroizing::new(Vec::with_capacity(line.len() + value.expose().len()));
        text.extend_from_slice(&line);
        text.extend_from_slice(value.expose());
        let body =
            sender.seal_with_nonce(&text, &XKey::from_public_key(recipient.as_str())?, nonce.into())?;
        Ok(Sealed { sender: SealingKey::of(sender), recipient: recipient.clone(), body })
    }

    /// Who sealed it, as it says.
    pub fn sender(&self) -> &SealingKey {
        &self.sender
    }

    /// Who can open it, as it says.
    pub fn recipient(&self) -> &SealingKey {
        &self.recipient
    }

    /// Opens it with the key of this machine. It counts only if `sender` sealed it, and if it is what `label` says.
    pub fn open(&self, pair: &XKey, sender: &SealingKey, label: &Label) -> Result<Opened, NotOpened> {
        if self.sender != *sender {
            return Err(NotOpened::Sender);
        }
        if self.recipient != SealingKey::of(pair) {
            return Err(NotOpened::Recipient);
        }
        let sender = XKey::from_public_key(sender.as_str()).map_err(|_| NotOpened::Sender)?;
        let text = Zeroizing::new(pair.open(&self.body, &sender).map_err(|_| NotOpened::Damaged)?);
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(NotOpened::Other)? + 1;
        let revision = revision_in(&text[..end]).ok_or(NotOpened::Other)?;
        // The line has one spelling, so it is compared as it would be written.
        if text[..end] != label.line(revision) {
            return Err(NotOpened::Other);
        }
        Ok(Opened { revision, value: Secret::copy(&text[end..]) })
    }
}

fn revision_in(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Revision {
        revision: u64,
    }
    serde_json::from_slice::<Revision>(line).ok().map(|line| line.revision)
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sealed:v1:{}:{}:{}", self.sender, self.recipient, BASE64.encode(&self.body))
    }
}

impl FromStr for Sealed {
    type Err = String;

    fn from_str(text: &str) -> Result<Sealed, String> {
        let wrong = || "is not a sealed value (sealed:v1:X…:X…:base64)".to_owned();
        let mut parts = text.strip_prefix("sealed:v1:").ok_or_else(wrong)?.splitn(3, ':');
        let (Some(sender), Some(recipient), Some(body)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong());
        };
        Ok(Sealed {
            sender: sender.parse().map_err(|_| wrong())?,
            recipient: recipient.parse().map_err(|_| wrong())?,
            body: BASE64.decode(body.as_bytes()).map_err(|_| wrong())?,
        })
    }
}

text_form!(Sealed);

#[cfg(test)]
impl Sealed {
    /// A sealed value for tests that look at texts alone.
    pub(crate) fn sample() -> Sealed {
        let label = Label {
            mesh: "m".into(),
            node: "a".into(),
            module: "web".into(),
            kind: "secret".into(),
            name: "k".into(),
            of: None,
        };
        let to = SealingKey::of(&XKey::new());
        Sealed::seal(&label, 1, &Secret::copy(b"x"), &XKey::new(), &to, [0; 24])
            .unwrap_or_else(|error| unreachable!("{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label() -> Label {
        Label {
            mesh: "m".into(),
            node: "a".into(),
            module: "w".into(),
            kind: "secret".into(),
            name: "k".into(),
            of: None,
        }
    }

    fn sealed(value: &[u8]) -> (Sealed, XKey, SealingKey) {
        let (vault, host) = (XKey::new(), XKey::new());
        let recipient = SealingKey::of(&host);
        let sealed = Sealed::seal(&label(), 3, &Secret::copy(value), &vault, &recipient, [1; 24]).unwrap();
        (sealed, host, SealingKey::of(&vault))
    }

    #[test]
    fn the_line_has_one_order() {
        let of = Some(Consumer { node: "n".into(), module: "o".into(), name: "db".into() });
        let line = Label { kind: "consumers".into(), of, ..label() }.line(7);
        assert_eq!(
            std::str::from_utf8(&line).unwrap(),
            "{\"mesh\":\"m\",\"node\":\"a\",\"module\":\"w\",\"kind\":\"consumers\",\"name\":\"k\",\"revision\":7,\"for\":{\"node\":\"n\",\"module\":\"o\",\"name\":\"db\"}}\n"
        );
    }

    #[test]
    fn it_opens_in_its_own_place_alone() {
        let (sealed, host, vault) = sealed(b"x");
        let of = Some(Consumer { node: "n".into(), module: "o".into(), name: "db".into() });
        for other in [
            Label { mesh: "x".into(), ..label() },
            Label { node: "x".into(), ..label() },
            Label { module: "x".into(), ..label() },
            Label { kind: "consumers".into(), ..label() },
            Label { name: "x".into(), ..label() },
            Label { of, ..label() },
        ] {
            assert_eq!(sealed.open(&host, &vault, &other).err(), Some(NotOpened::Other));
        }
        assert_eq!(sealed.open(&XKey::new(), &vault, &label()).err(), Some(NotOpened::Recipient));
        assert_eq!(
            sealed.open(&host, &SealingKey::of(&XKey::new()), &label()).err(),
            Some(NotOpened::Sender)
        );
        let other = SealingKey::of(&XKey::new());
        let posing = Sealed { sender: other.clone(), ..sealed };
        assert_eq!(posing.open(&host, &other, &label()).err(), Some(NotOpened::Damaged));
    }

    #[test]
    fn a_text_has_one_shape() {
        let (sealed, ..) = sealed(b"x");
        let text = sealed.to_string();
        assert!(text.starts_with("sealed:v1:X"));
        for wrong in [
            "",
            "sealed:v1:",
            "sealed:v2:a:b:c",
            &text[..100],
            &format!("{text}="),
            &text.replace("v1:X", "v1:U"),
        ] {
            assert!(wrong.parse::<Sealed>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_value_comes_back_byte_for_byte(value: Vec<u8>) {
            let (sealed, host, vault) = sealed(&value);
            let received: Sealed = sealed.to_string().parse().unwrap();
            let opened = received.open(&host, &vault, &label()).map_err(|why| TestCaseError::fail(why.to_string()))?;
            prop_assert_eq!((opened.revision, opened.value.expose()), (3, &value[..]));
        }

        #[test]
        fn a_changed_byte_is_refused(place: prop::sample::Index, bit in 0u8..8) {
            let (mut sealed, host, vault) = sealed(b"value");
            let place = place.index(sealed.body.len());
            sealed.body[place] ^= 1 << bit;
            prop_assert_eq!(sealed.open(&host, &vault, &label()).err(), Some(NotOpened::Damaged));
        }
    }
}

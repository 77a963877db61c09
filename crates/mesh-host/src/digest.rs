//! Digests of content: plain ones, and keyed ones for whatever carries a secret.
//!
//! A plain digest of a short secret can be guessed by trying, so whatever carries one gets a digest that is keyed with
//! a key of this node (HMAC, RFC 2104).

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use zeroize::Zeroize;

/// The key of this node's keyed digests.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Takes the key's bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Drop for DigestKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(…)")
    }
}

/// A digest as it is recorded and reported: `sha256:` or `keyed:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// The plain digest of `bytes`.
    pub fn plain(bytes: &[u8]) -> Self {
        let mut stream = Stream::new(None);
        stream.update(bytes);
        stream.finish().plain
    }

    /// A plain digest that is known already, by its hexadecimal digits.
    pub fn known(digits: &str) -> Self {
        Self(format!("sha256:{digits}"))
    }

    /// The digest of `bytes` that is keyed with a key of this node.
    pub fn keyed(key: &DigestKey, bytes: &[u8]) -> Self {
        let mut inner = Sha256::new();
        inner.update(pad(key, 0x36));
        inner.update(bytes);
        Self::outer(key, inner)
    }

    fn outer(key: &DigestKey, inner: Sha256) -> Self {
        let mut outer = Sha256::new();
        outer.update(pad(key, 0x5c));
        outer.update(inner.finalize());
        Self(format!("keyed:{}", hex(&outer.finalize())))
    }

    /// Whether it is keyed, so that what it stands for may be a secret.
    pub fn is_keyed(&self) -> bool {
        self.0.starts_with("keyed:")
    }

    /// The text of the record and the report.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn pad(key: &DigestKey, with: u8) -> [u8; 64] {
    let mut block = [with; 64];
    for (byte, key) in block.iter_mut().zip(key.0) {
        *byte ^= key;
    }
    block
}

/// Hexadecimal digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Both digests of one content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The plain one.
    pub plain: Digest,
    /// The keyed one, if it was asked for.
    pub keyed: Option<Digest>,
}

impl Digests {
    /// Whether one of them is `digest`.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.plain == *digest || self.keyed.as_ref() == Some(digest)
    }

    /// The one that may be recorded and reported.
    pub fn to_report(&self) -> &Digest {
        self.keyed.as_ref().unwrap_or(&self.plain)
    }
}

/// Digests of content that is read piece by piece.
pub struct Stream<'a> {
    plain: Sha256,
    keyed: Option<(&'a DigestKey, Sha256)>,
}

impl<'a> Stream<'a> {
    /// Begins; with a key, both digests are made.
    pub fn new(key: Option<&'a DigestKey>) -> Self {
        let keyed = key.map(|key| (key, Sha256::new_with_prefix(pad(key, 0x36))));
        Self { plain: Sha256::new(), keyed }
    }

    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.plain.update(bytes);
        if let Some((_, keyed)) = &mut self.keyed {
            keyed.update(bytes);
        }
    }

    /// Ends.
    pub fn finish(self) -> Digests {
        Digests {
            plain: Digest(format!("sha256:{}", hex(&self.plain.finalize()))),
            keyed: self.keyed.map(|(key, inner)| Digest::outer(key, inner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, DigestKey, Stream};

    #[test]
    fn the_plain_digest_is_sha_256() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::plain(b"abc").as_str(), abc);
    }

    #[test]
    fn the_keyed_digest_is_hmac_sha_256() {
        // RFC 4231, test case 1, whose key of 20 bytes is padded with zeros to 32: the same HMAC.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let want = "keyed:b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        let key = DigestKey::new(key);
        assert_eq!(Digest::keyed(&key, b"Hi There").as_str(), want);
        let mut stream = Stream::new(Some(&key));
        stream.update(b"Hi ");
        stream.update(b"There");
        let both = stream.finish();
        assert_eq!(both.keyed.as_ref().unwrap().as_str(), want);
        assert_eq!(both.plain, Digest::plain(b"Hi There"));
    }
}

//! Digests as the mesh writes them: `sha256:` and 64 lower-case hex digits.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::json::text_form;

/// The SHA-256 of some bytes.
///
/// ```
/// use mesh_model::digest::Digest;
/// let digest = Digest::of(b"");
/// let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(digest.to_string(), text);
/// assert_eq!(text.parse(), Ok(digest));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of exactly these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest of several pieces, each with its length before it, so that no two lists of pieces have one digest.
    pub fn of_pieces(pieces: &[&[u8]]) -> Digest {
        let mut hash = Sha256::new();
        for piece in pieces {
            hash.update((piece.len() as u64).to_be_bytes());
            hash.update(piece);
        }
        Digest(hash.finalize().into())
    }

    /// The 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hex digits alone.
    pub fn hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Digest, String> {
        let hex = text.strip_prefix("sha256:").and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok());
        match hex.map(<[u8; 32]>::try_from) {
            Some(Ok(bytes)) => Ok(Digest(bytes)),
            _ => Err("is not a digest: sha256: and 64 lower-case hex digits".into()),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

text_form!(Digest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling() {
        let text = Digest::of(b"x").to_string();
        for wrong in ["", "sha256:", &text[..70], &text.to_uppercase(), &format!("{text}0"), &text[7..]] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pieces_do_not_run_together() {
        assert_ne!(Digest::of_pieces(&[b"ab", b"c"]), Digest::of_pieces(&[b"a", b"bc"]));
        assert_ne!(Digest::of_pieces(&[b""]), Digest::of_pieces(&[]));
    }
}

use serde::Serialize;

use crate::json::{At, Fields, Json, Problem, Read};
use crate::resource::words;

/// How many random bytes a made secret has.
const BYTES: std::ops::RangeInclusive<u16> = 16..=1024;

words!(
    /// How the random bytes of a made secret are written.
    Alphabet, "way to write a secret" {
        /// RFC 4648 with `-` and `_`, unpadded.
        Base64Url = "base64url",
        /// RFC 4648, padded.
        Base64 = "base64",
        /// Lower-case hex digits.
        Hex = "hex",
        /// The bytes themselves.
        Raw = "raw",
    }
);

/// How the vault makes a secret: 16 to 1 024 random bytes, and how they are written.
///
/// ```
/// use mesh_model::assignment::{Alphabet, Make};
/// use mesh_model::json::Read;
/// let make = Make::from_json_bytes(br#"{"bytes":32,"as":"hex"}"#).unwrap();
/// assert_eq!((make.bytes, make.alphabet), (32, Alphabet::Hex));
/// assert_eq!(make.write(&[0xAB]), b"ab");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Make {
    /// How many random bytes.
    pub bytes: u16,
    /// How they are written.
    #[serde(rename = "as")]
    pub alphabet: Alphabet,
}

impl Make {
    /// The secret that these random bytes become.
    pub fn write(self, random: &[u8]) -> Vec<u8> {
        match self.alphabet {
            Alphabet::Base64Url => data_encoding::BASE64URL_NOPAD.encode(random).into_bytes(),
            Alphabet::Base64 => data_encoding::BASE64.encode(random).into_bytes(),
            Alphabet::Hex => data_encoding::HEXLOWER.encode(random).into_bytes(),
            Alphabet::Raw => random.to_vec(),
        }
    }
}

impl Read for Make {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let make = Make { bytes: fields.required("bytes")?, alphabet: fields.required("as")? };
        fields.done()?;
        if !BYTES.contains(&make.bytes) {
            return Err(at.field("bytes").problem(format!("{} is not from 16 to 1024", make.bytes)));
        }
        Ok(make)
    }
}

//! One line of the journal or of a snapshot: a checksum, a blank, and JSON.
//!
//! The checksum is the first 16 hexadecimal digits of the JSON's SHA-256: a torn or damaged line is told from a whole
//! one, which is all it is for.

use crate::digest::hex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

fn checksum(json: &[u8]) -> String {
    hex(&Sha256::digest(json)[..8])
}

/// Writes `value` as one line.
pub(super) fn write<T: Serialize>(value: &T) -> Vec<u8> {
    let json = serde_json::to_vec(value).expect("the memory is plain data, which JSON can hold");
    let mut line = checksum(&json).into_bytes();
    line.push(b' ');
    line.extend(json);
    line.push(b'\n');
    line
}

/// Reads one line without its end. The error says what is wrong with it.
pub(super) fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let Some((sum, [b' ', json @ ..])) = line.split_at_checked(16) else {
        return Err("it is cut off".to_owned());
    };
    if sum != checksum(json).as_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    serde_json::from_slice(json).map_err(|error| format!("it is of another version: {error}"))
}

//! Public keys as NATS writes them (nkeys): 56 characters with a checksum, the first of which says what the key is.

use nkeys::XKey;

use crate::text::checked_text;

/// How long the text of a public key is.
const PUBLIC_CHARACTERS: usize = 56;

/// The text of a key whose first character is `letter`; its error calls it `what`.
fn public_key(text: &str, letter: char, what: &str) -> Result<String, String> {
    let is_key = text.len() == PUBLIC_CHARACTERS && text.starts_with(letter) && is_readable(text);
    if is_key { Ok(text.to_owned()) } else { Err(format!("is not the {what}")) }
}

checked_text!(
    /// The mesh key, `O…`: signs declarations, node records and answers to joins.
    ///
    /// ```
    /// use mesh_model::keys::MeshKey;
    /// let pair = nkeys::KeyPair::new_operator();
    /// let key: MeshKey = pair.public_key().parse().unwrap();
    /// assert_eq!(key.as_str(), pair.public_key());
    /// assert!("OAAA".parse::<MeshKey>().is_err());
    /// ```
    MeshKey, |text| public_key(text, 'O', "public key of a mesh (O…)")
);
checked_text!(
    /// The key of an account on the bus, `U…`.
    BusKey, |text| public_key(text, 'U', "public key of an account (U…)")
);
checked_text!(
    /// A key that values are sealed to, or by, `X…`.
    SealingKey, |text| public_key(text, 'X', "public key for sealing (X…)")
);

fn is_readable(text: &str) -> bool {
    if text.starts_with('X') {
        XKey::from_public_key(text).is_ok()
    } else {
        nkeys::from_public_key(text).is_ok()
    }
}

impl SealingKey {
    /// The public half of a pair.
    pub fn of(pair: &XKey) -> SealingKey {
        SealingKey(pair.public_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nkeys::KeyPair;

    #[test]
    fn each_kind_takes_its_own_letter_and_a_right_checksum() {
        let (mesh, bus, seal) = (
            KeyPair::new_operator().public_key(),
            KeyPair::new_user().public_key(),
            XKey::new().public_key(),
        );
        assert!(
            mesh.parse::<MeshKey>().is_ok()
                && bus.parse::<BusKey>().is_ok()
                && seal.parse::<SealingKey>().is_ok()
        );
        assert!(
            bus.parse::<MeshKey>().is_err()
                && seal.parse::<BusKey>().is_err()
                && mesh.parse::<SealingKey>().is_err()
        );
        for (place, _) in seal.char_indices().skip(1) {
            let mut wrong = seal.clone();
            let other = if &seal[place..=place] == "A" { "B" } else { "A" };
            wrong.replace_range(place..=place, other);
            assert!(wrong.parse::<SealingKey>().is_err(), "{wrong}");
        }
        for wrong in ["", "O", "X", "SOAAA", &format!("{mesh}A"), &mesh.to_lowercase(), "é"] {
            assert!(wrong.parse::<MeshKey>().is_err() && wrong.parse::<SealingKey>().is_err());
        }
    }
}

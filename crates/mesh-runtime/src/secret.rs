//! Names that nobody may guess.

use nuid::NUID;

/// A name that cannot be guessed from any other of this process, as an inbox needs it: 22 letters and digits.
///
/// `nuid::next` is for names that may be known: those of one process differ in their last characters only.
pub fn secret() -> String {
    NUID::new().next().to_string()
}

#[cfg(test)]
mod tests {
    use super::secret;

    #[test]
    fn a_secret_does_not_resemble_other_names_of_the_process() {
        let others = [nuid::next().to_string(), secret(), nuid::next().to_string()];
        let new = secret();
        assert_eq!(new.len(), 22);
        for other in others {
            let alike = new.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
            assert!(alike < 6, "{new} beside {other}");
        }
    }
}

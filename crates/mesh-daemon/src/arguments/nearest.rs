//! What was probably meant by a word that is not known.

/// How many known words are named at most.
const MOST: usize = 3;

/// The known words that are nearest to `word`, the nearest first: those that differ in few letters, or begin with it.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = word.to_lowercase();
    let length = wanted.chars().count();
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|other| {
            let lower = other.to_lowercase();
            let begins = length >= 2 && lower.starts_with(&wanted);
            let distance = strsim::damerau_levenshtein(&wanted, &lower);
            (begins || distance <= (length / 3).max(1) && distance < length).then_some((distance, other))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// `: did you mean a or b?`, or nothing if no known word is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known)[..] {
        [] => String::new(),
        [one] => format!(": did you mean {one}?"),
        [one, other] => format!(": did you mean {one} or {other}?"),
        [ref several @ .., last] => format!(": did you mean {}, or {last}?", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_seen_through_and_another_word_is_not() {
        let commands = ["serve", "ask", "status", "plan", "permissions"];
        for (word, near) in [
            ("srve", &["serve"][..]),
            ("Serve", &["serve"]),
            ("aks", &["ask"]),
            ("stat", &["status"]),
            ("pe", &["permissions"]),
            ("x", &[]),
            ("everything", &[]),
            ("", &[]),
        ] {
            assert_eq!(nearest(word, commands), near, "{word}");
        }
        assert_eq!(did_you_mean("attc", ["attic", "attic2", "cellar"]), ": did you mean attic?");
        assert_eq!(did_you_mean("attic3", ["attic", "attic2"]), ": did you mean attic or attic2?");
        assert_eq!(did_you_mean("n1", ["n2", "n3", "n4", "n5"]), ": did you mean n2, n3, or n4?");
    }
}

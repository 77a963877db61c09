//! The known name that a mistyped one was probably meant to be.

/// The name of `known` that is nearest to `word`, when it is near enough to be a mistyping of it.
///
/// ```
/// assert_eq!(mesh_model::json::nearest("contnet", ["content", "mode"]), Some("content"));
/// assert_eq!(mesh_model::json::nearest("colour", ["content", "mode"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(word, name), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, name)| name)
}

/// How many characters have to be changed, added, left out or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best.min(rows[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistypings_are_recognised_and_other_words_are_not() {
        assert_eq!(nearest("restart_on", ["restart-on", "reload-on"]), Some("restart-on"));
        assert_eq!(nearest("mdoe", ["mode", "node"]), Some("mode"));
        assert_eq!(nearest("x", ["path"]), None);
        assert_eq!(nearest("", ["path"]), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}

//! What in a text is a placeholder, and what merely looks like one.

use super::Declared;
use super::template::key_at;
use crate::json::nearest;
use crate::registry::ENTRIES;

/// A `${` of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// The text from its first dollar on, at most 64 characters of its line.
    pub text: String,
    /// What it is.
    pub seen: Seen,
}

/// What a `${` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A placeholder, which is filled.
    Placeholder,
    /// A declared placeholder with a dollar too many: one dollar is taken, the rest is text.
    Escaped,
    /// Text, and nothing of ours: `${HOME}`.
    Literal,
    /// Text that looks like a placeholder, and why it is not one.
    LooksLike(String),
}

/// Every `${` of a text, in its order.
///
/// ```
/// use mesh_model::placeholder::{Declared, Seen, lint};
/// let findings = lint("home ${HOME}\nport ${port:http}\n", &Declared::default());
/// assert_eq!(findings[0].seen, Seen::Literal);
/// assert_eq!((findings[1].line, findings[1].column), (2, 6));
/// assert_eq!(findings[1].seen, Seen::LooksLike("port:http is not declared".into()));
/// ```
pub fn lint(text: &str, declared: &Declared) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut at = 0;
        while let Some(dollar) = line[at..].find("${").map(|found| at + found) {
            at = dollar + 1;
            let key = key_at(line, dollar);
            let escaped = dollar > 0 && line.as_bytes()[dollar - 1] == b'$';
            let seen = match key {
                Some(key) if declared.has(key) => {
                    at = dollar + key.len() + "${}".len();
                    if escaped { Seen::Escaped } else { Seen::Placeholder }
                }
                _ => not_declared(&line[dollar + 2..], key),
            };
            let start = line[..dollar].trim_end_matches('$').len();
            findings.push(Finding {
                line: number,
                column: line[..start].chars().count() + 1,
                text: shown(&line[start..], key.map(|key| dollar - start + key.len() + "${}".len())),
                seen,
            });
        }
    }
    findings
}

/// What stands after `${`, where it is not a placeholder.
fn not_declared(inside: &str, key: Option<&str>) -> Seen {
    let looks = |why: String| Seen::LooksLike(why);
    let kinds = || ENTRIES.iter().map(|entry| entry.kind);
    let kind: &str = inside.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
    let after = &inside[kind.len()..];
    if inside.starts_with('}') || inside.starts_with(":}") {
        return looks("it has no kind and no name".into());
    }
    if !after.starts_with(':') {
        return Seen::Literal;
    }
    let known = kinds().any(|known| known == kind);
    match key {
        Some(key) if known => looks(format!("{key} is not declared")),
        Some(_) => match nearest(kind, kinds()) {
            Some(near) if !after[1..].starts_with(['-', '=', '?', '+']) => {
                looks(format!("there is no kind {kind}; nearest known: {near}"))
            }
            _ => Seen::Literal,
        },
        None if !known => Seen::Literal,
        None if after.starts_with(":}") => looks("it has no name".into()),
        None => looks("it does not end on its line".into()),
    }
}

fn shown(text: &str, length: Option<usize>) -> String {
    text[..length.unwrap_or(text.len())].chars().take(64).collect()
}

//! Subjects of NATS: tokens, joined by dots.

/// Whether `token` is one literal token of a subject.
pub fn is_token(token: &str) -> bool {
    !token.is_empty() && token != "*" && token != ">" && !token.contains('.')
}

/// Whether `subject` is one literal subject: no token is empty or a wildcard.
pub fn is_literal(subject: &str) -> bool {
    subject.split('.').all(is_token)
}

/// Whether a server reads `subject` as a pattern: one of its tokens is a wildcard.
pub fn is_pattern(subject: &str) -> bool {
    subject.split('.').any(|token| token == "*" || token == ">")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_gaps_name_no_subject() {
        for literal in ["a", "a.b", "a*.b>", "$KV.x"] {
            assert!(is_literal(literal), "{literal}");
        }
        for other in ["", ".", "a.", ".a", "a..b", "*", "a.*", "a.>", ">"] {
            assert!(!is_literal(other), "{other}");
            assert_eq!(is_pattern(other), other.contains(['*', '>']), "{other}");
        }
    }
}

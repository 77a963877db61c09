//! What common JSON parsers reject although the grammar allows it: one such value would make a whole page unreadable
//! for them.

/// How deep a value may be nested. Parsers allow 100 to 1000 levels; a page takes three of them itself.
const MAX_DEPTH: usize = 100;

/// Why strict parsers reject `text`, which is JSON; `None` if they do not.
pub(super) fn fault(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut in_string) = (0, 0_usize, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if bytes.get(at + 1) == Some(&b'u') => match escaped(bytes, at) {
                Some(0xD800..=0xDBFF) if matches!(escaped(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 6,
                Some(0xD800..=0xDFFF) => {
                    return Some("it contains an unpaired surrogate".to_owned());
                }
                _ => {}
            },
            // The next character is part of the escape, whatever it is.
            b'\\' => at += 1,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(format!("it is nested deeper than {MAX_DEPTH}"));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The code unit of the escape at `at`, if there is one.
fn escaped(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_refused_and_brackets_in_strings_do_not_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(fault(&nested(MAX_DEPTH)), None);
        assert_eq!(fault(&nested(MAX_DEPTH + 1)), Some("it is nested deeper than 100".to_owned()));
        assert_eq!(fault(&format!("[{}1]", "[],".repeat(500))), None, "many, none of them deep");
        assert_eq!(fault(&format!(r#"["\"{}"]"#, "[".repeat(500))), None);
        assert!(fault(&format!(r#"{{"\\":{}}}"#, nested(MAX_DEPTH))).is_some());
    }

    #[test]
    fn half_of_a_surrogate_pair_is_refused_and_a_whole_one_is_not() {
        for text in [r#""\ud800""#, r#""\uDC00""#, r#""\ud800A""#, r#"{"\udbff\ud800":1}"#, r#""\ud800\n""#] {
            assert!(fault(text).is_some(), "{text}");
        }
        for text in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""A\\""#, r#""\u00e9""#] {
            assert_eq!(fault(text), None, "{text}");
        }
    }
}

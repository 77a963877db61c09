//! Names, and the one spelling that each has as a token of a key (PROTOCOL.md, "Names and tokens").
//!
//! A token of a subject cannot contain spaces, dots or wildcards, and a name may contain any of them. So every byte
//! outside `A-Z a-z 0-9 - _ /` is spelled `=` and two upper-case hex digits. Only that spelling is accepted: two
//! different keys never mean the same name.

use std::fmt;

/// The longest name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 255;

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAName {
    /// It is empty.
    Empty,
    /// It is longer than [`MAX_NAME_BYTES`].
    TooLong,
    /// It contains a control character or a line separator.
    Control(char),
}

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAName::Empty => f.write_str("is empty"),
            NotAName::TooLong => write!(f, "is longer than {MAX_NAME_BYTES} bytes"),
            NotAName::Control(c) => write!(f, "contains the control character U+{:04X}", u32::from(*c)),
        }
    }
}

/// Why a token is not the spelling of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadToken {
    /// A byte that must be escaped is not.
    Byte(u8),
    /// An `=` that is not followed by two upper-case hex digits.
    BadEscape,
    /// An escape for a byte that needs none, such as `=61` for `a`.
    NeedlessEscape(u8),
    /// The bytes it spells are not UTF-8.
    NotUtf8,
    /// It spells a text that is not a name.
    Name(NotAName),
}

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadToken::Byte(byte) => write!(f, "contains the byte 0x{byte:02X}, which is written ={byte:02X}"),
            BadToken::BadEscape => f.write_str("has a = that is not followed by two upper-case hex digits"),
            BadToken::NeedlessEscape(byte) => {
                write!(f, "spells ={byte:02X} for {:?}, which stands for itself", char::from(*byte))
            }
            BadToken::NotUtf8 => f.write_str("spells bytes that are not UTF-8"),
            BadToken::Name(why) => write!(f, "spells a name that {why}"),
        }
    }
}

/// Whether `name` is a name: not empty, at most [`MAX_NAME_BYTES`], no control characters and no line separators.
pub fn check(name: &str) -> Result<(), NotAName> {
    if name.is_empty() {
        return Err(NotAName::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(NotAName::TooLong);
    }
    match name.chars().find(|&c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(NotAName::Control(c)),
        None => Ok(()),
    }
}

/// The token that spells `name`, which the caller has checked.
///
/// ```
/// use mesh_model::name::encode;
///
/// assert_eq!(encode("web-1/a_b"), "web-1/a_b");
/// assert_eq!(encode("shell:zsh:normal"), "shell=3Azsh=3Anormal");
/// assert_eq!(encode("a.b"), "a=2Eb");
/// assert_eq!(encode("é"), "=C3=A9");
/// ```
pub fn encode(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        if stands_for_itself(byte) {
            token.push(char::from(byte));
        } else {
            token.push('=');
            token.push(hex_digit(byte >> 4));
            token.push(hex_digit(byte & 0xF));
        }
    }
    token
}

/// The name that `token` spells. No other spelling of a name is accepted.
///
/// ```
/// use mesh_model::name::{BadToken, decode};
///
/// assert_eq!(decode("shell=3Azsh=3Anormal").unwrap(), "shell:zsh:normal");
/// assert_eq!(decode("a:b"), Err(BadToken::Byte(b':')));
/// assert_eq!(decode("=61"), Err(BadToken::NeedlessEscape(b'a')));
/// assert_eq!(decode("a=3a"), Err(BadToken::BadEscape));
/// ```
pub fn decode(token: &str) -> Result<String, BadToken> {
    let mut name = Vec::with_capacity(token.len());
    let mut bytes = token.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'=' {
            let (Some(high), Some(low)) =
                (bytes.next().and_then(hex_value), bytes.next().and_then(hex_value))
            else {
                return Err(BadToken::BadEscape);
            };
            let escaped = high << 4 | low;
            if stands_for_itself(escaped) {
                return Err(BadToken::NeedlessEscape(escaped));
            }
            name.push(escaped);
        } else if stands_for_itself(byte) {
            name.push(byte);
        } else {
            return Err(BadToken::Byte(byte));
        }
    }
    let name = String::from_utf8(name).map_err(|_| BadToken::NotUtf8)?;
    check(&name).map_err(BadToken::Name)?;
    Ok(name)
}

fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/')
}

fn hex_digit(nibble: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(nibble & 0xF)])
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        for (name, token) in [
            ("shell:zsh:normal", "shell=3Azsh=3Anormal"),
            ("a.b", "a=2Eb"),
            ("=", "=3D"),
            ("é", "=C3=A9"),
            ("n1", "n1"),
            ("a-b_c/d", "a-b_c/d"),
            ("*", "=2A"),
            (">", "=3E"),
            ("a b", "a=20b"),
        ] {
            assert_eq!(encode(name), token);
            assert_eq!(decode(token), Ok(name.to_owned()));
        }
    }

    #[test]
    fn any_other_spelling_is_said_with_its_reason() {
        for (token, why) in [
            ("=3a", BadToken::BadEscape),
            ("=ZZ", BadToken::BadEscape),
            ("a=4", BadToken::BadEscape),
            ("=", BadToken::BadEscape),
            ("=61", BadToken::NeedlessEscape(b'a')),
            ("=2F", BadToken::NeedlessEscape(b'/')),
            ("=FF", BadToken::NotUtf8),
            ("=C3", BadToken::NotUtf8),
            ("=00", BadToken::Name(NotAName::Control('\0'))),
            ("=E2=80=A8", BadToken::Name(NotAName::Control('\u{2028}'))),
            ("a:b", BadToken::Byte(b':')),
            ("é", BadToken::Byte(0xC3)),
            ("*", BadToken::Byte(b'*')),
            ("", BadToken::Name(NotAName::Empty)),
        ] {
            assert_eq!(decode(token), Err(why), "{token}");
        }
    }

    #[test]
    fn a_name_is_bounded_and_has_no_control_characters() {
        assert_eq!(check(""), Err(NotAName::Empty));
        assert_eq!(check(&"x".repeat(255)), Ok(()));
        assert_eq!(check(&"x".repeat(256)), Err(NotAName::TooLong));
        for c in ['\0', '\t', '\r', '\n', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'] {
            assert_eq!(check(&format!("a{c}b")), Err(NotAName::Control(c)));
        }
        assert_eq!(check("${weird} > *"), Ok(()));
    }

    #[test]
    fn every_byte_that_a_name_can_hold_survives_the_round_trip() {
        for code in 0x20..0x2000 {
            let Some(c) = char::from_u32(code).filter(|c| !c.is_control()) else { continue };
            let name = format!("<{c}>");
            assert_eq!(decode(&encode(&name)), Ok(name));
        }
    }
}

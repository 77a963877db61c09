//! Subjects as the client library can read them.
//!
//! The library splits a line at whatever Unicode calls white space, wants UTF-8, and takes lines of 4096 bytes. A
//! nats-server delivers any bytes but space, tab and line ends. A subject that the library would misread is given to it
//! in a form of our own: [`MARK`], then the bytes as ASCII with escapes, cut where it is long. The form is for reports:
//! nothing reads it back, and nobody is answered there, since U+0001 is not printable.

use std::borrow::Cow;

/// What a subject in our own form begins with.
pub const MARK: char = '\u{1}';

/// The longest subject that is passed on as it is, in bytes. Two of them and three numbers fit the library's line.
pub const MAX_SUBJECT_BYTES: usize = 1900;

/// How many characters of a subject in our own form are kept.
const MAX_RESPELT: usize = 400;

/// A subject as the library reads it: as it is where that is possible.
pub fn spell(subject: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(subject) {
        Ok(text) if is_readable(text) => Cow::Borrowed(text),
        _ => Cow::Owned(respell(subject)),
    }
}

/// Whether the library reads `text` as one word, and nobody could take it for our own form.
fn is_readable(text: &str) -> bool {
    text.len() <= MAX_SUBJECT_BYTES
        && !text.starts_with(MARK)
        && (text.bytes().all(|byte| byte.is_ascii_graphic()) || !text.contains(char::is_whitespace))
}

fn respell(subject: &[u8]) -> String {
    let mut spelt = String::from(MARK);
    for character in subject.escape_ascii().map(char::from).take(MAX_RESPELT) {
        // The escape of a space is a space.
        if character == ' ' { spelt.push_str("\\x20") } else { spelt.push(character) }
    }
    spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_subject_stays_as_it_is() {
        for subject in ["_INBOX.a.b", "mesh.größe.東京", "a\u{7f}b", "$KV.x.\u{2}"] {
            assert_eq!(spell(subject.as_bytes()), subject);
        }
    }

    #[test]
    fn white_space_bad_bytes_and_length_are_spelt_in_ascii() {
        assert_eq!(spell("_INBOX.a\u{a0}b".as_bytes()), "\u{1}_INBOX.a\\xc2\\xa0b");
        assert_eq!(spell("a\u{2003}".as_bytes()), "\u{1}a\\xe2\\x80\\x83");
        assert_eq!(spell(b"a\x0bb"), "\u{1}a\\x0bb");
        assert_eq!(spell(b"a\xff"), "\u{1}a\\xff");
        assert_eq!(spell(b"\x01a"), "\u{1}\\x01a", "nobody can pose as our own form");
        let long = spell(&[b'a'; 5000]).into_owned();
        assert_eq!(long.len(), 1 + MAX_RESPELT);
    }
}

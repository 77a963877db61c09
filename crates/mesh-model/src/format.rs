//! Whether a filled text parses as the format that its file declares.
//!
//! What is wrong is told by its place alone: the text may hold secrets, and a parser's message may repeat it.

use std::fmt;

use serde::de::IgnoredAny;

use crate::resource::Format;

/// A text is not what its file declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFormatted {
    /// What it should have been.
    pub format: Format,
    /// The line of the first mistake, from 1, where it is known.
    pub line: Option<usize>,
}

impl fmt::Display for NotFormatted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filled text is not {}", self.format)?;
        match self.line {
            Some(line) => write!(f, ": see line {line}"),
            None => Ok(()),
        }
    }
}

/// Checks a filled text.
///
/// ```
/// use mesh_model::format::check;
/// use mesh_model::resource::Format;
/// assert!(check(Format::Toml, b"a = 1\n").is_ok());
/// let wrong = check(Format::Json, b"{\n\"a\": \"b\"c\"}").unwrap_err();
/// assert_eq!(wrong.to_string(), "the filled text is not json: see line 2");
/// ```
pub fn check(format: Format, bytes: &[u8]) -> Result<(), NotFormatted> {
    let wrong = |line| Err(NotFormatted { format, line });
    let Ok(text) = std::str::from_utf8(bytes) else { return wrong(line_of(bytes, first_foreign(bytes))) };
    match format {
        Format::Json => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(IgnoredAny) => Ok(()),
            Err(error) => wrong(Some(error.line())),
        },
        Format::Toml => match text.parse::<toml_edit::Document<String>>() {
            Ok(_) => Ok(()),
            Err(error) => wrong(error.span().and_then(|span| line_of(bytes, span.start))),
        },
        Format::Ini => first_line(text, is_ini_line).map_or(Ok(()), |line| wrong(Some(line))),
        Format::Env => first_line(text, is_env_line).map_or(Ok(()), |line| wrong(Some(line))),
    }
}

fn line_of(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(..at).map(|before| before.split(|byte| *byte == b'\n').count())
}

/// Where the text stops being UTF-8.
fn first_foreign(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len)
}

/// The number of the first line that is not blank, no comment, and not as `is_right` wants it.
fn first_line(text: &str, is_right: fn(&str) -> bool) -> Option<usize> {
    let wrong = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let trimmed = line.trim();
        !(trimmed.is_empty() || trimmed.starts_with(['#', ';']) || is_right(line))
    };
    text.split('\n').position(wrong).map(|place| place + 1)
}

/// A section in brackets, a name and a value, or the further lines of a value, which are indented.
fn is_ini_line(line: &str) -> bool {
    if line.starts_with([' ', '\t']) {
        return true;
    }
    match line.strip_prefix('[') {
        Some(section) => section.trim_end().strip_suffix(']').is_some_and(|name| !name.is_empty()),
        None => line.split_once(['=', ':']).is_some_and(|(name, _)| !name.trim().is_empty()),
    }
}

/// `NAME=value`.
fn is_env_line(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, value)| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !value.contains('\0')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong_texts() {
        for (format, right, wrong, line) in [
            (Format::Json, "{\"a\":[1,2.50]}", "{\"a\":\n1,}", Some(2)),
            (Format::Json, "1", "", Some(1)),
            (Format::Toml, "[a]\nb = \"c\"\nd = 1979-05-27\n", "[a]\nb = \"c\"d\"\n", Some(2)),
            (Format::Toml, "", "a = 1\na = 2\n", Some(2)),
            (Format::Ini, "; c\n[a]\nb = c\n  more\nd: e\n", "[a]\nb\n", Some(2)),
            (Format::Ini, "", "[]", Some(1)),
            (Format::Env, "# c\nA=b c=d\n\n_B=\n", "A=b\nexport C=d\n", Some(2)),
            (Format::Env, "A=\"x\"\r\n", "A B=c", Some(1)),
        ] {
            assert_eq!(check(format, right.as_bytes()), Ok(()), "{right}");
            assert_eq!(check(format, wrong.as_bytes()), Err(NotFormatted { format, line }), "{wrong}");
        }
        for format in Format::ALL {
            assert_eq!(check(*format, b"A=1\nB=\xFF"), Err(NotFormatted { format: *format, line: Some(2) }));
        }
    }

    #[test]
    fn no_text_is_repeated() {
        for format in Format::ALL {
            let message = check(*format, b"hunter2 \"hunter2\n'hunter2").map_err(|wrong| wrong.to_string());
            assert!(message.is_err_and(|message| !message.contains("hunter2")));
        }
    }
}

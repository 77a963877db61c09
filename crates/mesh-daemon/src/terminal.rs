//! Escapes and colours for terminals.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

/// Replaces every character that could end the line, steer a terminal or turn the reading direction around: a newline
/// becomes `\n`, ESC `\u{1b}`. Text without such a character is returned unchanged.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if is_unsafe(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Line and paragraph separator.
            '\u{2028}' | '\u{2029}'
            // The characters of Unicode's bidirectional algorithm (UAX 9) that have no glyph.
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The style of a piece of text. Colour never carries information alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Plain.
    Plain,
    /// Bold: a title.
    Bold,
    /// Red: wrong, or gone.
    Red,
    /// Green: right, or new.
    Green,
    /// Yellow: needs attention, or changed.
    Yellow,
}

impl Style {
    /// The number of the escape sequence (ECMA-48, SGR).
    const fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Bold => Some("1"),
            Style::Red => Some("31"),
            Style::Green => Some("32"),
            Style::Yellow => Some("33"),
        }
    }
}

/// When text is painted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal that can, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Reads `--color`.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Color::Auto),
            "always" => Ok(Color::Always),
            "never" => Ok(Color::Never),
            _ => Err(format!("{word:?} is not one of auto, always, never")),
        }
    }

    /// Keeps to it from now on. The first word counts.
    pub fn choose(self) {
        CHOSEN.set(self).ok();
    }
}

/// What the person chose with `--color`.
static CHOSEN: OnceLock<Color> = OnceLock::new();

/// Whether text is painted at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// As stdout wants it, and as was chosen.
    pub fn of_stdout() -> Self {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
        let can = variable("NO_COLOR").is_empty() && variable("TERM") != "dumb";
        let chosen = CHOSEN.get().copied().unwrap_or_default();
        Paint {
            on: match chosen {
                Color::Auto => io::stdout().is_terminal() && can,
                Color::Always => true,
                Color::Never => false,
            },
        }
    }

    /// Painted or not, whatever the output is.
    pub const fn of(on: bool) -> Self {
        Paint { on }
    }

    /// `text`, which must be safe on a terminal already, in `style`.
    pub fn paint(self, style: Style, text: &str) -> String {
        match style.code() {
            Some(code) if self.on => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }

    /// One line with control characters escaped, in `style`.
    pub fn line(self, style: Style, line: &str) -> String {
        self.paint(style, &escape(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_reader_is_escaped() {
        for text in ["", "plain", "Grüße, мир, 世界 \u{1f600}", r"a\b"] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
        for (text, escaped) in [
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("\u{1b}[31m\0\u{7f}", r"\u{1b}[31m\u{0}\u{7f}"),
            ("\u{85}\u{9b}2J", r"\u{85}\u{9b}2J"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("\u{202e}\u{2066}\u{200f}\u{61c}é", r"\u{202e}\u{2066}\u{200f}\u{61c}é"),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn only_what_is_on_is_painted() {
        assert_eq!(Paint { on: true }.line(Style::Red, "a\n"), "\u{1b}[31ma\\n\u{1b}[0m");
        assert_eq!(Paint { on: true }.line(Style::Plain, "a"), "a");
        assert_eq!(Paint { on: false }.line(Style::Red, "a"), "a");
        assert_eq!(Paint::of(false), Paint { on: false });
    }
}

//! The screen that text is laid out for: its width in cells, and whether it shows colours.

use crate::terminal::Paint;
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stdout can show.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Its width in cells; `None` where stdout is not a terminal, and lines have no end.
    pub width: Option<usize>,
    /// How text is painted there.
    pub paint: Paint,
}

impl Screen {
    /// The screen of stdout.
    pub fn of_stdout() -> Self {
        // What is not a terminal has no size; one that does not know its own has none either.
        let size = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        Screen { width: size.filter(|width| *width > 0), paint: Paint::of_stdout() }
    }

    /// Whether a person looks at it, rather than a program.
    pub fn is_terminal(self) -> bool {
        io::stdout().is_terminal()
    }
}

/// How many cells a text takes.
pub fn cells(text: &str) -> usize {
    text.width()
}

/// The text in at most `most` cells; what is cut off is shown as `…`.
pub fn cut(text: &str, most: usize) -> String {
    if cells(text) <= most {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > most {
            break;
        }
        cut.push(c);
    }
    if most > 0 {
        cut.push('…');
    }
    cut
}

/// The text in lines of at most `most` cells, broken at spaces. Each but the first begins with `indent` spaces. A word
/// that is wider than a line stays whole, so that it can be copied.
pub fn wrap(text: &str, most: Option<usize>, indent: usize) -> String {
    let Some(most) = most else { return text.to_owned() };
    let mut wrapped = String::new();
    let mut used = 0;
    let new_line = |wrapped: &mut String| {
        wrapped.push('\n');
        wrapped.extend(std::iter::repeat_n(' ', indent));
        indent
    };
    for (at, word) in text.split(' ').enumerate() {
        let width = cells(word);
        if at > 0 && used + 1 + width > most && used > indent {
            used = new_line(&mut wrapped);
        } else if at > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += width;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured_in_cells() {
        assert_eq!(["web", "世界", "é", "e\u{301}", ""].map(cells), [3, 4, 1, 1, 0]);
        assert_eq!(cut("世界世界", 5), "世界…");
        assert_eq!(cut("世界世界", 4), "世…");
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".to_owned(), String::new()));
    }

    #[test]
    fn a_long_sentence_is_broken_at_its_spaces() {
        assert_eq!(wrap("one two three four", Some(9), 2), "one two\n  three\n  four");
        assert_eq!(wrap("one two", None, 2), "one two");
        assert_eq!(wrap("a very-long-word b", Some(6), 0), "a\nvery-long-word\nb");
        assert_eq!(wrap("世界 世界", Some(5), 1), "世界\n 世界");
    }
}

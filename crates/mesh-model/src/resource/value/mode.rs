use std::fmt;
use std::str::FromStr;

use crate::json::text_form;

/// A file's mode: twelve bits, written as three or four octal digits.
///
/// ```
/// use mesh_model::resource::Mode;
/// assert_eq!("4755".parse::<Mode>().unwrap().bits(), 0o4755);
/// assert!("0888".parse::<Mode>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u16);

impl Mode {
    /// The mode with these bits, of which the lowest twelve count.
    pub const fn new(bits: u16) -> Mode {
        Mode(bits & 0o7777)
    }

    /// The twelve bits, with setuid, setgid and sticky.
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        match u16::from_str_radix(text, 8) {
            Ok(bits) if octal => Ok(Mode(bits)),
            _ => Err(format!("{text:?} is not a mode: three or four octal digits such as \"0644\"")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

text_form!(Mode);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_or_four_octal_digits() {
        for (text, bits) in [("644", 0o644), ("0644", 0o644), ("1777", 0o1777), ("000", 0)] {
            assert_eq!(text.parse::<Mode>().unwrap().bits(), bits);
        }
        for text in ["", "44", "00644", "8", "+644", "0o644", "-rw", "64４"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
        assert_eq!(Mode::new(0o644).to_string(), "0644");
    }
}

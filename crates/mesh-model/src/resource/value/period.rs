use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::json::text_form;

/// A length of time: a whole number and its unit, `ms`, `s`, `m`, `h` or `d`. At most a year.
///
/// ```
/// use std::time::Duration;
/// use mesh_model::resource::Period;
/// assert_eq!("2s".parse::<Period>().unwrap().duration(), Duration::from_secs(2));
/// assert_eq!("90s".parse::<Period>().unwrap(), "90000ms".parse().unwrap());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Period {
    /// That many seconds.
    pub const fn seconds(seconds: u64) -> Period {
        Period(Duration::from_secs(seconds))
    }

    /// The length.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let wrong =
            || format!("{text:?} is not a duration: a whole number and ms, s, m, h or d, such as \"2s\"");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let milliseconds = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(*factor))
            .ok_or_else(wrong)?;
        let length = Duration::from_millis(milliseconds);
        if length > LONGEST { Err(format!("{text:?} is longer than a year")) } else { Ok(Period(length)) }
    }
}

/// In the largest unit that leaves no rest.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if milliseconds == 0 {
            return f.write_str("0s");
        }
        match UNITS.iter().rev().find(|(_, factor)| milliseconds % factor == 0) {
            Some((unit, factor)) => write!(f, "{}{unit}", milliseconds / factor),
            None => write!(f, "{milliseconds}ms"),
        }
    }
}

text_form!(Period);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_and_one_unit() {
        for (text, shown) in
            [("2s", "2s"), ("0s", "0s"), ("0ms", "0s"), ("120s", "2m"), ("1500ms", "1500ms"), ("24h", "1d")]
        {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), shown);
        }
        for text in ["", "2", "s", "2 s", "-2s", "1.5s", "1h30m", "2S", "99999999999999999999s", "367d"] {
            assert!(text.parse::<Period>().is_err(), "{text:?}");
        }
    }
}

//! Lengths of time as people write and read them.

use std::fmt::Write;
use std::time::Duration;

/// The units, the largest first. `ms` comes before `m`, or it would be read as minutes.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("ms", 1), ("m", 60_000), ("s", 1000)];

/// How a length of time is written, for messages.
pub const WRITTEN: &str = "90s, 30m, 1h30m, 1d, or a number of seconds";

/// Reads a length of time: `90s`, `30m`, `1h30m`, `1d`, `500ms`, or a plain number of seconds. It must lie within
/// `bounds`, which the error names.
pub fn parse(text: &str, bounds: std::ops::RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = read(text).ok_or_else(|| format!("{text:?} is not a length of time: write {WRITTEN}"))?;
    if bounds.contains(&time) {
        Ok(time)
    } else {
        let (least, most) = (exact(*bounds.start()), exact(*bounds.end()));
        Err(format!("{text:?} is out of bounds: from {least} to {most}"))
    }
}

fn read(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return text.starts_with(|c: char| c.is_ascii_digit()).then(|| Duration::from_secs(seconds.into()));
    }
    let mut rest = text;
    let mut sum: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        let (unit, millis) = UNITS.into_iter().find(|(unit, _)| rest[digits..].starts_with(unit))?;
        // Each unit once, the larger before the smaller.
        if millis >= last {
            return None;
        }
        last = millis;
        sum = sum.checked_add(u64::from(number).checked_mul(millis)?)?;
        rest = &rest[digits + unit.len()..];
    }
    (last != u64::MAX).then(|| Duration::from_millis(sum))
}

/// A length of time in all its units, as [`parse`] reads it.
pub fn exact(time: Duration) -> String {
    let mut rest = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    let mut units = UNITS;
    units.sort_unstable_by_key(|(_, millis)| std::cmp::Reverse(*millis));
    for (unit, millis) in units {
        if rest >= millis {
            write!(text, "{}{unit}", rest / millis).ok();
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// An age as people say it: in its largest unit, one word.
pub fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", seconds / 60),
        seconds @ 7200..=172_799 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn seconds(text: &str) -> Option<f64> {
        parse(text, Duration::ZERO..=DAY * 1000).ok().map(|time| time.as_secs_f64())
    }

    #[test]
    fn a_length_of_time_is_read_with_its_units_or_in_seconds() {
        for (text, right) in [
            ("90s", 90.0),
            ("30m", 1800.0),
            ("1h30m", 5400.0),
            ("1d", 86_400.0),
            ("1d2h3m4s", 93_784.0),
            ("500ms", 0.5),
            ("1s500ms", 1.5),
            ("86400", 86_400.0),
            ("0", 0.0),
        ] {
            assert_eq!(seconds(text), Some(right), "{text}");
        }
        for bad in
            ["", "h", "1 h", "-1s", "+1", "1.5h", "1h1h", "1m1h", "1w", "é", "1hé", "99999999999999h", "1h5"]
        {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_bounds_are_named() {
        let bounds = Duration::from_millis(100)..=DAY * 366;
        assert_eq!(
            parse("50ms", bounds.clone()),
            Err("\"50ms\" is out of bounds: from 100ms to 366d".to_owned())
        );
        assert_eq!(
            parse("soon", bounds),
            Err("\"soon\" is not a length of time: write 90s, 30m, 1h30m, 1d, or a number of seconds"
                .to_owned())
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["0s", "1s", "1m30s", "1h", "1d1h", "100ms", "366d"] {
            let time = parse(text, Duration::ZERO..=DAY * 1000).unwrap();
            assert_eq!(exact(time), text);
        }
    }

    #[test]
    fn an_age_is_one_word() {
        let told =
            [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(told, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}

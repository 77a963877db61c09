use std::fmt;
use std::str::FromStr;

use crate::json::text_form;

/// When a container runs: minute, hour, day of the month, month and day of the week, as `cron` writes them.
///
/// Each field is `*` or a list of numbers, names and ranges, each with a step: `*/15`, `8-18/2`, `mon-fri`, `jan,jul`.
/// Sunday is `0`, `7` or `sun`. Where both days are given, either is enough. A schedule that never comes, such as the
/// 30th of February, is refused.
///
/// ```
/// use mesh_model::resource::Schedule;
/// let nights: Schedule = "30 3 * * mon-fri".parse().unwrap();
/// assert!(nights.hours().eq([3]) && nights.minutes().eq([30]));
/// assert!(nights.is_day(14, 7, 1) && !nights.is_day(14, 7, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    /// A bit for each number; whether the field began with `*`.
    fields: [(u64, bool); 5],
}

struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, names: &[] },
    Field { name: "hour", first: 0, last: 23, names: &[] },
    Field { name: "day", first: 1, last: 31, names: &[] },
    Field { name: "month", first: 1, last: 12, names: MONTHS },
    Field { name: "weekday", first: 0, last: 7, names: WEEKDAYS },
];
const LONGEST_MONTHS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Schedule {
    /// The minutes of an hour at which it runs, rising.
    pub fn minutes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..60).filter(|minute| self.has(0, *minute))
    }

    /// The hours of a day at which it runs, rising.
    pub fn hours(&self) -> impl Iterator<Item = u8> + '_ {
        (0..24).filter(|hour| self.has(1, *hour))
    }

    /// Whether the hours are left open (`*`, with a step or not), so that it runs by elapsed time when clocks change.
    pub fn any_hour(&self) -> bool {
        self.fields[1].1
    }

    /// Whether it runs on that day: of the month from 1, month from 1, of the week from 0, Sunday.
    pub fn is_day(&self, day: u8, month: u8, weekday: u8) -> bool {
        let (by_day, by_weekday) = (self.has(2, day), self.has(4, weekday % 7));
        let days = match (self.fields[2].1, self.fields[4].1) {
            (false, false) => by_day || by_weekday,
            _ => by_day && by_weekday,
        };
        days && self.has(3, month)
    }

    fn has(&self, field: usize, number: u8) -> bool {
        self.fields[field].0 & (1 << number) != 0
    }

    /// Whether there is a day on which it runs.
    fn comes(&self) -> bool {
        (1..=12)
            .zip(LONGEST_MONTHS)
            .any(|(month, days)| (1..=days).any(|day| (0..7).any(|weekday| self.is_day(day, month, weekday))))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let words: [&str; 5] = words.as_slice().try_into().map_err(|_| {
            format!(
                "{text:?} is not a schedule: minute, hour, day, month and weekday, such as \"30 3 * * mon-fri\""
            )
        })?;
        let mut fields = [(0, false); 5];
        for ((place, word), field) in words.iter().enumerate().zip(&FIELDS) {
            let bits = field
                .read(word)
                .map_err(|why| format!("{text:?} is not a schedule: {}: {why}", field.name))?;
            fields[place] = (bits, word.starts_with('*'));
        }
        // Sunday has two numbers, and is kept as the first.
        fields[4].0 = (fields[4].0 | fields[4].0 >> 7) & 0x7F;
        let schedule = Schedule { text: words.join(" "), fields };
        if schedule.comes() {
            Ok(schedule)
        } else {
            Err(format!("{text:?} never comes: no month has that day"))
        }
    }
}

impl Field {
    fn read(&self, word: &str) -> Result<u64, String> {
        let mut bits = 0;
        for part in word.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, number(step).filter(|step| *step > 0)),
                None => (part, Some(1)),
            };
            let step = step.ok_or_else(|| format!("{part:?} has no step above 0"))?;
            let (first, last) = match range.split_once('-') {
                _ if range == "*" => (self.first, self.last_of_all()),
                Some((first, last)) => (self.number(first)?, self.number(last)?),
                None if part.contains('/') => return Err(format!("{part:?} has a step without a range")),
                None => (self.number(range)?, self.number(range)?),
            };
            if first > last {
                return Err(format!("{part:?} ends before it begins"));
            }
            bits |= (first..=last).step_by(usize::from(step)).fold(0, |bits, number| bits | 1 << number);
        }
        Ok(bits)
    }

    /// Where `*` ends: Sunday is counted once.
    fn last_of_all(&self) -> u8 {
        if self.names == WEEKDAYS { 6 } else { self.last }
    }

    fn number(&self, word: &str) -> Result<u8, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let number = match named {
            Some(place) => u8::try_from(place).ok().map(|place| place + self.first),
            None => number(word),
        };
        number
            .filter(|number| (self.first..=self.last).contains(number))
            .ok_or_else(|| format!("{word:?} is not from {} to {}", self.first, self.last))
    }
}

fn number(word: &str) -> Option<u8> {
    if word.bytes().all(|b| b.is_ascii_digit()) { word.parse().ok() } else { None }
}

/// As it was written, with single spaces.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_form!(Schedule);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn lists_ranges_steps_and_names() {
        assert!(schedule("*/15 * * * *").minutes().eq([0, 15, 30, 45]));
        assert!(schedule("1,5-7 * * * *").minutes().eq([1, 5, 6, 7]));
        assert!(schedule("0 8-18/5 * * *").hours().eq([8, 13, 18]));
        let summer = schedule("0 0 1 jun-aug *");
        assert!(summer.is_day(1, 7, 3) && !summer.is_day(1, 9, 3) && !summer.is_day(2, 7, 3));
        for sunday in ["0", "7", "sun", "SUN", "5-7"] {
            assert!(schedule(&format!("0 0 * * {sunday}")).is_day(9, 9, 0), "{sunday}");
        }
    }

    #[test]
    fn both_days_mean_either_and_a_star_leaves_the_other() {
        let both = schedule("0 0 13 * fri");
        assert!(both.is_day(13, 1, 2) && both.is_day(1, 1, 5) && !both.is_day(1, 1, 2));
        let one = schedule("0 0 13 * *");
        assert!(one.is_day(13, 1, 2) && !one.is_day(1, 1, 5));
    }

    #[test]
    fn open_hours_are_told_from_fixed_ones() {
        assert!(schedule("0 * * * *").any_hour() && schedule("0 */2 * * *").any_hour());
        assert!(!schedule("0 3 * * *").any_hour() && !schedule("0 0-23 * * *").any_hour());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("* * * *", "minute, hour, day, month and weekday"),
            ("60 * * * *", "minute: \"60\" is not from 0 to 59"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "weekday"),
            ("*/0 * * * *", "has no step above 0"),
            ("5/10 * * * *", "a step without a range"),
            ("9-5 * * * *", "ends before it begins"),
            ("+5 * * * *", "\"+5\" is not"),
            ("* * * * fri-mon", "ends before it begins"),
            ("0 0 30 feb *", "never comes"),
            ("0 0 31 4,6 *", "never comes"),
            ("@daily", "is not a schedule"),
        ] {
            let why = text.parse::<Schedule>().unwrap_err();
            assert!(why.contains(what), "{text}: {why}");
        }
        schedule("0 0 29 feb *");
        schedule("0 0 30 feb mon");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-*/,0-9a-z ]{0,40}") {
            if let Ok(schedule) = text.parse::<Schedule>() {
                prop_assert_eq!(&schedule.to_string().parse::<Schedule>().unwrap(), &schedule);
                prop_assert!(schedule.minutes().count() > 0 && schedule.hours().count() > 0);
            }
        }
    }
}

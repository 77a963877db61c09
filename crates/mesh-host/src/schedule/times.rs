//! When a schedule comes next, in a zone whose clocks change.
//!
//! - A fixed hour that comes twice in a night runs once, the first time. One that is missing runs when the missing time
//!   ends. Several missing times of one night are one run.
//! - Hours that are left open (`*`, `*/2`) run by elapsed time: in the hour that comes twice they run twice, and what is
//!   missing is not made up.

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use mesh_model::resource::Schedule;

/// How far ahead is looked: the 29th of February may be eight years away, and fall on any weekday within forty.
const MAX_DAYS: u32 = 366 * 41;

/// The first time after `after` at which the schedule comes; `None`: never.
pub fn next(schedule: &Schedule, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    // A day earlier: a time of yesterday's date may be missing there and run today.
    let mut date = zone.to_datetime(after).date().yesterday().ok()?;
    for _ in 0..MAX_DAYS {
        if is_day(schedule, date) {
            let found = times(schedule, zone, date).into_iter().filter(|time| *time > after).min();
            // Of the day after, nothing is earlier.
            if found.is_some() {
                return found;
            }
        }
        date = date.tomorrow().ok()?;
    }
    None
}

fn is_day(schedule: &Schedule, date: Date) -> bool {
    let [day, month, weekday] =
        [date.day(), date.month(), date.weekday().to_sunday_zero_offset()].map(i8::unsigned_abs);
    schedule.is_day(day, month, weekday)
}

/// All times of one local day.
fn times(schedule: &Schedule, zone: &TimeZone, date: Date) -> Vec<Timestamp> {
    let mut found = Vec::new();
    for hour in schedule.hours() {
        for minute in schedule.minutes() {
            let [hour, minute] = [hour, minute].map(u8::cast_signed);
            let local = date.at(hour, minute, 0, 0);
            match zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Unambiguous { offset } => found.extend(offset.to_timestamp(local)),
                AmbiguousOffset::Fold { before, after } => {
                    found.extend(before.to_timestamp(local));
                    if schedule.any_hour() {
                        found.extend(after.to_timestamp(local));
                    }
                }
                // With the offset of afterwards, the time would lie before the change.
                AmbiguousOffset::Gap { after, .. } if !schedule.any_hour() => {
                    let earlier = after.to_timestamp(local).ok();
                    let earlier =
                        earlier.and_then(|time| time.checked_sub(SignedDuration::from_secs(1)).ok());
                    found.extend(earlier.and_then(|time| Some(zone.following(time).next()?.timestamp())));
                }
                AmbiguousOffset::Gap { .. } => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::next;
    use crate::schedule::zone;
    use jiff::{SignedDuration, Timestamp};

    /// The next `count` times after `after`, as they are written in UTC.
    fn times(schedule: &str, zone_name: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = schedule.parse().unwrap();
        let zone = zone(Some(zone_name)).unwrap();
        let mut after: Timestamp = after.parse().unwrap();
        let mut found = Vec::new();
        for _ in 0..count {
            after = next(&schedule, &zone, after).unwrap();
            found.push(after.to_string());
        }
        found
    }

    #[test]
    fn lists_ranges_steps_and_names_in_utc() {
        let times = |schedule, count| times(schedule, "UTC", "2026-11-30T23:59:30Z", count);
        assert_eq!(times("*/20 * * * *", 2), ["2026-12-01T00:00:00Z", "2026-12-01T00:20:00Z"]);
        assert_eq!(times("0 8-18/5 * * mon-fri", 2), ["2026-12-01T08:00:00Z", "2026-12-01T13:00:00Z"]);
        assert_eq!(times("30 4 1,15 jan *", 2), ["2027-01-01T04:30:00Z", "2027-01-15T04:30:00Z"]);
        // Both days set mean either.
        assert_eq!(times("0 0 3 * sun", 2), ["2026-12-03T00:00:00Z", "2026-12-06T00:00:00Z"]);
        assert_eq!(times("0 0 29 feb *", 1), ["2028-02-29T00:00:00Z"]);
        // Strictly later than the time itself.
        let schedule = "0 0 * * *".parse().unwrap();
        let midnight: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let found = next(&schedule, &zone(None).unwrap(), midnight);
        assert_eq!(found, Some(midnight + SignedDuration::from_hours(24)));
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert!(zone(Some("Mars/Olympus")).unwrap_err().contains("Mars/Olympus"));
    }

    #[test]
    fn h99_a_missing_hour_runs_at_its_end_and_a_repeated_one_once() {
        // Zone; the noon before the night in which a time is missing, that time, and the run; the same for a time that
        // comes twice.
        let nights = [
            (
                "Europe/Berlin",
                ["2026-03-28T12:00:00Z", "30 2 * * *", "2026-03-29T01:00:00Z"],
                ["2026-10-24T12:00:00Z", "30 2 * * *", "2026-10-25T00:30:00Z"],
            ),
            (
                "America/New_York",
                ["2026-03-07T18:00:00Z", "30 2 * * *", "2026-03-08T07:00:00Z"],
                ["2026-10-31T18:00:00Z", "30 1 * * *", "2026-11-01T05:30:00Z"],
            ),
            // Half an hour is missing, or comes twice.
            (
                "Australia/Lord_Howe",
                ["2026-10-03T04:00:00Z", "15 2 * * *", "2026-10-03T15:30:00Z"],
                ["2026-04-04T04:00:00Z", "45 1 * * *", "2026-04-04T14:45:00Z"],
            ),
        ];
        for (zone, missing, twice) in nights {
            for [noon, schedule, at] in [missing, twice] {
                let found = times(schedule, zone, noon, 3);
                assert_eq!(found[0], at, "{zone} {schedule}");
                let found: Vec<Timestamp> = found.iter().map(|time| time.parse().unwrap()).collect();
                for pair in found.windows(2) {
                    let apart = pair[1].duration_since(pair[0]);
                    assert!(apart > SignedDuration::from_hours(22), "{zone} {schedule}: {found:?}");
                    assert!(apart < SignedDuration::from_hours(26), "{zone} {schedule}: {found:?}");
                }
            }
        }
        // Two missing times of one night are one run.
        let found = times("10,40 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(found, ["2026-03-29T01:00:00Z", "2026-03-30T00:10:00Z"]);
    }

    #[test]
    fn open_hours_run_by_elapsed_time() {
        let found = times("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3);
        assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]);
        let found = times("30 * * * *", "Europe/Berlin", "2026-03-28T23:45:00Z", 3);
        assert_eq!(found, ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]);
    }

    #[test]
    fn a_day_that_a_zone_left_out_runs_when_the_next_one_begins() {
        // Samoa had no 30th of December 2011.
        let found = times("0 12 30 dec *", "Pacific/Apia", "2011-12-01T00:00:00Z", 2);
        assert_eq!(found, ["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"]);
    }
}

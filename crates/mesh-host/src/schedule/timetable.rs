//! Which scheduled containers are due: one at a time of each, one catch-up after a pause, and a count of what was
//! skipped.

use super::next;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mesh_model::resource::Schedule;
use std::collections::BTreeMap;

/// How far the clock may go back before everything is planned again: no run is missed or doubled by a small correction.
const BACK: SignedDuration = SignedDuration::from_hours(1);

/// One scheduled container.
#[derive(Clone, Debug)]
pub struct Job {
    /// When it runs.
    pub schedule: Schedule,
    /// The zone of these times.
    pub zone: TimeZone,
    /// Up to when nothing is due any more: the last due time, or when it was first seen.
    pub since: Timestamp,
}

#[derive(Clone, Debug)]
struct Planned {
    job: Job,
    next: Option<Timestamp>,
    running: bool,
}

/// What is to be done about one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is started.
    Start,
    /// It still runs, so this run is left out.
    Skip,
}

/// All scheduled containers of this machine, by name.
#[derive(Clone, Debug, Default)]
pub struct Timetable(BTreeMap<String, Planned>);

impl Timetable {
    /// Takes the jobs that are declared now. One that was there before with the same times goes on.
    pub fn set(&mut self, jobs: BTreeMap<String, Job>) {
        let mut before = std::mem::take(&mut self.0);
        for (name, job) in jobs {
            let old = before.remove(&name);
            let running = old.as_ref().is_some_and(|old| old.running);
            let same = |old: &Planned| old.job.schedule == job.schedule && old.job.zone == job.zone;
            let planned = match old {
                Some(old) if same(&old) => old,
                _ => Planned { next: next(&job.schedule, &job.zone, job.since), job, running },
            };
            self.0.insert(name, planned);
        }
    }

    /// What is due at `now`. However many times were missed, it is one run.
    pub fn due(&mut self, now: Timestamp) -> Vec<(String, Due)> {
        let mut found = Vec::new();
        for (name, planned) in &mut self.0 {
            if planned.job.since > now + BACK {
                planned.job.since = now;
                planned.next = next(&planned.job.schedule, &planned.job.zone, now);
            }
            if planned.next.is_none_or(|next| next > now) {
                continue;
            }
            planned.job.since = now;
            planned.next = next(&planned.job.schedule, &planned.job.zone, now);
            let due = if planned.running { Due::Skip } else { Due::Start };
            planned.running = true;
            found.push((name.clone(), due));
        }
        found
    }

    /// A run has ended.
    pub fn ended(&mut self, name: &str) {
        if let Some(planned) = self.0.get_mut(name) {
            planned.running = false;
        }
    }

    /// When the next run of all is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|planned| planned.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Job, Timetable};
    use crate::schedule::zone;
    use jiff::{SignedDuration, Timestamp};
    use std::collections::BTreeMap;

    fn at(text: &str) -> Timestamp {
        format!("2026-{text}Z").parse().unwrap()
    }

    fn jobs(schedule: &str, since: &str) -> BTreeMap<String, Job> {
        let job = Job { schedule: schedule.parse().unwrap(), zone: zone(None).unwrap(), since: at(since) };
        [("backup".to_owned(), job)].into()
    }

    fn timetable(schedule: &str, since: &str) -> Timetable {
        let mut timetable = Timetable::default();
        timetable.set(jobs(schedule, since));
        timetable
    }

    fn start() -> Vec<(String, Due)> {
        vec![("backup".to_owned(), Due::Start)]
    }

    #[test]
    fn h101_after_three_days_of_silence_there_is_one_run_and_then_the_usual_ones() {
        let mut timetable = timetable("* * * * *", "11-27T10:00:00");
        assert_eq!(timetable.due(at("11-30T10:00:30")), start());
        assert_eq!(timetable.due(at("11-30T10:00:31")), []);
        timetable.ended("backup");
        assert_eq!(timetable.next(), Some(at("11-30T10:01:00")));
        assert_eq!(timetable.due(at("11-30T10:01:00")), start());
    }

    #[test]
    fn h102_a_run_that_outlasts_its_period_is_alone_and_the_others_are_skipped() {
        let mut timetable = timetable("* * * * *", "11-30T10:00:00");
        assert_eq!(timetable.due(at("11-30T10:01:00")), start());
        for minute in 2..5 {
            let due = timetable.due(at(&format!("11-30T10:0{minute}:00")));
            assert_eq!(due, [("backup".to_owned(), Due::Skip)]);
        }
        timetable.ended("backup");
        assert_eq!(timetable.due(at("11-30T10:05:00")), start());
    }

    #[test]
    fn h100_in_the_hour_that_comes_twice_nothing_is_due_again_and_nothing_wakes() {
        let mut jobs = jobs("30 2 * * *", "10-24T12:00:00");
        jobs.get_mut("backup").unwrap().zone = zone(Some("Europe/Berlin")).unwrap();
        let mut timetable = Timetable::default();
        timetable.set(jobs);
        assert_eq!(timetable.due(at("10-25T00:30:00")), start());
        timetable.ended("backup");
        assert_eq!(timetable.next(), Some(at("10-26T01:30:00")));
        assert_eq!(timetable.due(at("10-25T01:30:00")), []);
    }

    #[test]
    fn the_same_times_declared_again_change_nothing_and_other_times_are_planned_anew() {
        let mut timetable = timetable("0 * * * *", "11-30T10:30:00");
        timetable.set(jobs("0 * * * *", "11-30T10:59:00"));
        assert_eq!(timetable.next(), Some(at("11-30T11:00:00")));
        assert_eq!(timetable.due(at("11-30T11:00:00")), start());
        timetable.set(jobs("15 * * * *", "11-30T11:00:00"));
        // The earlier run is still under way.
        assert_eq!(timetable.due(at("11-30T11:15:00")), [("backup".to_owned(), Due::Skip)]);
        timetable.set(BTreeMap::new());
        assert_eq!((timetable.next(), timetable.due(at("12-30T00:00:00"))), (None, vec![]));
    }

    #[test]
    fn a_clock_that_goes_back_by_days_does_not_silence_a_job_for_days() {
        let mut timetable = timetable("0 * * * *", "11-30T10:30:00");
        assert_eq!(timetable.due(at("11-30T11:00:00")), start());
        timetable.ended("backup");
        let back = at("11-20T08:30:00");
        assert_eq!(timetable.due(back), []);
        assert_eq!(timetable.next(), Some(at("11-20T09:00:00")));
        // A small correction plans nothing again.
        assert_eq!(timetable.due(at("11-20T09:00:00")), start());
        timetable.ended("backup");
        assert_eq!(timetable.due(at("11-20T09:00:00") - SignedDuration::from_mins(5)), []);
        assert_eq!(timetable.next(), Some(at("11-20T10:00:00")));
    }
}

//! The clock of the scheduled containers. The timetable is pure; this tells it the time, and stores what it says.

use crate::runs;
use crate::schedule::{Due, Timetable};
use crate::session;
use crate::site::Site;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest sleep: a clock that was set, or a machine that slept, is noticed within it.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) struct Scheduler {
    site: Site,
    timetable: Timetable,
    /// The names of what runs, by child.
    running: BTreeMap<u64, String>,
}

impl Scheduler {
    pub(super) fn new(site: &Site) -> Self {
        Self { site: site.clone(), timetable: Timetable::default(), running: BTreeMap::new() }
    }

    /// Takes what is declared now from the records. A record that cannot be read changes nothing.
    pub(super) fn refresh(&mut self) {
        if !self.site.is_machine() {
            return;
        }
        let memory = match session::memory(&self.site) {
            Ok(memory) => memory,
            Err(trouble) => {
                log::warn!("the schedules cannot be read: {trouble:?}");
                return;
            }
        };
        let now = Timestamp::now();
        let jobs = runs::jobs(&memory, &runs::load(&self.site), now);
        let kept = runs::update(&self.site, |all| {
            // What is new begins now; what is no longer declared is forgotten.
            all.retain(|name, _| jobs.contains_key(name));
            for (name, job) in &jobs {
                let runs = all.entry(name.clone()).or_default();
                if runs.since_s == 0 {
                    runs.since_s = job.since.as_second();
                }
            }
        });
        tell(kept);
        self.timetable.set(jobs);
    }

    /// What is to be started now.
    pub(super) fn due(&mut self) -> Vec<String> {
        let now = Timestamp::now();
        let due = self.timetable.due(now);
        if due.is_empty() {
            return Vec::new();
        }
        // Stored before anything is started: a kill loses a run rather than doubling it.
        let kept = runs::update(&self.site, |all| {
            for (name, due) in &due {
                let runs = all.entry(name.clone()).or_default();
                runs.since_s = now.as_second();
                runs.skipped += u64::from(*due == Due::Skip);
            }
        });
        tell(kept);
        for (name, _) in due.iter().filter(|(_, due)| *due == Due::Skip) {
            log::warn!("the scheduled container {name} still runs, and this time it is left out");
        }
        due.into_iter().filter(|(_, due)| *due == Due::Start).map(|(name, _)| name).collect()
    }

    pub(super) fn started(&mut self, child: u64, name: String) {
        self.running.insert(child, name);
    }

    pub(super) fn not_started(&mut self, name: &str) {
        self.timetable.ended(name);
    }

    /// Whether the child that ended was a run.
    pub(super) fn ended(&mut self, child: u64) -> bool {
        match self.running.remove(&child) {
            Some(name) => {
                self.timetable.ended(&name);
                true
            }
            None => false,
        }
    }

    /// When to look again.
    pub(super) fn wake(&self) -> Option<Instant> {
        let left = self.timetable.next()?.duration_since(Timestamp::now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        Some(Instant::now() + left.min(LONGEST))
    }
}

fn tell(kept: std::io::Result<()>) {
    if let Err(error) = kept {
        log::warn!("the times of schedules cannot be stored: {error}");
    }
}

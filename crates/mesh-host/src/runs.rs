//! What came of the runs of scheduled containers: kept apart from the journal, since no apply depends on it.

use crate::record::{Memory, ScheduleRecord, Written};
use crate::schedule::{Job, next, zone};
use crate::site::Site;
use jiff::Timestamp;
use mesh_model::report::ScheduleReport;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// What is known of the runs of one container. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// Up to when nothing is due any more.
    #[serde(default)]
    pub since_s: i64,
    /// When the last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_s: Option<i64>,
    /// Whether it was well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub well: Option<bool>,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How many runs were left out, since one was still under way.
    #[serde(default)]
    pub skipped: u64,
}

/// The runs of all scheduled containers, by name.
pub type AllRuns = BTreeMap<String, Runs>;

/// A container that is scheduled, as it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'m> {
    /// The container's name.
    pub name: &'m str,
    /// The id of its resource.
    pub id: &'m str,
    /// Of all that it is made from.
    pub digest: &'m crate::digest::Digest,
    /// When and what it runs.
    pub record: &'m ScheduleRecord,
}

/// All scheduled containers.
pub fn scheduled(memory: &Memory) -> impl Iterator<Item = Scheduled<'_>> {
    memory.records.iter().filter_map(|(target, record)| match &record.written {
        Written::Container(container) => Some(Scheduled {
            name: &target.name,
            id: &record.id,
            digest: &container.digest,
            record: container.schedule.as_ref()?,
        }),
        _ => None,
    })
}

/// The jobs of the timetable. One that is new begins at `now`.
pub fn jobs(memory: &Memory, runs: &AllRuns, now: Timestamp) -> BTreeMap<String, Job> {
    let job = |scheduled: Scheduled<'_>| {
        let since = runs.get(scheduled.name).and_then(|runs| Timestamp::from_second(runs.since_s).ok());
        let job = Job {
            schedule: scheduled.record.schedule.parse().ok()?,
            zone: zone(scheduled.record.zone.as_deref()).ok()?,
            since: since.unwrap_or(now),
        };
        Some((scheduled.name.to_owned(), job))
    };
    scheduled(memory).filter_map(job).collect()
}

/// How each schedule stands, as it is reported.
pub fn reports(memory: &Memory, runs: &AllRuns, now: Timestamp) -> Vec<ScheduleReport> {
    let jobs = jobs(memory, runs, now);
    let report = |scheduled: Scheduled<'_>| {
        let known = runs.get(scheduled.name).cloned().unwrap_or_default();
        let next = jobs.get(scheduled.name).and_then(|job| next(&job.schedule, &job.zone, now));
        let last = known.last_s.and_then(|last| Timestamp::from_second(last).ok());
        ScheduleReport {
            id: scheduled.id.to_owned(),
            next: next.map(|next| next.to_string()),
            last: last.map(|last| last.to_string()),
            well: known.well,
            skipped: known.skipped,
        }
    };
    scheduled(memory).map(report).collect()
}

/// Reads what is known. What cannot be read counts as nothing known: only due runs depend on it.
pub fn load(site: &Site) -> AllRuns {
    let bytes = fs::read(site.state().join("runs")).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Changes what is known; one change at a time.
pub fn update(site: &Site, change: impl FnOnce(&mut AllRuns)) -> io::Result<()> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(site.run().join("runs.lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut runs = load(site);
    let before = runs.clone();
    change(&mut runs);
    if runs == before {
        return Ok(());
    }
    let path = site.state().join("runs");
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(&runs).map_err(io::Error::other)?)?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(site.state())?.sync_all()
}

/// The lock of the runs of one container. `None`: one is under way.
pub fn lock(site: &Site, name: &str) -> io::Result<Option<File>> {
    let path = site.run().join(format!("run-{name}.lock"));
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

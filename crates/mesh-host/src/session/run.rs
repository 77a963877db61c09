//! One run of a scheduled container: by its time, or by hand. Takes no lock of the apply, and leaves the journal alone.

use super::{Trouble, broken, memory};
use crate::managers::{RunOf, Runtimes};
use crate::runs::{self, Scheduled};
use crate::site::Site;
use jiff::Timestamp;

/// Runs the scheduled container with this id, or of this name, to its end.
pub fn run_now(site: &Site, id: &str) -> Result<(), Trouble> {
    if !site.is_machine() {
        return Err(Trouble::Refused("a tree of files has no container runtime".to_owned()));
    }
    let memory = memory(site)?;
    let found = runs::scheduled(&memory).find(|scheduled| scheduled.id == id || scheduled.name == id);
    let Some(Scheduled { name, id, digest, record }) = found else {
        return Err(Trouble::Refused(format!("{id} is not a scheduled resource: see mesh-host status")));
    };
    site.make_folders().map_err(|error| broken("the folders cannot be made", &error))?;
    let lock =
        runs::lock(site, name).map_err(|error| broken("the lock of the run cannot be taken", &error))?;
    let Some(_lock) = lock else {
        let left_out = runs::update(site, |all| all.entry(name.to_owned()).or_default().skipped += 1);
        left_out.map_err(|error| broken("what came of the run cannot be stored", &error))?;
        return Err(Trouble::Refused(format!("{id} still runs: wait until it has ended")));
    };
    let env = site.state().join("env").join(name);
    let ended = Runtimes::new(&site.run()).run(RunOf { name, id, digest, shape: &record.shape, env: &env });
    let why = ended.as_ref().err().map(|failure| failure.text().to_owned()).unwrap_or_default();
    let kept = runs::update(site, |all| {
        let runs = all.entry(name.to_owned()).or_default();
        runs.last_s = Some(Timestamp::now().as_second());
        runs.well = Some(ended.is_ok());
        runs.why = why;
    });
    kept.map_err(|error| broken("what came of the run cannot be stored", &error))?;
    ended.map_err(|failure| Trouble::Refused(format!("{id}: {}", failure.text())))
}

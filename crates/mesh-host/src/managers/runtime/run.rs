//! One run of a scheduled container, apart from any apply.

use super::{RUN, Runtime, Runtimes, args, inspect};
use crate::container::{Shape, Status};
use crate::digest::Digest;
use crate::outcome::Failure;
use std::path::Path;
use std::time::Duration;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOf<'r> {
    /// The container's name.
    pub name: &'r str,
    /// The id of its resource.
    pub id: &'r str,
    /// Of all that it is made from.
    pub digest: &'r Digest,
    /// What it is made from.
    pub shape: &'r Shape,
    /// The file with its environment.
    pub env: &'r Path,
}

impl Runtimes {
    /// Runs a scheduled container to its end, and removes it.
    ///
    /// # Errors
    /// It could not be run, did not end in time, or exited with another code than 0; its container is left then.
    pub fn run(&mut self, of: RunOf<'_>) -> Result<(), Failure> {
        let runtime = self.runtime()?.clone();
        runtime.make_room(&of)?;
        let labels = args::Labels { name: of.name, id: of.id, digest: of.digest };
        runtime.create(&labels, of.shape, of.shape.env.then_some(of.env), false)?;
        runtime.change(&["start", of.name])?;
        let code = runtime.wait(of.name, of.shape.limit_s.map_or(RUN, Duration::from_secs))?;
        if code != 0 {
            return Err(Failure::Failed(format!("it exited with {code}")));
        }
        runtime.change(&["rm", "--force", of.name]).map(drop)
    }
}

impl Runtime {
    /// Removes what an earlier run left. Somebody else's container is not touched.
    fn make_room(&self, of: &RunOf<'_>) -> Result<(), Failure> {
        let families = inspect::families(self, &[of.name]).map_err(Failure::NotAnswered)?;
        let Some(found) = families.get(of.name).and_then(|family| family.current.as_ref()) else {
            return Ok(());
        };
        if !found.is_ours() {
            let text = format!("a container {} is there that this host did not make", of.name);
            return Err(Failure::Failed(text));
        }
        if found.status == Status::Running {
            // Whoever started it is gone, since the lock of the run is ours.
            let ended = self.wait(of.name, of.shape.limit_s.map_or(RUN, Duration::from_secs));
            self.change(&["rm", "--force", &found.number])?;
            return ended.and(Err(Failure::NotAnswered(
                "an earlier run was still under way; it has ended, and this one was left out".to_owned(),
            )));
        }
        self.change(&["rm", "--force", &found.number]).map(drop)
    }
}

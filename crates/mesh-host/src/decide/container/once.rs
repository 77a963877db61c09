//! A container that runs once for each form of its declaration, to its end. While it fails, its module waits.

use super::{Case, ContainerStep, Decided, Failure, Move, Status, failed};
use crate::container::next_name;
use crate::outcome::{Outcome, Verdict};

impl Case<'_> {
    pub(super) fn once(&self) -> Decided {
        let name = self.name().to_owned();
        if let Some(failure) = self.view.failed {
            return Err(failed(failure.clone()));
        }
        let runs = |step: &ContainerStep| {
            matches!(step, ContainerStep::Create { .. } | ContainerStep::Finish { .. })
        };
        if self
            .recorded()
            .is_some_and(|record| record.ends && record.digest == self.digest && record.schedule.is_none())
            && !self.did(runs)
        {
            let done = Verdict::new(Outcome::Unchanged, "already completed for this declaration");
            // Another form of it failed meanwhile, and is over.
            let left = self.family.current.as_ref().filter(|found| !found.is_up());
            return Ok(match left {
                Some(_) => match self.remove(name) {
                    Move::Do(step, _) => Move::Do(step, done),
                    other => other,
                },
                None => Move::Done(done, self.applied()),
            });
        }
        if self.family.next.is_some() {
            return Ok(self.remove(next_name(&name)));
        }
        if self.family.prev.is_some() {
            return Ok(self.remove(crate::container::prev_name(&name)));
        }
        let finished = self.did(|step| matches!(step, ContainerStep::Finish { .. }));
        let removed = self.did(|step| matches!(step, ContainerStep::Remove { .. }));
        match &self.family.current {
            None if finished && removed => Ok(Move::Done(
                Verdict::plain(Outcome::Created).moved(None, self.label.clone()),
                self.applied(),
            )),
            None if finished => Err(failed(Failure::Failed(format!(
                "{name} was run and is gone, so it is not known how it ended"
            )))),
            None => self.create(name),
            // Begun before a kill: it is waited for, and not run twice.
            Some(found) if self.fits(found) && (finished || self.begun()) => match found.status {
                Status::Exited(0) => Ok(self.remove(name)),
                Status::Exited(code) if finished => Err(failed(Failure::Failed(format!(
                    "it exited with {code}; it is left for you to read its logs, and runs again at the next apply"
                )))),
                Status::Exited(_) => Ok(self.remove(name)),
                _ if finished => Err(failed(Failure::Failed("it did not come to its end".to_owned()))),
                _ => Ok(self.finish()),
            },
            Some(found)
                if self.fits(found) && self.did(|step| matches!(step, ContainerStep::Create { .. })) =>
            {
                Ok(self.finish())
            }
            // Left over from an earlier form or an earlier failure.
            Some(_) => Ok(self.remove(name)),
        }
    }

    fn finish(&self) -> Move {
        let of = self.name().to_owned();
        self.step(ContainerStep::Finish { of, limit_s: self.shape.limit_s })
    }
}

//! A container that runs at times. Applying installs the schedule and never runs it; what a run comes to is told apart
//! from the apply.

use super::{Case, Decided, Move, Question, Remember, material};
use crate::container::next_name;
use crate::facts::{Answer, PathAnswer};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, ContainerRecord, ScheduleRecord, Written};
use crate::schedule::zone;
use crate::step::{Content, FileStep, Ids, Step};
use mesh_model::resource::Runs;

/// Where the environments of scheduled containers lie, below the folder of the state.
pub(crate) fn env_path(folder: &str, name: &str) -> String {
    format!("{folder}/env/{name}")
}

impl Case<'_> {
    pub(super) fn scheduled(&self) -> Decided {
        let Runs::Scheduled { schedule, zone: named } = &self.container.runs else { return self.always() };
        if let Some(failure) = self.view.failed {
            return Err(super::failed(failure.clone()));
        }
        let named = named.as_ref().map(ToString::to_string);
        if let Err(why) = zone(named.as_deref()) {
            return Err(super::failed(super::Failure::Failed(why)));
        }
        // What ran always before, or was about to, is over; a run that is under way is not disturbed.
        let ran_always = self.recorded().is_some_and(|record| !record.ends);
        if self.family.next.is_some() {
            return Ok(self.remove(next_name(self.name())));
        }
        if self.family.prev.is_some() {
            return Ok(self.remove(crate::container::prev_name(self.name())));
        }
        if ran_always && self.family.current.is_some() {
            return Ok(self.remove(self.name().to_owned()));
        }
        let same =
            self.recorded().is_some_and(|record| record.digest == self.digest && record.schedule.is_some());
        if !same && let Some(pull) = self.image()? {
            return Ok(pull);
        }
        if let Some(write) = self.environment()? {
            return Ok(write);
        }
        let record = ContainerRecord {
            schedule: Some(ScheduleRecord {
                schedule: schedule.to_string(),
                zone: named,
                shape: self.shape.clone(),
            }),
            ..self.record()
        };
        let written = Written::Container(Box::new(record));
        let verdict = self.schedule_verdict(same);
        Ok(Move::Done(verdict, Remember::Applied { claim: Claim::Made, mount: None, written }))
    }

    /// The step that writes the environment of its runs, if it is not there.
    fn environment(&self) -> Result<Option<Move>, Box<Move>> {
        let Some(digest) = self.env else { return Ok(None) };
        let path = env_path(self.view.state, self.name());
        let question = Question::Content { path: path.clone(), keyed: digest.is_keyed() };
        self.view.look(std::slice::from_ref(&question))?;
        let found = match self.view.facts.get(&question) {
            Some(Answer::Path(PathAnswer { found, .. })) => found.as_ref(),
            other => return Err(super::super::not_as_asked(other, &question)),
        };
        let seen = found.map(|fact| fact.stamp);
        if found.is_some_and(|fact| fact.has(digest) && fact.mode == 0o600) {
            return Ok(None);
        }
        if self.view.did.iter().any(|step| matches!(step, Step::Files(_))) {
            let text = "its environment was written and reads back otherwise".to_owned();
            return Err(super::failed(super::Failure::Failed(text)));
        }
        let step = FileStep::Write {
            path,
            content: Content::Declared(self.desired.id.clone()),
            digest: digest.clone(),
            mode: 0o600,
            owner: self.view.owners.then_some(Ids { uid: 0, gid: 0 }),
            seen,
            in_place: false,
        };
        Ok(Some(Move::Do(
            Step::Files(step),
            self.schedule_verdict(self.recorded().is_some_and(|record| record.digest == self.digest)),
        )))
    }

    fn schedule_verdict(&self, same: bool) -> Verdict {
        let to = Some(material::label(&self.digest));
        match self.recorded() {
            None => Verdict::new(Outcome::Created, "installed").moved(None, to),
            Some(_) if same && self.view.did.is_empty() => Verdict::plain(Outcome::Unchanged),
            Some(_) if same => Verdict::new(
                Outcome::Corrected(Drift::Content),
                "what its runs need had been changed on the machine",
            ),
            Some(record) => {
                Verdict::new(Outcome::Updated, "installed again").moved(material::label(&record.digest), to)
            }
        }
    }
}

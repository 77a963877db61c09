//! A container that runs always: made beside the old one, exchanged for it, and back if it does not stay up.
//!
//! What comes next follows from the three names alone: `NAME`, `NAME.next` (the new one, not in its place yet) and
//! `NAME.prev` (the old one, until the new one has settled). So an exchange that was cut off is finished, or taken back,
//! by the same rules. While `NAME.next` is there, `NAME` is the old one; while `NAME.prev` is there, it is the new one.

mod material;
mod once;
mod orphan;
mod scheduled;
mod verdict;

use super::{Decided, Failure, Move, Remember, View, failed, unit};
use crate::container::{ContainerStep, Family, Health, Instance, Shape, Status, next_name, prev_name};
use crate::container::{ports, sources};
use crate::desired::Desired;
use crate::digest::Digest;
use crate::facts::{Answer, PathAnswer, Question};
use crate::outcome::{Outcome, Verdict};
use crate::record::{Claim, ContainerRecord, Written};
use crate::step::Step;
use mesh_model::resource::{Container, Id, Runs};

pub(super) use orphan::next as next_orphan;

/// The shortest wait before a form that failed is tried again, in seconds; it doubles.
const FIRST_WAIT_S: u64 = 300;
/// The longest one.
const LONGEST_WAIT_S: u64 = 6 * 3600;
/// How long a container must stay up if nothing is declared, in milliseconds.
const SETTLE_MS: u64 = 2_000;

/// All that is known before it is decided what a container needs.
struct Case<'c> {
    desired: &'c Desired,
    container: &'c Container,
    view: &'c View<'c>,
    shape: Shape,
    digest: Digest,
    label: String,
    env: Option<&'c Digest>,
    family: &'c Family,
}

pub(super) fn next(
    desired: &Desired,
    container: &Container,
    env: Option<&Digest>,
    view: &View<'_>,
) -> Decided {
    let question = Question::Container(container.name.to_string());
    let mut questions: Vec<Question> =
        read_paths(container).iter().map(|path| material::question(path)).collect();
    questions.push(question.clone());
    view.look(&questions)?;
    let family = family(&question, view)?;
    for path in read_paths(container) {
        check_source(&path, view)?;
    }
    let digest = material::digest(container, env, view);
    let label = material::label(&digest);
    let shape = Shape::of(container, env.is_some());
    let case = Case { desired, container, view, shape, digest, label, env, family };
    if let Some(held) = case.foreign() {
        return held;
    }
    match &container.runs {
        Runs::Always => case.always(),
        Runs::Once => case.once(),
        Runs::Scheduled { .. } => case.scheduled(),
    }
}

/// What the runtime says about a name, if it is the runtime that made it.
fn family<'a>(question: &Question, view: &View<'a>) -> Result<&'a Family, Box<Move>> {
    let family = match view.facts.get(question) {
        Some(Answer::Container(family)) => family,
        other => return Err(super::not_as_asked(other, question)),
    };
    match view.record().map(|record| &record.written) {
        Some(Written::Container(record)) if record.runtime != family.runtime => {
            Err(failed(Failure::NotAnswered(format!(
                "it was made with {}, which does not answer, and {} does: start {0}, or remove the container there and \
                 forget the resource",
                record.runtime, family.runtime
            ))))
        }
        _ => Ok(family),
    }
}

/// Every path of the machine that it mounts or reads.
fn read_paths(container: &Container) -> Vec<String> {
    let env_files = container.env_file.iter().map(ToString::to_string);
    sources(container).into_iter().chain(env_files).filter(|path| path != "/").collect()
}

/// The runtime would make what is missing: as root, and as a directory.
fn check_source(path: &str, view: &View<'_>) -> Result<(), Box<Move>> {
    match view.facts.get(&material::question(path)) {
        Some(Answer::Path(PathAnswer { found: None, .. })) => {
            let text =
                format!("{path}, which it mounts or reads, does not exist: declare it before the container");
            Err(failed(Failure::Failed(text)))
        }
        Some(Answer::NotAnswered(why)) => Err(failed(Failure::NotAnswered(why.clone()))),
        // A link on the way is the runtime's affair.
        _ => Ok(()),
    }
}

impl Case<'_> {
    fn name(&self) -> &str {
        self.container.name.as_str()
    }

    fn did(&self, is: impl Fn(&ContainerStep) -> bool) -> bool {
        self.view.did.iter().any(|step| matches!(step, Step::Container(step) if is(step)))
    }

    fn step(&self, step: ContainerStep) -> Move {
        Move::Do(Step::Container(step), self.verdict())
    }

    /// A container of one of the three names that this host did not make is never touched.
    fn foreign(&self) -> Option<Decided> {
        let names = [
            (self.name().to_owned(), &self.family.current),
            (next_name(self.name()), &self.family.next),
            (prev_name(self.name()), &self.family.prev),
        ];
        let (name, _) =
            names.into_iter().find(|(_, found)| found.as_ref().is_some_and(|it| !it.is_ours()))?;
        if self.view.untaken {
            let news = !self.view.memory.holds.contains_key(self.view.target);
            let held = Verdict::new(Outcome::Held { news }, "found on the machine; left as found");
            return Some(Ok(Move::Done(held, Remember::Same)));
        }
        Some(Err(failed(Failure::Failed(format!(
            "a container {name} is there that this host did not make: rename or remove it yourself"
        )))))
    }

    /// Whether a container is what is declared.
    fn fits(&self, found: &Instance) -> bool {
        if found.digest.starts_with("v2:") || found.digest.is_empty() {
            return found.digest == self.label;
        }
        // A label of an earlier program: as good as ours until something declared changes.
        match self.recorded() {
            Some(record) => record.digest == self.digest,
            None => true,
        }
    }

    fn recorded(&self) -> Option<&ContainerRecord> {
        match self.view.record().map(|record| &record.written) {
            Some(Written::Container(record)) => Some(record),
            _ => None,
        }
    }

    /// The containers as they were before this apply did anything about them.
    fn family_before(&self) -> Option<&Family> {
        let question = Question::Container(self.name().to_owned());
        match self.view.before.get(&question).or_else(|| self.view.facts.get(&question)) {
            Some(Answer::Container(family)) => Some(family),
            _ => None,
        }
    }

    /// The container as it was before this apply did anything about it.
    fn before(&self) -> Option<&Instance> {
        self.family_before()?.current.as_ref()
    }

    /// Whether it ran under this name, or waited to come back to it, before this apply did anything.
    fn was_there(&self, found: &Instance) -> bool {
        let Some(Family { current, prev, .. }) = self.family_before() else { return false };
        [current, prev].into_iter().flatten().any(|before| before.number == found.number)
    }

    /// The ids in `restart-on` that were made or mended since it was made.
    fn owed(&self) -> Option<String> {
        let ids: Vec<String> = self.container.restart_on.iter().map(ToString::to_string).collect();
        // One that fits and is not recorded was made with what is declared now.
        let with = &self.recorded()?.with;
        unit::owed(&ids, Some(with), self.view)
    }

    /// Whether the container in place is to be exchanged. While the old one is beside it, it is the new one.
    fn is_stale(&self, found: &Instance) -> bool {
        let is_old = self.family.prev.is_none() && self.was_there(found);
        !self.fits(found) || (is_old && self.owed().is_some())
    }

    fn always(&self) -> Decided {
        let Family { current, next, prev, .. } = self.family;
        if let Some(failure) = self.view.failed {
            return Ok(self.back(failure.text()));
        }
        let tried = self.view.memory.tries.get(self.view.target).filter(|tried| tried.digest == self.digest);
        if let Some(tried) = tried
            && !self.view.again
            && self.view.did.is_empty()
            && !current.as_ref().is_some_and(|it| it.status == Status::Running && !self.is_stale(it))
        {
            let due = tried.at_s.saturating_add(wait_s(tried.times));
            if self.view.now_s < due {
                return Ok(self.back(&format!(
                    "in this form it failed {} and is tried again in {} s: change it, or apply with --again",
                    times(tried.times),
                    due - self.view.now_s
                )));
            }
        }
        match (current, next, prev) {
            // Cut off between the two renames: on with the new one, or back to the old one.
            (None, Some(new), _) if self.fits(new) => Ok(self.rename(next_name(self.name()), self.name())),
            (None, None, Some(_)) => Ok(self.rename(prev_name(self.name()), self.name())),
            (_, Some(new), _) if !self.fits(new) => Ok(self.remove(next_name(self.name()))),
            (None, None, None) => self.create(self.name().to_owned()),
            // The one in place was never known to stay up, so the one before it is the one to go back to.
            (Some(current), _, Some(old))
                if self.is_stale(current) && self.view.did.is_empty() && self.fits(old) =>
            {
                Ok(self.remove(self.name().to_owned()))
            }
            (Some(current), Some(_), Some(_)) if self.is_stale(current) => {
                Ok(self.remove(self.name().to_owned()))
            }
            (Some(current), Some(_), None) if !self.is_stale(current) => {
                Ok(self.remove(next_name(self.name())))
            }
            (None, Some(_), _) | (Some(_), Some(_), Some(_)) => Ok(self.remove(next_name(self.name()))),
            (Some(current), Some(_), None) if current.is_up() => Ok(self.stop(self.name())),
            (Some(_), Some(_), None) => Ok(self.rename(self.name().to_owned(), &prev_name(self.name()))),
            (Some(current), None, _) if self.is_stale(current) => self.create(next_name(self.name())),
            (Some(current), None, _) => self.stand(current, prev.as_ref()),
        }
    }

    /// What is in place is what is declared: it has to run, and to stay up.
    fn stand(&self, current: &Instance, prev: Option<&Instance>) -> Decided {
        let started = self.did(|step| matches!(step, ContainerStep::Start { .. }));
        let tried = self.view.memory.tries.contains_key(self.view.target);
        match current.status {
            Status::Created | Status::Exited(_) if !started && !self.view.settled => {
                return Ok(self.step(ContainerStep::Start {
                    of: self.name().to_owned(),
                    name: self.name().to_owned(),
                }));
            }
            Status::Exited(code) => {
                return Ok(self.back(&format!("it does not stay up: it exited with {code}")));
            }
            Status::Created => return Ok(self.back("it was started and does not run")),
            _ => {}
        }
        // Started before a kill, it has not settled either.
        let fresh =
            started || self.begun() || prev.is_some() || tried || current.status == Status::Restarting;
        if fresh && !self.view.settled {
            let after =
                self.container.settle.map_or(u128::from(SETTLE_MS), |settle| settle.duration().as_millis());
            return Ok(Move::Settle { after_ms: u64::try_from(after).unwrap_or(u64::MAX) });
        }
        if current.status == Status::Restarting || started && current.restarts > 0 {
            let why = format!("it does not stay up: it was started again {}", times(current.restarts));
            return Ok(self.back(&why));
        }
        if fresh && current.health == Health::Unhealthy {
            return Ok(self.back("its health check says that it is not well"));
        }
        if prev.is_some() {
            return Ok(self.remove(prev_name(self.name())));
        }
        if !current.lasts {
            if self.did(|step| matches!(step, ContainerStep::Last { .. })) {
                let text = "it was told to be started again when it ends, and is not".to_owned();
                return Err(failed(Failure::Failed(text)));
            }
            let of = self.name().to_owned();
            return Ok(self.step(ContainerStep::Last { of, within_s: self.shape.stop_s }));
        }
        Ok(Move::Done(self.verdict(), self.applied()))
    }

    fn applied(&self) -> Remember {
        Remember::Applied {
            claim: Claim::Made,
            mount: None,
            written: Written::Container(Box::new(self.record())),
        }
    }

    fn record(&self) -> ContainerRecord {
        ContainerRecord {
            digest: self.digest.clone(),
            runtime: self.family.runtime.clone(),
            image: self.shape.image.clone(),
            ports: ports(self.container),
            ends: !matches!(self.container.runs, Runs::Always),
            with: unit::moves(self.container.restart_on.iter().map(Id::as_str), self.view),
            schedule: None,
        }
    }

    /// Back to what ran before. What failed is remembered, so that it is not tried at every apply.
    fn back(&self, why: &str) -> Move {
        let Family { current, next, prev, .. } = self.family;
        let name = self.name();
        match (current, next, prev) {
            (None, _, Some(_)) => return self.rename(prev_name(name), name),
            (_, Some(_), _) => return self.remove(next_name(name)),
            (Some(_), None, Some(_)) => return self.remove(name.to_owned()),
            // The old one, stopped for the exchange.
            (Some(current), None, None)
                if self.is_stale(current) && !current.is_up() && !self.did_restart() =>
            {
                return self.step(ContainerStep::Start { of: name.to_owned(), name: name.to_owned() });
            }
            (Some(current), None, None) if self.is_stale(current) && current.is_up() && !current.lasts => {
                return self.step(ContainerStep::Last { of: name.to_owned(), within_s: self.shape.stop_s });
            }
            _ => {}
        }
        let old = current.as_ref().is_some_and(|current| self.is_stale(current) && current.is_up());
        let text = if old && !self.view.did.is_empty() {
            format!("{why}; the one before runs again")
        } else if old {
            format!("{why}; the one before runs")
        } else {
            why.to_owned()
        };
        // What failed before anything was exchanged or started can be tried again at any time.
        let started = |step: &ContainerStep| {
            matches!(
                step,
                ContainerStep::Rename { .. } | ContainerStep::Start { .. } | ContainerStep::Stop { .. }
            )
        };
        let tried = self.did(started) || self.view.settled;
        let remember = if tried { Remember::Tried(self.digest.clone()) } else { Remember::Same };
        Move::Done(Verdict::new(Outcome::Failed, text), remember)
    }

    /// Whether the old one was started again in this apply, after the exchange had failed.
    fn did_restart(&self) -> bool {
        matches!(self.view.did.last(), Some(Step::Container(ContainerStep::Start { .. })))
    }

    fn create(&self, name: String) -> Decided {
        if self.did(|step| matches!(step, ContainerStep::Create { .. })) {
            return Ok(self.back(&format!("{name} was made and is not there")));
        }
        if let Some(pull) = self.image()? {
            return Ok(pull);
        }
        Ok(self.step(ContainerStep::Create {
            of: self.name().to_owned(),
            name,
            id: self.desired.id.clone(),
            digest: self.digest.clone(),
            shape: Box::new(self.shape.clone()),
            always: self.container.runs == Runs::Always,
        }))
    }

    /// The step that fetches the image, if it is not here.
    fn image(&self) -> Result<Option<Move>, Box<Move>> {
        let question = Question::Image(self.shape.image.clone());
        self.view.look(std::slice::from_ref(&question))?;
        match self.view.facts.get(&question) {
            Some(Answer::Present) => Ok(None),
            Some(Answer::Absent) if self.did(|step| matches!(step, ContainerStep::Pull { .. })) => {
                let text = format!("the image {} was fetched and is not here", self.shape.image);
                Err(failed(Failure::Failed(text)))
            }
            Some(Answer::Absent) if self.shape.image.contains('@') && !self.shape.image.contains('/') => {
                let text = format!(
                    "the image {} is not here, and nothing serves it: load it, or name its registry",
                    self.shape.image
                );
                Err(failed(Failure::Failed(text)))
            }
            Some(Answer::Absent) => {
                let (of, image) = (self.name().to_owned(), self.shape.image.clone());
                Ok(Some(self.step(ContainerStep::Pull { of, image })))
            }
            other => Err(super::not_as_asked(other, &question)),
        }
    }

    fn rename(&self, from: String, to: &str) -> Move {
        self.step(ContainerStep::Rename { of: self.name().to_owned(), from, to: to.to_owned() })
    }

    fn remove(&self, name: String) -> Move {
        let Family { current, next, prev, .. } = self.family;
        let names = [
            (self.name().to_owned(), current),
            (next_name(self.name()), next),
            (prev_name(self.name()), prev),
        ];
        let found = names.into_iter().find(|(other, _)| *other == name).and_then(|(_, found)| found.as_ref());
        let number = found.map(|found| found.number.clone()).unwrap_or_default();
        self.step(ContainerStep::Remove { of: self.name().to_owned(), name, number })
    }

    fn stop(&self, name: &str) -> Move {
        let within_s = self.shape.stop_s;
        self.step(ContainerStep::Stop { of: self.name().to_owned(), name: name.to_owned(), within_s })
    }

    /// Whether this host began with it before a kill.
    fn begun(&self) -> bool {
        self.view.memory.intents.contains_key(self.view.target)
    }
}

fn times(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

/// How long to wait after this many failures.
fn wait_s(times: u64) -> u64 {
    let doubled =
        u32::try_from(times.saturating_sub(1)).ok().and_then(|times| FIRST_WAIT_S.checked_shl(times.min(20)));
    doubled.map_or(LONGEST_WAIT_S, |wait| wait.min(LONGEST_WAIT_S))
}

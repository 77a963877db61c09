//! The order of one apply: what is no longer declared goes first, then everything is made as declared, in order. The
//! engine asks, orders steps, and says how each resource ended; its driver does the rest.
//!
//! Pure, as the steppers are: it is driven by `next` and told by `learned` and `performed`.

mod remember;
mod request;
mod work;

pub use request::{Family, Request, Scope};

use crate::decide::{self, Move, Remember, View};
use crate::desired::Desired;
use crate::digest::DigestKey;
use crate::facts::{Answer, Facts, Manager, Question, Touch};
use crate::outcome::{Failure, Gate, Outcome, Verdict};
use crate::record::{Claim, Entry, Intent, Memory};
use crate::step::{FileStep, Step};
use crate::target::{Kind, Origin, Target};
use remember::{after, entries};
use std::collections::BTreeSet;
use work::{Job, Phase, Work, let_go, orphans};

/// How many plain steps share one sync at most.
const MAX_GROUP: usize = 256;

/// What the engine wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the machine, and tell [`Engine::learned`].
    Look(Vec<Question>),
    /// Store these entries before going on.
    Store(Vec<Entry>),
    /// Store the intents, perform the steps in order, and tell [`Engine::performed`].
    Do(Vec<Task>),
    /// Store the entries of all of them, then report them.
    Ended(Vec<Ended>),
    /// Let this time pass, and call [`Engine::next`] again.
    Wait {
        /// In milliseconds.
        ms: u64,
    },
    /// Everything has ended.
    Done,
}

/// One step, and what has to be stored before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which resource it is for; given back to [`Engine::performed`].
    pub work: usize,
    /// What is to be done.
    pub step: Step,
    /// To be stored first; the driver names the temporary.
    pub intent: Intent,
}

/// How one resource ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which work it was.
    pub work: usize,
    /// The resource's id.
    pub id: String,
    /// Who declared it.
    pub origin: Origin,
    /// What it is about.
    pub target: Target,
    /// How it ended.
    pub verdict: Verdict,
    /// What was asked to read it back.
    pub asked: Vec<Question>,
    /// To be stored.
    pub entries: Vec<Entry>,
}

/// One apply.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Engine {
    work: Vec<Work>,
    facts: Facts,
    /// What was known before anything was done.
    first: Facts,
    /// Whether anything was done.
    acted: bool,
    /// What a plan would have done until now: by which resource, and which answers that would change.
    planned: Vec<(String, Touch)>,
    changed: BTreeSet<String>,
    entries: Vec<Entry>,
    untaken: BTreeSet<Origin>,
    managers: bool,
    owners: bool,
    plan: bool,
    again: bool,
    now_s: u64,
    key: DigestKey,
    state: String,
    surveyed: bool,
    settled: bool,
    gated: bool,
}

impl Engine {
    /// Orders what is to be done.
    pub fn new(request: Request, memory: &Memory) -> Self {
        let Request { desired, scope, adopted, untaken, managers, owners, plan, again, now_s, key, state } =
            request;
        let declared: BTreeSet<Target> = desired.iter().map(Desired::target).collect();
        let mut work = orphans(memory, &scope, &declared, adopted);
        // An adoption's guard comes down only when everything stands without it.
        work.retain(|work| work.phase != Phase::Late || scope.waiting.is_empty());
        work.extend(let_go(memory, &scope, &declared));
        for (place, desired) in (0..).zip(desired) {
            work.push(Work::apply(place, desired, adopted));
        }
        work.sort_by_key(|work| work.phase);
        Self {
            work,
            facts: Facts::default(),
            first: Facts::default(),
            acted: false,
            planned: Vec::new(),
            changed: BTreeSet::new(),
            entries: Vec::new(),
            untaken,
            managers,
            owners,
            plan,
            again,
            now_s,
            key,
            state,
            surveyed: false,
            settled: false,
            gated: false,
        }
    }

    /// Whether a failure kept other resources from being attempted.
    pub const fn gated(&self) -> bool {
        self.gated
    }

    /// Takes the answers to what was asked.
    pub fn learned(&mut self, answers: impl IntoIterator<Item = (Question, Answer)>) {
        for (question, answer) in answers {
            if !self.acted && ![Manager::Files, Manager::Owners].contains(&question.manager()) {
                self.first.learn(question.clone(), answer.clone());
            }
            self.facts.learn(question, answer);
        }
    }

    /// Takes how a step went.
    pub fn performed(&mut self, task: Task, result: Result<(), Failure>) {
        self.acted = true;
        self.facts.forget(&task.step.touches());
        let work = &mut self.work[task.work];
        match result {
            Ok(()) => {
                self.entries.extend(after(&work.target, &task.step, &work.before));
                work.did.push(task.step);
            }
            // What was exchanged is exchanged back.
            Err(failure) if work.target.kind == Kind::Container && work.failed.is_none() => {
                work.failed = Some(failure);
            }
            Err(failure) => work.end = Some((failure.verdict(), Remember::Same)),
        }
    }

    /// What is wanted next.
    #[must_use]
    pub fn next(&mut self, memory: &Memory) -> Next {
        if !self.surveyed {
            self.surveyed = true;
            let questions = self.survey(memory);
            if !questions.is_empty() {
                return Next::Look(questions);
            }
        }
        if !self.entries.is_empty() {
            return Next::Store(std::mem::take(&mut self.entries));
        }
        loop {
            if let Some(ended) = self.tell(memory) {
                return Next::Ended(ended);
            }
            let open = |work: &Work| work.end.is_none() && (self.settled || work.settles.is_none());
            let Some(first) = self.work.iter().position(open) else {
                match self.settle() {
                    Some(next) => return next,
                    None => return Next::Done,
                }
            };
            if let Some(next) = self.window(first, memory) {
                return next;
            }
        }
    }

    /// All that can be asked at once, before anything is done.
    fn survey(&mut self, memory: &Memory) -> Vec<Question> {
        let mut questions = BTreeSet::new();
        for index in 0..self.work.len() {
            if let Move::Look(wanted) = self.decide(index, memory) {
                self.asks(index, &wanted);
                questions.extend(wanted);
            }
        }
        questions.into_iter().collect()
    }

    fn asks(&mut self, index: usize, wanted: &[Question]) {
        let asked = &mut self.work[index].asked;
        for question in wanted {
            if !asked.contains(question) {
                asked.push(question.clone());
            }
        }
    }

    fn decide(&self, index: usize, memory: &Memory) -> Move {
        let work = &self.work[index];
        let view = View {
            facts: &self.facts,
            before: &work.before,
            first: &self.first,
            memory,
            target: &work.target,
            did: &work.did,
            changed: &self.changed,
            settled: self.settled && work.settles.is_some(),
            failed: work.failed.as_ref(),
            untaken: self.untaken.contains(&work.origin),
            again: self.again,
            now_s: self.now_s,
            key: &self.key,
            state: &self.state,
            managers: self.managers,
            owners: self.owners,
        };
        match &work.job {
            Job::Apply(desired) => self.hold(work, desired, decide::next(desired, &view), &view),
            Job::Remove => decide::next_orphan(&view),
            Job::LetGo => {
                let verdict = Verdict::new(Outcome::Forgotten, "no longer declared; left as found");
                Move::Done(verdict, Remember::Same)
            }
        }
    }

    /// On an adopted node, what was found and would change or be reached is held until its module is taken.
    fn hold(&self, work: &Work, desired: &Desired, decided: Move, view: &View<'_>) -> Move {
        let memory = view.memory;
        if !self.untaken.contains(&desired.origin) || !work.did.is_empty() {
            return decided;
        }
        let held =
            |news, detail: &str| Move::Done(Verdict::new(Outcome::Held { news }, detail), Remember::Same);
        let found = "found on the machine; left as found";
        if let Some(hold) = memory.holds.get(&work.target) {
            return held(false, &hold.why);
        }
        // What was found as declared is not this host's: a person may have changed it since.
        let made = memory.records.get(&work.target).is_some_and(|record| record.claim != Claim::Agreed);
        // What has to be kept first is the machine's, whatever was begun before.
        let is_found = matches!(decided, Move::Do(Step::Files(FileStep::Keep { .. }), _));
        let ours = made || memory.intents.contains_key(&work.target) && !is_found;
        match &decided {
            Move::Do(_, Verdict { outcome: Outcome::Updated | Outcome::Corrected(_), .. }) if !ours => {
                held(true, found)
            }
            Move::Do(..) if !ours => match decide::reaches(desired, view) {
                Ok(None) => decided,
                Ok(Some(reached)) => held(true, &format!("it {reached}; not made")),
                Err(early) => *early,
            },
            _ => decided,
        }
    }

    /// Goes on with the first open work, and with those after it that can share its looks and syncs.
    fn window(&mut self, first: usize, memory: &Memory) -> Option<Next> {
        let phase = self.work[first].phase;
        let mut looks = BTreeSet::new();
        let mut group: Vec<Task> = Vec::new();
        let mut touched: Vec<Touch> = Vec::new();
        for index in first..self.work.len() {
            let work = &self.work[index];
            if work.phase != phase || group.len() == MAX_GROUP {
                break;
            }
            if work.end.is_some() || (work.settles.is_some() && !self.settled) {
                continue;
            }
            // Adjacent packages are installed together.
            let packages = self.work[first].target.kind == Kind::Package;
            let alone = !work.target.kind.is_of_files() && !packages;
            if index != first && (alone || packages && work.target.kind != Kind::Package) {
                break;
            }
            // What is decided now must not rest on facts that a step before it changes.
            if !packages
                && touched.iter().any(|touch| work.asked.iter().any(|question| touch.reaches(question)))
            {
                break;
            }
            match self.decide(index, memory) {
                Move::Look(wanted) => {
                    self.asks(index, &wanted);
                    looks.extend(wanted);
                }
                Move::Do(step, verdict) if self.plan => {
                    self.planned.push((self.work[index].id.clone(), step.touches()));
                    self.work[index].end = Some((verdict, Remember::Same));
                }
                Move::Do(step, _) => {
                    touched.push(step.touches());
                    group.push(self.task(index, step));
                }
                Move::Settle { after_ms } => self.work[index].settles = Some(after_ms),
                Move::Done(verdict, remember) => {
                    let verdict = self.known_later(index, verdict);
                    self.work[index].end = Some((verdict, remember));
                }
            }
            if alone {
                break;
            }
        }
        if !looks.is_empty() {
            return Some(Next::Look(looks.into_iter().collect()));
        }
        if group.is_empty() { None } else { Some(Next::Do(group)) }
    }

    /// In a plan, what fails on answers that an earlier step would have changed is not known yet.
    fn known_later(&self, index: usize, verdict: Verdict) -> Verdict {
        let failed = matches!(verdict.outcome, Outcome::Failed | Outcome::NotAnswered);
        let asked = &self.work[index].asked;
        let reaches = |touch: &Touch| asked.iter().any(|question| touch.reaches(question));
        match self.planned.iter().rev().find(|(_, touch)| failed && reaches(touch)) {
            Some((id, _)) => Verdict::new(Outcome::Waiting, format!("known after {id}")),
            None => verdict,
        }
    }

    fn task(&mut self, index: usize, step: Step) -> Task {
        let work = &mut self.work[index];
        if work.did.is_empty() {
            work.before = self.facts.only(&work.asked);
        }
        let intent = Intent {
            target: work.target.clone(),
            id: work.id.clone(),
            origin: work.origin.clone(),
            place: work.place,
            creates: step.creates(),
            digest: step.digest().cloned(),
            was: step.was(),
            temporary: None,
        };
        Task { work: index, step, intent }
    }

    /// Reports the leading works that have ended.
    fn tell(&mut self, memory: &Memory) -> Option<Vec<Ended>> {
        let mut ended = Vec::new();
        for index in 0..self.work.len() {
            let work = &self.work[index];
            if work.told {
                continue;
            }
            let Some((verdict, remember)) = work.end.clone() else {
                // What settles is reported when it has settled; the others do not wait for it.
                if work.settles.is_some() && !self.settled {
                    continue;
                }
                break;
            };
            let entries =
                if self.plan { Vec::new() } else { entries(work, &verdict, remember, memory, self.now_s) };
            let (id, origin) = (work.id.clone(), work.origin.clone());
            let (target, asked) = (work.target.clone(), work.asked.clone());
            self.work[index].told = true;
            self.close_gates(index, &verdict);
            if verdict.outcome.effect().triggers {
                self.changed.insert(id.clone());
            }
            ended.push(Ended { work: index, id, origin, target, verdict, asked, entries });
        }
        if ended.is_empty() { None } else { Some(ended) }
    }

    /// What a failure keeps from being attempted.
    fn close_gates(&mut self, index: usize, verdict: &Verdict) {
        let failed = matches!(verdict.outcome, Outcome::Failed | Outcome::NotAnswered);
        let (phase, id) = (self.work[index].phase, self.work[index].id.clone());
        let origin = self.work[index].origin.clone();
        let gates = self.work[index].gates();
        // A gate that closes has closed, even where nothing is behind it.
        self.gated |= failed && (phase == Phase::Guard || phase == Phase::Apply && gates);
        for later in &mut self.work[index + 1..] {
            if later.end.is_some() {
                continue;
            }
            let gate = match phase {
                Phase::Guard if failed => Gate::Guard(id.clone()),
                Phase::Apply
                    if failed
                        && gates
                        && later.origin == origin
                        && [phase, Phase::Own].contains(&later.phase) =>
                {
                    Gate::Failed(id.clone())
                }
                // An adoption's guard comes down only when everything stands without it.
                _ if !verdict.outcome.is_well() && later.phase == Phase::Late => {
                    later.end = Some((Verdict::plain(Outcome::Waiting), Remember::Same));
                    later.told = true;
                    continue;
                }
                _ => continue,
            };
            self.gated = true;
            let detail = match &gate {
                Gate::Failed(id) => format!("not attempted, since {id} failed"),
                Gate::Guard(id) => format!("not attempted, since the guard {id} could not be put up"),
                Gate::Firewall => "not attempted, since the firewall is not supported".to_owned(),
            };
            later.end = Some((Verdict::new(Outcome::NotAttempted(gate), detail), Remember::Same));
        }
    }

    /// Once everything else is done, what was started is looked at again, all of it together.
    fn settle(&mut self) -> Option<Next> {
        let longest =
            self.work.iter().filter(|work| work.end.is_none()).filter_map(|work| work.settles).max()?;
        self.settled = true;
        let waiting = self.work.iter().filter(|work| work.end.is_none());
        let asked: Vec<_> = waiting.flat_map(|work| work.asked.iter().cloned()).collect();
        self.facts.forget(&Touch::these(asked));
        Some(Next::Wait { ms: longest })
    }
}

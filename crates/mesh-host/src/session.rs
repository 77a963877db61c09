//! One apply, plan or look at the state, from input to report. Command line and socket both come here.

mod hand;
mod images;
mod run;
mod take;
mod text;

pub use hand::{confirm, confirm_by_hand, forget, restore};
pub use run::run_now;
pub use take::{Preview, preview, take};
pub use text::Change;

use crate::apply;
use crate::digest::DigestKey;
use crate::engine::{Engine, Family};
use crate::files::{Files, Trust};
use crate::machine::Real;
use crate::managers::{Managers, Told, Users};
use crate::outcome::Outcome as End;
use crate::prepare::{Module, NotReady, Prepared, prepare};
use crate::record::{Claim, Entry, Memory, Written};
use crate::report::Gathering;
use crate::request::{Keys, bundle, modules, verify};
use crate::runs;
use crate::site::Site;
use crate::state::{Folder, Journal, ReadOnly};
use crate::target::{Kind, Origin};
use mesh_model::bundle::Bundle;
use mesh_model::digest::Digest;
use mesh_model::host_api::Apply;
use mesh_model::report::{Outcome, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What is to be applied.
#[derive(Clone, Debug)]
pub enum Input {
    /// A bundle, by root and by hand.
    Bundle(Box<Bundle>),
    /// A declaration of the mesh.
    Mesh(Box<Apply>),
}

/// Why nothing was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The input is refused whole.
    Refused(String),
    /// Another apply is under way.
    Locked,
    /// Settings, keys or state cannot be used.
    Broken(String),
}

/// What is called for each resource: its outcome, and whether it is news.
pub type Tell<'t> = &'t mut dyn FnMut(&Outcome, bool);

/// Everything that an apply needs from what is decided before it.
struct Ready {
    prepared: Prepared,
    gathering: Gathering,
    first: Vec<Entry>,
    adopted: bool,
    untaken: BTreeSet<Origin>,
}

/// How far an apply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is only said what would be done.
    Plan,
    /// What failed before in the same form waits for its time.
    Apply,
    /// What failed before is tried again at once.
    Again,
}

/// Applies `input` under the lock.
pub fn apply(site: &Site, input: Input, how: How, tell: Tell<'_>) -> Result<Report, Trouble> {
    if how == How::Plan {
        return plan(site, input, tell);
    }
    apply_as(site, input, how, &|_| Ok(()), tell)
}

/// Applies `input` under the lock. `keep` stores the own copy of it, once it is accepted and before anything is done.
pub fn apply_and_keep(
    site: &Site,
    input: Input,
    keep: &dyn Fn(&Site) -> std::io::Result<()>,
    tell: Tell<'_>,
) -> Result<Report, Trouble> {
    apply_as(site, input, How::Apply, keep, tell)
}

fn apply_as(
    site: &Site,
    input: Input,
    how: How,
    keep: &dyn Fn(&Site) -> std::io::Result<()>,
    tell: Tell<'_>,
) -> Result<Report, Trouble> {
    site.make_folders().map_err(|error| broken("the folders cannot be made", &error))?;
    let missing = images::fetch(site, &input);
    let _lock = lock(site)?;
    let (mut journal, notes) = site.journal().map_err(|error| broken("the state cannot be read", &error))?;
    for note in notes {
        log::warn!("{note}");
    }
    let key = site.digest_key().map_err(|error| broken("the digest key cannot be read", &error))?;
    let mut ready = ready(site, input, journal.memory(), &key)?;
    images::hold_back(&mut ready, &missing);
    let stored = |error| broken("the state cannot be written", &error);
    // The copy first: one that is newer than what the journal accepted is taken at the next boot; an older one is refused.
    keep(site).map_err(|error| broken("the own copy cannot be stored", &error))?;
    journal.commit(ready.first.clone()).map_err(stored)?;
    let mut machine = machine(site, &key, &ready.prepared, journal.memory())?;
    machine.files.sweep(journal.memory());
    if let Some(managers) = &machine.managers {
        // It is owed, and nothing else waits for it.
        if let Err(failure) = managers.mend() {
            log::error!("what shall open again what was closed is not set: {}", failure.text());
        }
        journal.commit(hand::undone(site, journal.memory())).map_err(stored)?;
    }
    run(site, ready, &mut machine, &mut journal, (&key, how), tell)
}

/// Looks and decides as [`apply()`] does, and does nothing.
pub fn plan(site: &Site, input: Input, tell: Tell<'_>) -> Result<Report, Trouble> {
    plan_as_if(site, input, Vec::new(), tell).map(|(report, _)| report)
}

/// The same, and the text that would change.
///
/// # Errors
/// As of [`plan()`].
pub fn plan_with_text(site: &Site, input: Input, tell: Tell<'_>) -> Result<(Report, Vec<Change>), Trouble> {
    let (report, look) = plan_as_if(site, input, Vec::new(), tell)?;
    let changes = look(&report);
    Ok((report, changes))
}

/// The same, as if `entries` had been stored. Beside the report it gives what looks at the text that would change.
fn plan_as_if(
    site: &Site,
    input: Input,
    entries: Vec<Entry>,
    tell: Tell<'_>,
) -> Result<(Report, impl FnOnce(&Report) -> Vec<Change> + use<>), Trouble> {
    let folder = Folder::new(&site.state()).map_err(|error| broken("the state cannot be read", &error))?;
    let (mut journal, _) =
        Journal::open(ReadOnly(folder)).map_err(|error| broken("the state cannot be read", &error))?;
    journal.commit(entries).map_err(|error| broken("the state cannot be read", &error))?;
    let key = site.digest_key().map_err(|error| broken("the digest key cannot be read", &error))?;
    let ready = ready(site, input, journal.memory(), &key)?;
    let mut machine = machine(site, &key, &ready.prepared, journal.memory())?;
    let texts = text::Texts::of(&ready.prepared, journal.memory());
    let report = run(site, ready, &mut machine, &mut journal, (&key, How::Plan), tell)?;
    Ok((report, move |report: &Report| texts.changes(&machine.files, report)))
}

/// What is remembered. Needs no lock.
pub fn memory(site: &Site) -> Result<Memory, Trouble> {
    let folder = Folder::new(&site.state()).map_err(|error| broken("the state cannot be read", &error))?;
    let (journal, _) =
        Journal::open(ReadOnly(folder)).map_err(|error| broken("the state cannot be read", &error))?;
    Ok(journal.memory().clone())
}

/// Makes the folders and takes the lock.
pub fn lock(site: &Site) -> Result<File, Trouble> {
    site.make_folders().map_err(|error| broken("the folders cannot be made", &error))?;
    site.lock().map_err(|error| broken("the lock cannot be taken", &error))?.ok_or(Trouble::Locked)
}

/// Takes the lock, and waits for it for a time.
pub fn lock_within(site: &Site, within: Duration) -> Result<File, Trouble> {
    let until = Instant::now() + within;
    loop {
        match lock(site) {
            Err(Trouble::Locked) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

fn broken(what: &str, error: &std::io::Error) -> Trouble {
    Trouble::Broken(format!("{what}: {error}"))
}

fn ready(site: &Site, input: Input, memory: &Memory, key: &DigestKey) -> Result<Ready, Trouble> {
    match input {
        Input::Bundle(input) => of_bundle(*input, memory, key),
        Input::Mesh(input) => of_mesh(site, &input, memory, key),
    }
}

fn of_bundle(input: Bundle, memory: &Memory, key: &DigestKey) -> Result<Ready, Trouble> {
    let mut gathering = Gathering::new(0, 0);
    let name = input.bundle.clone();
    gathering.module(&name, Digest::of(name.as_bytes()), input.resources.len() as u64);
    let module: Module = bundle(input).map_err(Trouble::Refused)?;
    let prepared =
        prepare(vec![module], Vec::new(), BTreeMap::new(), Family::Bundle(name.clone()), memory, key);
    if let Some(NotReady::Refused(why)) = prepared.not_ready.values().next() {
        return Err(Trouble::Refused(format!("the bundle {name} is refused: {why}")));
    }
    for (origin, why) in &prepared.not_ready {
        gathering.not_ready(origin.name(), why);
    }
    Ok(Ready { prepared, gathering, first: Vec::new(), adopted: false, untaken: BTreeSet::new() })
}

fn of_mesh(site: &Site, input: &Apply, memory: &Memory, key: &DigestKey) -> Result<Ready, Trouble> {
    let settings = site.settings().map_err(Trouble::Broken)?;
    let verified =
        verify(&input.declaration, &settings, memory).map_err(|refusal| Trouble::Refused(refusal.0))?;
    let declaration = verified.declaration;
    let own = site.sealing_key().map_err(|error| broken("the sealing key cannot be read", &error))?;
    let keys = Keys { own: own.as_ref(), vault: &declaration.vault, settings: &settings };
    let found = modules(&declaration, &input.assignments, &input.settings, &input.values, memory, &keys);
    let mut gathering = Gathering::new(declaration.sequence, declaration.fence);
    for part in &declaration.modules {
        let resources = found.resources.get(&part.module).copied().unwrap_or(0);
        gathering.module(&part.module, part.assignment, resources);
    }
    let mut prepared = prepare(found.modules, found.unfilled, found.missing, Family::Mesh, memory, key);
    if let Some(only) = &input.only {
        let only: BTreeSet<Origin> = only.iter().cloned().map(Origin::Mesh).collect();
        // What the others declare is theirs, also where they have failed to make it so far.
        prepared.scope.spoken_for.extend(prepared.desired.iter().map(crate::desired::Desired::target));
        prepared.desired.retain(|desired| only.contains(&desired.origin));
        prepared.scope.only = Some(only);
    }
    for (origin, why) in &prepared.not_ready {
        gathering.not_ready(origin.name(), why);
    }
    let taken = declaration.adoption.as_ref().map(|adoption| &adoption.taken);
    let untaken = |part: &&mesh_model::declaration::Part| {
        taken.is_some_and(|taken| !taken.contains(&part.module)) && !memory.taken.contains(&part.module)
    };
    let untaken = declaration.modules.iter().filter(untaken).map(|part| Origin::Mesh(part.module.clone()));
    let untaken = untaken.collect();
    let mut first = Vec::new();
    if !verified.same {
        first.push(Entry::Accepted(verified.accepted));
    }
    first.extend(found.revisions);
    let declared = |module: &&String| declaration.modules.iter().any(|part| part.module == **module);
    let gone = memory.taken.iter().filter(|module| !declared(module));
    first.extend(gone.map(|module| Entry::Returned { module: module.clone() }));
    Ok(Ready { prepared, gathering, first, adopted: declaration.adoption.is_some(), untaken })
}

/// What a directory holds is worked on also while nobody declares the directory, or before anything is declared.
fn recorded_trust(memory: &Memory) -> impl Iterator<Item = Trust> {
    memory.records.iter().filter_map(|(target, record)| match &record.written {
        Written::Directory { owner, .. }
            if target.kind == Kind::Directory && record.claim != Claim::Agreed =>
        {
            Some(Trust { path: target.name.clone(), owner: owner.words() })
        }
        _ => None,
    })
}

fn machine(site: &Site, key: &DigestKey, prepared: &Prepared, memory: &Memory) -> Result<Real, Trouble> {
    let declared = prepared.desired.iter().filter_map(|desired| match &desired.spec {
        crate::desired::Spec::Directory(directory) => {
            let owner = directory.owner.clone()?;
            Some(Trust { path: directory.path.clone(), owner })
        }
        _ => None,
    });
    let trust = declared.chain(recorded_trust(memory)).collect();
    let files = Files::new(site.root(), site.state().join("kept"), key.clone(), trust)
        .map_err(|error| broken("the root of the tree cannot be opened", &error))?;
    let own = site.sealing_key().map_err(|error| broken("the sealing key cannot be read", &error))?;
    let files = files.with(Rc::clone(&prepared.contents), own);
    let users = Users::new(site.root(), site.is_machine());
    let contents = Rc::clone(&prepared.contents);
    let sequence = memory.accepted.as_ref().map_or(0, |accepted| accepted.sequence);
    // What is applied by hand is confirmed by hand, or with the next declaration.
    let by_hand = matches!(prepared.scope.family, Family::Bundle(_));
    let told = Told { sequence: sequence + u64::from(by_hand), by_hand };
    let managers = site.is_machine().then(|| Managers::find(contents, &site.run(), &site.undo(), told));
    Ok(Real { files, users, managers })
}

fn run<D: crate::state::Disk>(
    site: &Site,
    ready: Ready,
    machine: &mut Real,
    journal: &mut Journal<D>,
    (key, how): (&DigestKey, How),
    tell: Tell<'_>,
) -> Result<Report, Trouble> {
    let Ready { prepared, mut gathering, adopted, untaken, .. } = ready;
    let request = crate::engine::Request {
        desired: prepared.desired,
        scope: prepared.scope,
        adopted,
        untaken,
        managers: site.is_machine(),
        owners: rustix::process::geteuid().is_root(),
        plan: how == How::Plan,
        again: how == How::Again,
        now_s: std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        key: key.clone(),
        state: site.state().display().to_string(),
    };
    let mut engine = Engine::new(request, journal.memory());
    let mut since = Instant::now();
    let mut hear = |ended: crate::engine::Ended| {
        let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        since = Instant::now();
        let news = ended.verdict.outcome != (End::Held { news: false });
        let outcome = gathering.ended(&ended, ms);
        tell(&outcome, news);
    };
    apply::run(&mut engine, machine, journal, &prepared.contents, &mut hear)
        .map_err(|error| broken("the state cannot be written", &error))?;
    let facts = crate::report::facts(journal.memory(), machine.managers.as_mut());
    let schedules = runs::reports(journal.memory(), &runs::load(site), jiff::Timestamp::now());
    Ok(gathering.finish(engine.gated(), facts, schedules))
}

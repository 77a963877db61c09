//! What a person decides about one resource, under the lock.

use super::{Trouble, broken, lock};
use crate::facts::{Answer, PathAnswer, Question};
use crate::files::Files;
use crate::machine::{Contents, Tools};
use crate::record::{Entry, Intent, Memory, Written};
use crate::site::Site;
use crate::step::{Content, FileStep};
use crate::target::{Kind, Origin, Target};

/// Drops all that is remembered of the resource `id`, and touches nothing on the machine.
pub fn forget(site: &Site, id: &str) -> Result<Vec<Target>, Trouble> {
    let _lock = lock(site)?;
    let (mut journal, _) = site.journal().map_err(|error| broken("the state cannot be read", &error))?;
    let memory = journal.memory();
    let mut entries = Vec::new();
    let mut targets = Vec::new();
    let recorded = memory.records.iter().filter(|(_, record)| record.id == id).map(|(target, _)| target);
    let begun = memory
        .intents
        .iter()
        .filter(|(_, intents)| intents.iter().any(|intent| intent.id == id))
        .map(|(target, _)| target);
    for target in recorded.chain(begun) {
        if !targets.contains(target) {
            targets.push(target.clone());
            entries.push(Entry::Dropped { target: target.clone() });
        }
    }
    for (target, _) in memory.holds.iter().filter(|(_, hold)| hold.id == id) {
        entries.push(Entry::LetGo { target: target.clone() });
        targets.push(target.clone());
    }
    let written = journal.commit(entries).and_then(|()| journal.checkpoint());
    written.map_err(|error| broken("the state cannot be written", &error))?;
    Ok(targets)
}

/// Puts back the original that was kept of a resource, by its id or path. Returns the path.
pub fn restore(site: &Site, id: &str) -> Result<String, Trouble> {
    let _lock = lock(site)?;
    let (mut journal, _) = site.journal().map_err(|error| broken("the state cannot be read", &error))?;
    let memory = journal.memory();
    let Some((path, original)) = original(memory, id) else {
        return Err(Trouble::Refused(format!("no original is kept of {id}: see mesh-host status")));
    };
    let key = site.digest_key().map_err(|error| broken("the digest key cannot be read", &error))?;
    let trust = super::recorded_trust(memory).collect();
    let mut files = Files::new(site.root(), site.state().join("kept"), key, trust)
        .map_err(|error| broken("the root of the tree cannot be opened", &error))?;
    files.sweep(memory);
    let target = Target::new(Kind::File, &path);
    let record = memory.records.get(&target);
    let place = match record.map(|record| &record.written) {
        Some(Written::File { at: Some(at), .. }) => at.clone(),
        _ => path.clone(),
    };
    let question = Question::Content { path: place.clone(), keyed: original.digest.is_keyed() };
    let seen = match files.look(&[&question]).pop() {
        Some(Answer::Path(PathAnswer { found: Some(fact), .. })) if !fact.is_regular() => {
            return Err(Trouble::Refused(format!("{place} is {}: move it away", fact.kind.words())));
        }
        Some(Answer::Path(answer)) => answer.found.map(|fact| fact.stamp),
        Some(Answer::Refused(why) | Answer::NotAnswered(why)) => return Err(Trouble::Refused(why)),
        _ => return Err(Trouble::Refused(format!("{path} cannot be looked at"))),
    };
    let seq = journal.next_seq();
    let temporary = format!(".mesh-host-{seq}");
    let intent = Intent {
        target: target.clone(),
        id: record.map_or(id, |record| record.id.as_str()).to_owned(),
        origin: record.map_or(Origin::Mesh(String::new()), |record| record.origin.clone()),
        place: record.map_or(0, |record| record.place),
        creates: seen.is_none(),
        digest: Some(original.digest.clone()),
        was: None,
        temporary: place.rsplit_once('/').map(|(folder, _)| format!("{folder}/{temporary}")),
    };
    let step = FileStep::Write {
        path: place,
        content: Content::Original(original.name.clone()),
        digest: original.digest.clone(),
        mode: original.mode,
        owner: rustix::process::geteuid().is_root().then_some(original.owner),
        seen,
        in_place: false,
    };
    let stored = |error| broken("the state cannot be written", &error);
    journal.commit(vec![Entry::Intent(intent)]).map_err(stored)?;
    let tools = Tools { contents: &Contents::default(), temporary: &temporary };
    let done = files.perform(&step, &tools).and_then(|()| files.sync());
    done.map_err(|failure| Trouble::Refused(failure.text().to_owned()))?;
    journal.commit(vec![Entry::PutBack { target }]).and_then(|()| journal.checkpoint()).map_err(stored)?;
    Ok(path)
}

fn original(memory: &Memory, id: &str) -> Option<(String, crate::record::Original)> {
    let by_id = memory
        .records
        .iter()
        .find(|(target, record)| record.id == id && memory.originals.contains_key(&target.name))
        .map(|(target, _)| target.name.as_str());
    let path = by_id.unwrap_or(id);
    memory.originals.get(path).map(|original| (path.to_owned(), original.clone()))
}

/// The client has reached the bus again since this sequence was applied, so what could have cut it off stays.
pub fn confirm(site: &Site, sequence: u64) -> Result<(), Trouble> {
    let accepted = super::memory(site)?.accepted.map_or(0, |accepted| accepted.sequence);
    if sequence > accepted {
        return Err(Trouble::Refused(format!(
            "the sequence {sequence} was never accepted here; the newest is {accepted}"
        )));
    }
    crate::managers::confirm(&site.undo(), Some(sequence))
        .map_err(|failure| Trouble::Broken(failure.text().to_owned()))
}

/// A person says that what was closed stays closed.
pub fn confirm_by_hand(site: &Site) -> Result<(), Trouble> {
    crate::managers::confirm(&site.undo(), None).map_err(|failure| Trouble::Broken(failure.text().to_owned()))
}

/// What was closed for good, and was opened again by its timer: it is still to be closed.
pub(super) fn undone(site: &Site, memory: &Memory) -> Vec<Entry> {
    let Some(undone) = crate::managers::undone(&site.undo()) else { return Vec::new() };
    let owed = undone.before.into_iter().filter_map(|(name, before)| {
        let (target, of) = (Target::new(Kind::Opening, name), before.of?);
        let known = memory.records.contains_key(&target) || memory.intents.contains_key(&target);
        let intent = Intent {
            target,
            id: of.id,
            origin: of.origin,
            place: of.place,
            creates: false,
            digest: None,
            was: None,
            temporary: None,
        };
        (!known).then_some(Entry::Intent(intent))
    });
    owed.collect()
}

//! What is no longer declared: what this host made is undone, what it found is left, and what was changed by hand is
//! kept.

use super::{Decided, Failure, Move, Remember, View, failed};
use crate::digest::Digest;
use crate::facts::{FileKind, PathFact, Question};
use crate::outcome::{Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{Content, FileStep, Ids, Step};
use crate::target::Kind;

/// What is said of a kept original that is in its place again.
const BACK: &str = "the file that was there before is back";

pub(super) fn next(view: &View<'_>) -> Decided {
    let begun = view.memory.intents.contains_key(view.target);
    match view.record().map(|record| record.claim) {
        Some(Claim::Agreed) if !begun => return Ok(forgotten("it was found as declared, and is left")),
        Some(Claim::Configured) => return Ok(forgotten("it was there before, and is left as it is now")),
        _ => {}
    }
    match view.target.kind {
        Kind::Directory => directory(view),
        Kind::File => file(view),
        Kind::Into => into(view),
        Kind::Archive => super::archive::remove(view),
        Kind::Access => Ok(forgotten("the operator's; the path is left")),
        Kind::User => Ok(forgotten("the user is left, with all that belongs to it")),
        Kind::Package | Kind::Action if view.record().is_none() => {
            Ok(forgotten("it was begun and not finished; what is there of it is left"))
        }
        Kind::Package => Ok(forgotten("it is left installed")),
        Kind::Action => Ok(forgotten("what it made is left")),
        _ if !view.managers => Ok(super::skipped()),
        Kind::Service => super::service::remove(view),
        Kind::Container => super::container::next_orphan(view),
        Kind::Network => super::network::next_orphan(view),
        Kind::Process => super::process::remove(view),
        Kind::Opening => super::opening::next_orphan(view),
    }
}

fn into(view: &View<'_>) -> Decided {
    // Begun before a kill, and perhaps done.
    let mut begun = view.memory.intents.get(view.target).into_iter().flatten();
    let format = match view.record().map(|record| &record.written) {
        Some(Written::Into { format, .. }) => Some(format),
        _ => begun.find_map(|intent| intent.was.as_ref()),
    };
    match (view.target.name.rsplit_once('#'), format.and_then(|format| format.parse().ok())) {
        (Some((path, _)), Some(format)) => super::into::remove(path, format, view),
        _ => Ok(forgotten("it is not known whether it was set; the file is left")),
    }
}

/// Whether this host is recorded to have made it.
fn is_made(view: &View<'_>) -> bool {
    view.record().is_some_and(|record| record.claim == Claim::Made)
}

fn forgotten(detail: &str) -> Move {
    Move::Done(Verdict::new(Outcome::Forgotten, detail), Remember::Dropped)
}

fn kept(detail: String) -> Move {
    Move::Done(Verdict::new(Outcome::KeptOrphan, detail), Remember::Dropped)
}

fn directory(view: &View<'_>) -> Decided {
    let path = &view.target.name;
    let question = Question::Path(path.clone());
    view.look(std::slice::from_ref(&question))?;
    let found = view.path(&question)?.found.as_ref();
    let removed = Verdict::plain(Outcome::Removed);
    Ok(match found {
        None if view.did.is_empty() => forgotten("it is gone already"),
        None => Move::Done(removed, Remember::Dropped),
        Some(_) if !view.did.is_empty() => {
            return Err(failed(Failure::Failed(format!("{path} was removed and is still there"))));
        }
        Some(fact) => match fact.kind {
            // Begun before a kill, and never known to be made: it may have been there before.
            FileKind::Directory { .. } if !is_made(view) => {
                forgotten("it is not known whether this host made it, and it is left")
            }
            FileKind::Directory { entries: 0 } => {
                Move::Do(Step::Files(FileStep::RemoveDirectory { path: path.clone() }), removed)
            }
            FileKind::Directory { entries } => kept(format!(
                "{entries} {} in it that this host did not make: look at them and remove the directory yourself",
                if entries == 1 { "entry is" } else { "entries are" }
            )),
            _ => kept(format!("it is {} now, which this host did not make", fact.kind.words())),
        },
    })
}

fn file(view: &View<'_>) -> Decided {
    let path = match view.record().map(|record| &record.written) {
        Some(Written::File { at: Some(at), .. }) => at,
        _ => &view.target.name,
    };
    let keyed = view.memory.wrote(view.target, Digest::is_keyed);
    let question = Question::Content { path: path.clone(), keyed };
    view.look(std::slice::from_ref(&question))?;
    let found = view.path(&question)?.found.as_ref();
    let original = view.memory.originals.get(&view.target.name);
    if let Some(step) = view.did.last() {
        return read_back(view, step, found);
    }
    let Some(fact) = found else {
        return Ok(forgotten("it is gone already"));
    };
    if !fact.is_regular() {
        return Ok(kept(format!("it is {} now, which this host did not make", fact.kind.words())));
    }
    // Killed before it was written over, or after it was put back.
    if original.is_some_and(|original| fact.has(&original.digest) && fact.mode == original.mode) {
        return Ok(Move::Done(Verdict::new(Outcome::Removed, BACK), Remember::PutBack));
    }
    // What was found as declared was not written by this host, whatever it has begun since.
    let ours = if is_made(view) {
        view.memory.wrote(view.target, |digest| fact.has(digest))
    } else {
        view.memory.intended(view.target, |digest| fact.has(digest))
    };
    // Only what is written in place has no temporary. Cut off, it leaves neither what was there nor what was to be.
    let mut begun = view.memory.intents.get(view.target).into_iter().flatten();
    let torn = !ours && begun.any(|intent| intent.digest.is_some() && intent.temporary.is_none());
    if torn && fact.size > 0 {
        let detail = "it was changed by hand, or a write in place was cut off";
        return Ok(kept(original.map_or(detail.to_owned(), |_| {
            format!("{detail}: mesh-host restore {} puts back what was there before", view.target.name)
        })));
    }
    if !ours && !torn && !is_made(view) {
        return Ok(forgotten("it was never written"));
    }
    if !ours && !torn {
        return Ok(kept("it was changed by hand since this host last wrote it".to_owned()));
    }
    let (step, detail) = match original {
        Some(original) => {
            let step = FileStep::Write {
                path: path.clone(),
                content: Content::Original(original.name.clone()),
                digest: original.digest.clone(),
                mode: original.mode,
                owner: view.owners.then_some(original.owner),
                seen: Some(fact.stamp),
                in_place: fact.mounted,
            };
            (step, BACK)
        }
        None => (FileStep::Unlink { path: path.clone(), seen: fact.stamp }, ""),
    };
    Ok(Move::Do(Step::Files(step), Verdict::new(Outcome::Removed, detail)))
}

/// Whether the last step did what it should.
fn read_back(view: &View<'_>, step: &Step, found: Option<&PathFact>) -> Decided {
    let path = &view.target.name;
    match (step, found) {
        (Step::Files(FileStep::Write { digest, mode, owner, .. }), Some(fact))
            if fact.has(digest)
                && fact.mode == *mode
                && owner.is_none_or(|owner| owner == Ids { uid: fact.uid, gid: fact.gid }) =>
        {
            Ok(Move::Done(Verdict::new(Outcome::Removed, BACK), Remember::PutBack))
        }
        (Step::Files(FileStep::Unlink { .. }), None) => {
            Ok(Move::Done(Verdict::plain(Outcome::Removed), Remember::Dropped))
        }
        _ => Err(failed(Failure::Failed(format!("{path} was removed and is still there")))),
    }
}

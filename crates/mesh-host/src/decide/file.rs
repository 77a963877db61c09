//! A file: its content, mode and owner, replaced as a whole.

use super::{Decided, Failure, Move, Remember, View, failed, updated_or};
use crate::desired::File;
use crate::digest::Digest;
use crate::facts::{Answer, FileKind, PathFact, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{Content, FileStep, Ids, Step, parent};

pub(super) fn next(id: &str, file: &File, view: &View<'_>) -> Decided {
    let place = place(file, view)?;
    let path = &place;
    let question = question(path, file, view);
    let mut questions = vec![question.clone()];
    questions.extend(view.owner_question(file.owner.as_ref()));
    view.look(&questions)?;
    let answer = view.path(&question)?;
    // A user who made the file before would own a secret: without a declared owner it is root's.
    let of_a_secret = (view.owners && file.digest.is_keyed()).then_some(Ids { uid: 0, gid: 0 });
    let owner = view.owner(file.owner.as_ref())?.or(of_a_secret);
    let found = answer.found.as_ref();
    if let Some(fact) = found.filter(|fact| !fact.is_regular()) {
        let text = format!("{path} is {}, and a file is declared: move it away", fact.kind.words());
        return Err(failed(Failure::Failed(text)));
    }
    if let Some(fact) = found.filter(|fact| fact.mounted && !file.in_place) {
        let text = format!(
            "{path} is a mount point, which no rename can replace (it has {} bytes): mount its directory instead, or \
             declare \"in-place\": true",
            fact.size
        );
        return Err(failed(Failure::Failed(text)));
    }
    let wrote = view.did.iter().any(|step| matches!(step, Step::Files(FileStep::Write { .. })));
    let mount = Some(answer.mount.clone());
    if let Some(fact) = found.filter(|_| file.create_once && !wrote) {
        return Ok(kept(file, path, fact, mount, view));
    }
    let verdict = verdict(file, owner, view.path_before(&question), view);
    if let Some(fact) = found.filter(|fact| is_as_declared(file, owner, fact)) {
        let at = at(file, path);
        let written =
            Written::File { at, digest: file.digest.clone(), mode: fact.mode, owner: owner_of(fact) };
        return Ok(Move::Done(verdict, Remember::Applied { claim: claim(view, fact), mount, written }));
    }
    if wrote {
        let is =
            found.map_or_else(|| "is not there".to_owned(), |fact| format!("reads back as {}", words(fact)));
        return Err(failed(Failure::Failed(format!("{path} was written and {is}"))));
    }
    if let Some(fact) = found.filter(|fact| file.in_place && is_open_to_others(file, owner, fact)) {
        let text = format!(
            "{path} has been open to others ({}), who may go on reading it, and a secret is to be written into it in place: \
             remove it",
            words(fact)
        );
        return Err(failed(Failure::Failed(text)));
    }
    // The machine's own file: it is kept before it is written over for the first time.
    if let Some(fact) = found.filter(|fact| is_the_machines(fact, view)) {
        let name = name_of_original(&view.target.name);
        let step = FileStep::Keep { path: path.clone(), seen: fact.stamp, name };
        return Ok(Move::Do(Step::Files(step), verdict));
    }
    let owner = match found {
        None => owner.or(view.owners.then_some(Ids { uid: 0, gid: 0 })),
        // A new inode takes the place of the old one, and has to have its owner.
        Some(fact) => owner.or(view.owners.then_some(owner_of(fact))),
    };
    let step = FileStep::Write {
        path: path.clone(),
        content: Content::Declared(id.to_owned()),
        digest: file.digest.clone(),
        mode: file.mode,
        owner,
        seen: found.map(|fact| fact.stamp),
        in_place: file.in_place && found.is_some(),
    };
    Ok(Move::Do(Step::Files(step), verdict))
}

/// Where the file lies: its path, or where the link at its end leads if that is declared.
fn place(file: &File, view: &View<'_>) -> Result<String, Box<Move>> {
    if !file.through_link {
        return Ok(file.path.clone());
    }
    let question = Question::Path(file.path.clone());
    view.look(std::slice::from_ref(&question))?;
    // The link may lie on another file system than the file, so only the file's is compared.
    let found = match view.facts.get(&question) {
        Some(Answer::Path(answer)) => answer.found.as_ref(),
        other => return Err(super::not_as_asked(other, &question)),
    };
    match found.map(|fact| (&fact.kind, fact.uid)) {
        // Whoever may replace a link would choose what root writes over.
        Some((FileKind::Link(_), uid)) if view.owners && uid != 0 => {
            let why = format!("{} is a link of the user {uid}: only a link of root is followed", file.path);
            Err(failed(Failure::Failed(why)))
        }
        Some((FileKind::Link(to), _)) => Ok(resolved(parent(&file.path), to)),
        _ => Ok(file.path.clone()),
    }
}

/// Where a link in `folder` leads, without `.` and `..`.
fn resolved(folder: &str, to: &str) -> String {
    let from = if to.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(to.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// What is recorded of a place that is not the file's own path.
fn at(file: &File, path: &str) -> Option<String> {
    (path != file.path).then(|| path.to_owned())
}

/// The question about the file; with the keyed digest if the file carries a secret, or did when it was written.
fn question(path: &str, file: &File, view: &View<'_>) -> Question {
    let keyed = file.digest.is_keyed() || view.memory.wrote(view.target, Digest::is_keyed);
    Question::Content { path: path.to_owned(), keyed }
}

/// Where the original of `path` is kept.
pub(super) fn name_of_original(path: &str) -> String {
    Digest::plain(path.as_bytes()).as_str().trim_start_matches("sha256:")[..32].to_owned()
}

fn owner_of(fact: &PathFact) -> Ids {
    Ids { uid: fact.uid, gid: fact.gid }
}

fn is_as_declared(file: &File, owner: Option<Ids>, fact: &PathFact) -> bool {
    fact.has(&file.digest) && fact.mode == file.mode && owner.is_none_or(|owner| owner == owner_of(fact))
}

/// Whether a user who may not read the secret could have opened what is there.
fn is_open_to_others(file: &File, owner: Option<Ids>, fact: &PathFact) -> bool {
    let stranger = owner.is_some_and(|owner| fact.uid != owner.uid && fact.uid != 0);
    file.digest.is_keyed() && (stranger || fact.mode & !file.mode & 0o066 != 0)
}

/// Whether what is there was never written by this host, and no original of it is kept yet.
fn is_the_machines(fact: &PathFact, view: &View<'_>) -> bool {
    view.record().is_none_or(|record| record.claim == Claim::Agreed)
        && !view.memory.intended(view.target, |digest| fact.has(digest))
        && !view.memory.originals.contains_key(&view.target.name)
}

/// A file that stands as declared is ours if this host wrote it: now, before, or before a kill.
fn claim(view: &View<'_>, fact: &PathFact) -> Claim {
    let begun = view.memory.intended(view.target, |digest| fact.has(digest));
    match view.record() {
        _ if begun || !view.did.is_empty() => Claim::Made,
        Some(record) => record.claim,
        None => Claim::Agreed,
    }
}

/// The end of a create-once file that is present: nothing of it is looked at more closely.
fn kept(file: &File, path: &str, fact: &PathFact, mount: Option<String>, view: &View<'_>) -> Move {
    let earlier = match view.record().map(|record| &record.written) {
        Some(Written::File { digest, .. }) => Some(digest.clone()),
        _ => None,
    };
    // What was begun before a kill and is there now began with this declaration's content.
    let begun = view.memory.intended(view.target, |digest| *digest == file.digest && fact.has(digest));
    let found = fact.digests.as_ref().map(|digests| digests.to_report().clone());
    let digest = begun.then(|| file.digest.clone()).or(earlier).or(found);
    let written = Written::File {
        at: at(file, path),
        digest: digest.unwrap_or_else(|| file.digest.clone()),
        mode: fact.mode,
        owner: owner_of(fact),
    };
    let remember = Remember::Applied { claim: claim(view, fact), mount, written };
    Move::Done(Verdict::new(Outcome::KeptFile, "present; written once and left as it is"), remember)
}

/// A file in a word: the digest and the mode.
fn words(fact: &PathFact) -> String {
    let digest = fact.digests.as_ref().map_or("unread", |digests| digests.to_report().as_str());
    format!("{digest} {:04o} {}", fact.mode, owner_of(fact).words())
}

/// How the work ends, seen from what was there before.
fn verdict(file: &File, owner: Option<Ids>, before: Option<&PathFact>, view: &View<'_>) -> Verdict {
    let recorded = match view.record().map(|record| &record.written) {
        Some(Written::File { digest, mode, owner, .. }) => Some((digest, *mode, *owner)),
        _ => None,
    };
    let put_back = recorded.is_some_and(|(digest, ..)| *digest == file.digest);
    let to = format!("{} {:04o}", file.digest, file.mode);
    let Some(fact) = before else {
        let created = Verdict::plain(Outcome::Created);
        let verdict = recorded.map_or(created, |_| {
            let corrected = put_back.then_some(Outcome::Corrected(Drift::Gone));
            updated_or(corrected, "it had been removed from the machine".to_owned())
        });
        return verdict.moved(None, to);
    };
    let from = format!(
        "{} {:04o}",
        fact.digests.as_ref().map_or("unread", |digests| digests.to_report().as_str()),
        fact.mode
    );
    let was = owner_of(fact);
    let other_content = !fact.has(&file.digest);
    let other_mode = fact.mode != file.mode;
    let other_owner = owner.filter(|owner| *owner != was);
    let drifted = recorded.is_some_and(|(digest, ..)| !fact.has(digest))
        && !view.memory.intended(view.target, |digest| fact.has(digest));
    let mut details = Vec::new();
    let mut corrected = None;
    if other_content {
        details.push(if other_mode { "content and mode".to_owned() } else { "content".to_owned() });
        if drifted && put_back {
            corrected = Some(Outcome::Corrected(Drift::Content));
            details = vec!["it had been changed on the machine since this host last wrote it".to_owned()];
        } else if drifted {
            details.push("and it had drifted".to_owned());
        }
    } else if other_mode {
        details.push(format!("mode {:04o} to {:04o}", fact.mode, file.mode));
        if recorded.is_some_and(|(_, mode, _)| mode == file.mode) {
            corrected = Some(Outcome::Corrected(Drift::Mode));
        }
    }
    if let Some(owner) = other_owner {
        details.push(format!("owner {} to {}", was.words(), owner.words()));
        if !other_content && !other_mode && recorded.is_some_and(|(_, _, recorded)| recorded == owner) {
            corrected = Some(Outcome::Corrected(Drift::Owner));
        }
    }
    if !other_content && !other_mode && other_owner.is_none() {
        return Verdict::plain(Outcome::Unchanged);
    }
    updated_or(corrected, details.join(", ")).moved(from, to)
}

//! What an apply changes in the memory.

use super::work::{Job, Work};
use crate::decide::Remember;
use crate::facts::{Answer, Facts, Question};
use crate::outcome::{Outcome, Verdict};
use crate::record::{Entry, Hold, Memory, Original, Record};
use crate::step::{FileStep, Ids, Step};
use crate::target::Target;

/// What the end of a work changes in the memory.
pub(super) fn entries(
    work: &Work,
    verdict: &Verdict,
    remember: Remember,
    memory: &Memory,
    now_s: u64,
) -> Vec<Entry> {
    let target = work.target.clone();
    match (&work.job, remember) {
        (Job::LetGo, _) => vec![Entry::LetGo { target }],
        (_, Remember::Applied { claim, mount, written }) => {
            let (id, origin) = (work.id.clone(), work.origin.clone());
            // What was begun before a kill may have been done by then.
            let news = verdict.outcome.effect().triggers || memory.intents.contains_key(&target);
            let moves = memory.records.get(&target).map_or(0, |record| record.moves) + u64::from(news);
            let record = Record { id, origin, place: work.place, claim, moves, mount, written };
            let known = memory.records.get(&target) == Some(&record)
                && !memory.intents.contains_key(&target)
                && !memory.holds.contains_key(&target);
            if known { Vec::new() } else { vec![Entry::Applied { target, record }] }
        }
        (_, Remember::Tried(digest)) => vec![Entry::Tried { target, digest, at_s: now_s }],
        (_, Remember::Dropped) => vec![Entry::Dropped { target }],
        (_, Remember::PutBack) => vec![Entry::PutBack { target }],
        (_, Remember::Same) if verdict.outcome == (Outcome::Held { news: true }) => {
            let (id, origin) = (work.id.clone(), work.origin.clone());
            vec![Entry::Held { target, hold: Hold { id, origin, why: verdict.detail.clone() } }]
        }
        (_, Remember::Same) => Vec::new(),
    }
}

/// What has to be stored about a step that went well, before the next step of the same resource.
pub(super) fn after(target: &Target, step: &Step, before: &Facts) -> Option<Entry> {
    let Step::Files(FileStep::Keep { path, name, .. }) = step else { return None };
    for keyed in [true, false] {
        let Some(Answer::Path(answer)) = before.get(&Question::Content { path: path.clone(), keyed }) else {
            continue;
        };
        let fact = answer.found.as_ref()?;
        let original = Original {
            name: name.clone(),
            digest: fact.digests.as_ref()?.to_report().clone(),
            mode: fact.mode,
            owner: Ids { uid: fact.uid, gid: fact.gid },
        };
        return Some(Entry::Kept { path: target.name.clone(), original });
    }
    None
}

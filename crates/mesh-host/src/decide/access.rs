//! An operator's path: it has to be there, and nothing is ever written.

use super::{Decided, Failure, Move, Remember, View, failed};
use crate::desired::Access;
use crate::facts::{FileKind, Question};
use crate::outcome::{Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::Ids;

pub(super) fn next(access: &Access, view: &View<'_>) -> Decided {
    let question = Question::Path(access.path.clone());
    view.look(std::slice::from_ref(&question))?;
    let answer = view.path(&question)?;
    let failure = match &answer.found {
        Some(fact) if matches!(fact.kind, FileKind::Directory { .. }) => {
            let detail = format!("operator-owned; present, {:04o}, nothing managed", fact.mode);
            let owner = Ids { uid: fact.uid, gid: fact.gid };
            let written = Written::Directory { mode: fact.mode, owner };
            let mount = Some(answer.mount.clone());
            let remember = Remember::Applied { claim: Claim::Agreed, mount, written };
            return Ok(Move::Done(Verdict::new(Outcome::Unchanged, detail), remember));
        }
        Some(fact) => {
            format!("{} is {}: the operator has to provide a directory", access.path, fact.kind.words())
        }
        None => format!("{} is not there: the operator has to provide it", access.path),
    };
    Err(failed(Failure::Failed(failure)))
}

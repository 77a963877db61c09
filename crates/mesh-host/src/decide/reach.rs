//! What a new thing would reach that was found on the machine: a port that something listens on, a path that it mounts, a
//! container that it acts in. On an adopted node it is held then, until its module is taken.

use super::{Move, View, not_as_asked};
use crate::container::{HeldPort, ports, sources};
use crate::desired::{Desired, Spec};
use crate::facts::{Answer, Question};
use crate::record::Claim;
use crate::target::{Kind, Target};
use mesh_model::resource::What;

/// What the resource would reach, in words for people; `None`: nothing that was found.
pub(crate) fn reaches(desired: &Desired, view: &View<'_>) -> Result<Option<String>, Box<Move>> {
    let Spec::Managed(managed) = &desired.spec else { return Ok(None) };
    let questions: Vec<Question> = match &managed.what {
        What::Container(container) => ports(container)
            .into_iter()
            .map(Question::Listener)
            .chain(sources(container).into_iter().filter(|path| !is_ours(path, view)).map(Question::Path))
            .collect(),
        What::Action(action) => {
            action.within.iter().map(|name| Question::Container(name.to_string())).collect()
        }
        _ => Vec::new(),
    };
    view.look(&questions)?;
    for question in &questions {
        let reached = match (question, view.facts.get(question)) {
            (Question::Listener(HeldPort { port, udp }), Some(Answer::Present)) => {
                format!(
                    "publishes port {port}/{}, on which something listens",
                    if *udp { "udp" } else { "tcp" }
                )
            }
            (Question::Path(path), Some(Answer::Path(answer))) if answer.found.is_some() => {
                format!("mounts {path}, which was found")
            }
            (Question::Container(name), Some(Answer::Container(family)))
                if family.current.as_ref().is_some_and(|current| !current.is_ours()) =>
            {
                format!("acts in the container {name}, which was found")
            }
            (_, Some(Answer::Absent | Answer::Path(_) | Answer::Container(_))) => continue,
            (question, other) => return Err(not_as_asked(other, question)),
        };
        return Ok(Some(reached));
    }
    Ok(None)
}

/// Whether this host made the path, or a directory above it, or an operator provides it.
fn is_ours(path: &str, view: &View<'_>) -> bool {
    let is_at = |target: &Target| {
        matches!(target.kind, Kind::Directory | Kind::File | Kind::Archive | Kind::Access)
            && path
                .strip_prefix(target.name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let memory = view.memory;
    memory.intents.keys().any(is_at)
        || memory.records.iter().any(|(target, record)| {
            is_at(target) && (target.kind == Kind::Access || record.claim != Claim::Agreed)
        })
}

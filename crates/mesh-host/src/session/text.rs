//! The text that a plan would change, line by line. Shown are files alone that anyone may read, before and after, and
//! that never carried a secret as far as this host knows.

use crate::desired::{File, Spec};
use crate::digest::Digest;
use crate::files::{Files, Public};
use crate::machine::Contents;
use crate::prepare::Prepared;
use crate::record::Memory;
use crate::target;
use mesh_model::report::{Report, Word};
use mesh_model::resource::Kind;
use similar::TextDiff;
use std::rc::Rc;
use std::time::Duration;

/// The longest text that is compared, in bytes.
const MAX_TEXT: u64 = 256 << 10;
/// How long two texts are compared until the rest counts as changed.
const COMPARE: Duration = Duration::from_secs(1);

/// What becomes of the text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: String,
    /// A unified diff, or why there is none to see.
    pub text: Result<String, &'static str>,
}

/// A declared file, and why its text may not be shown.
struct Candidate {
    id: String,
    path: String,
    closed: Option<&'static str>,
}

/// The declared files of a plan.
pub(super) struct Texts {
    candidates: Vec<Candidate>,
    contents: Rc<Contents>,
}

const SECRET: &str = "it carries a secret, or did";
const CLOSED: &str = "not everyone may read it";
const LARGE: &str = "it has more than 256 KiB";
const BINARY: &str = "it is no text";

impl Texts {
    pub(super) fn of(prepared: &Prepared, memory: &Memory) -> Self {
        let closed_folders: Vec<&str> = prepared
            .desired
            .iter()
            .filter_map(|desired| match &desired.spec {
                Spec::Directory(folder) if folder.mode & 0o001 == 0 => Some(folder.path.as_str()),
                _ => None,
            })
            .collect();
        let below =
            |path: &str, folder: &&str| path.strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'));
        let closed = |file: &File| {
            if file.digest.is_keyed() || carried(&file.path, memory) {
                return Some(SECRET);
            }
            let open = file.mode & 0o004 != 0 && !file.through_link;
            (!open || closed_folders.iter().any(|folder| below(&file.path, folder))).then_some(CLOSED)
        };
        let candidates = prepared.desired.iter().filter_map(|desired| match &desired.spec {
            Spec::File(file) => {
                let (id, path) = (desired.id.clone(), file.path.clone());
                Some(Candidate { id, path, closed: closed(file) })
            }
            _ => None,
        });
        Self { candidates: candidates.collect(), contents: Rc::clone(&prepared.contents) }
    }

    /// What the plan would change.
    pub(super) fn changes(&self, files: &Files, report: &Report) -> Vec<Change> {
        let written = [Word::Created, Word::Updated, Word::Corrected];
        let outcomes = report
            .outcomes
            .iter()
            .filter(|outcome| outcome.kind == Kind::File && written.contains(&outcome.word));
        let find = |id: &str| self.candidates.iter().find(|candidate| candidate.id == id);
        outcomes.filter_map(|outcome| self.change(find(&outcome.id)?, files)).collect()
    }

    /// `None`: the text stays as it is, and only mode or owner change.
    fn change(&self, candidate: &Candidate, files: &Files) -> Option<Change> {
        let path = candidate.path.clone();
        let hidden = |why| Some(Change { path: path.clone(), text: Err(why) });
        if let Some(why) = candidate.closed {
            return hidden(why);
        }
        let new = self.contents.get(&candidate.id)?;
        let (from, old) = match files.public(&path, MAX_TEXT) {
            Public::Absent => ("/dev/null", Vec::new()),
            Public::Bytes(bytes) => (path.as_str(), bytes),
            Public::Closed => return hidden(CLOSED),
            Public::Large => return hidden(LARGE),
        };
        if new.len() as u64 > MAX_TEXT {
            return hidden(LARGE);
        }
        let (Ok(old), Ok(new)) = (std::str::from_utf8(&old), std::str::from_utf8(new)) else {
            return hidden(BINARY);
        };
        if old == new {
            return None;
        }
        let diff = TextDiff::configure().timeout(COMPARE).diff_lines(old, new);
        let text = diff.unified_diff().context_radius(3).header(from, &path).to_string();
        Some(Change { path: path.clone(), text: Ok(text) })
    }
}

/// Whether this host ever recorded a secret in this file: as a whole, or as keys inside of it.
fn carried(path: &str, memory: &Memory) -> bool {
    let names = memory.records.keys().chain(memory.intents.keys());
    let mut of_it = names.filter(|target| target.name.split('#').next() == Some(path));
    // Of keys inside a file it is not recorded whether there is a secret among them.
    of_it.any(|target| target.kind == target::Kind::Into || memory.wrote(target, Digest::is_keyed))
}

//! The firewall of the machine. Ufw and firewalld are told by their own tools; otherwise there is a table of our own,
//! which is loaded whole and at once. Nobody else's table is ever touched.

mod firewalld;
mod nft;
mod ufw;
mod undo;

pub(crate) use undo::{Told, confirm, undone};

use super::command::{ANSWER, Command, PATH, Ran};
use crate::facts::{Answer, OpeningFact, Question};
use crate::outcome::Failure;
use crate::step::OpeningStep;
use nft::Table;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use undo::GuardBefore;

/// How long a tool may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Which firewall is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Ufw, which is enabled.
    Ufw,
    /// Firewalld, which runs.
    Firewalld,
    /// Neither; the kernel's own tables are there.
    Nftables,
}

impl Found {
    /// Its name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ufw => "ufw",
            Self::Firewalld => "firewalld",
            Self::Nftables => "nftables",
        }
    }

    /// Looks for it; no process is started. `None`: there is no tool for any.
    pub(super) fn find() -> Option<Self> {
        let ufw = fs::read_to_string("/etc/ufw/ufw.conf").unwrap_or_default();
        if ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("enabled=yes")) {
            return Some(Self::Ufw);
        }
        if firewalld::runs() {
            return Some(Self::Firewalld);
        }
        let folders = PATH.split(':');
        folders
            .map(|folder| Path::new(folder).join("nft"))
            .any(|path| path.is_file())
            .then_some(Self::Nftables)
    }
}

/// A port with its protocol, and from where it is let in; nothing: from everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opened {
    port: u16,
    protocol: String,
    from: BTreeSet<String>,
}

impl Opened {
    /// From the target's name, `8080/tcp`.
    fn new(name: &str, from: &BTreeSet<String>) -> Result<Self, Failure> {
        let parts = name.split_once('/').and_then(|(port, protocol)| Some((port.parse().ok()?, protocol)));
        let (port, protocol) =
            parts.filter(|(_, protocol)| ["tcp", "udp"].contains(protocol)).ok_or_else(|| {
                Failure::Failed(format!("{name} is not a port and protocol; report this as a bug"))
            })?;
        Ok(Self { port, protocol: protocol.to_owned(), from: from.clone() })
    }

    /// As targets are named: `8080/tcp`.
    fn name(&self) -> String {
        format!("{}/{}", self.port, self.protocol)
    }

    /// Its sources; everywhere is `None`.
    fn sources(&self) -> Vec<Option<&str>> {
        if self.from.is_empty() {
            vec![None]
        } else {
            self.from.iter().map(|from| Some(from.as_str())).collect()
        }
    }
}

/// Whether an address that was let in no longer is. An empty set means everywhere.
fn is_narrower(before: Option<&BTreeSet<String>>, after: Option<&BTreeSet<String>>) -> bool {
    match (before, after) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(before), Some(after)) if before.is_empty() => !after.is_empty(),
        (Some(before), Some(after)) => !after.is_empty() && !before.is_subset(after),
    }
}

/// The firewall, once it was asked for.
#[derive(Debug)]
pub(super) struct Firewall {
    /// The folder of what does not outlive a boot.
    folder: PathBuf,
    /// The folder of what is undone unless the bus is reached.
    undo: PathBuf,
    told: Told,
    found: Option<Result<Found, Failure>>,
}

impl Firewall {
    pub(super) fn new(folder: &Path, undo: &Path, told: Told) -> Self {
        Self { folder: folder.to_owned(), undo: undo.to_owned(), told, found: None }
    }

    /// Sets a timer again that was lost with the process or the machine that set it.
    pub(super) fn mend(&self) -> Result<(), Failure> {
        undo::mend(&self.undo, table)
    }

    fn found(&mut self) -> Result<Found, Failure> {
        let find = || {
            let text = "there is no firewall that is known here: install nftables, ufw or firewalld";
            Found::find().ok_or_else(|| Failure::Failed(text.to_owned()))
        };
        self.found.get_or_insert_with(find).clone()
    }

    /// Answers questions about openings and guards, in order, by one process for each tool.
    pub(super) fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        let found = match self.found() {
            Ok(found) => found,
            Err(failure) => {
                return questions.iter().map(|_| Answer::Refused(failure.text().to_owned())).collect();
            }
        };
        let guards = questions.iter().any(|question| matches!(question, Question::Guard(_)));
        let rules = if guards || found == Found::Nftables {
            nft::list().and_then(|said| nft::read(&said)).map(Some)
        } else {
            Ok(None)
        };
        let said = match found {
            Found::Ufw => ufw::list(),
            Found::Firewalld => firewalld::list(),
            Found::Nftables => Ok(String::new()),
        };
        let undone = undone(&self.undo).filter(|undone| !undone.by_hand);
        let answer = |question: &&Question| -> Result<Answer, String> {
            let rules = rules.as_ref().map_err(String::clone)?.as_ref();
            match question {
                Question::Guard(name) => {
                    let from = rules.and_then(|rules| rules.ours.guarded.get(name));
                    Ok(from.map_or(Answer::Absent, |from| Answer::Sources(from.clone())))
                }
                Question::Opening(name) => {
                    let opened = match Opened::new(name, &BTreeSet::new()) {
                        Ok(opened) => opened,
                        Err(failure) => return Ok(Answer::Refused(failure.text().to_owned())),
                    };
                    let said = said.as_ref().map_err(String::clone)?;
                    let (from, blocked) = match (found, rules) {
                        (Found::Ufw, _) => (ufw::from(said, &opened), None),
                        (Found::Firewalld, _) => (firewalld::from(said, &opened), None),
                        (Found::Nftables, Some(rules)) => (rules.from(&opened), rules.blocks(&opened)),
                        (Found::Nftables, None) => (None, None),
                    };
                    let of_it = undone.as_ref().filter(|undone| undone.before.contains_key(name));
                    let undone = of_it.map(|undone| undone.sequence);
                    Ok(Answer::Opening(OpeningFact { firewall: found.as_str(), from, blocked, undone }))
                }
                _ => Err("no question for a firewall; report this as a bug".to_owned()),
            }
        };
        questions.iter().map(|question| answer(question).unwrap_or_else(Answer::NotAnswered)).collect()
    }

    /// Opens or closes one port, and puts its guard up or takes it down.
    pub(super) fn perform(&mut self, step: &OpeningStep) -> Result<(), Failure> {
        let found = self.found()?;
        let (name, after, guard, of) = match step {
            OpeningStep::Open { name, from, guard } => (name, Some(from), *guard, None),
            OpeningStep::Close { name, guard, of } => (name, None, *guard, of.as_ref()),
        };
        let in_table = guard || found == Found::Nftables;
        let before_table = if in_table { Some(table().map_err(Failure::NotAnswered)?) } else { None };
        let opened = Opened::new(name, &BTreeSet::new())?;
        let before = match (found, &before_table) {
            (Found::Ufw, _) => ufw::from(&ufw::list().map_err(Failure::NotAnswered)?, &opened),
            (Found::Firewalld, _) => {
                firewalld::from(&firewalld::list().map_err(Failure::NotAnswered)?, &opened)
            }
            (Found::Nftables, table) => table.as_ref().and_then(|table| table.opened.get(name).cloned()),
        };
        let guarded = match &before_table {
            None => GuardBefore::Unknown,
            Some(table) => table.guarded.get(name).cloned().map_or(GuardBefore::Absent, GuardBefore::From),
        };
        let goes_up = after.filter(|from| guard && !from.is_empty());
        // Without a guard everybody is let in, as far as it goes.
        let everywhere = BTreeSet::new();
        let was = match &guarded {
            GuardBefore::Unknown => None,
            GuardBefore::Absent => Some(&everywhere),
            GuardBefore::From(from) => Some(from),
        };
        // What is closed, or closed to some, may be what we are told through.
        if is_narrower(before.as_ref(), after) || is_narrower(was, goes_up.or(Some(&everywhere))) {
            let restored = undo::Before { from: before.clone(), guard: guarded, of: of.cloned() };
            undo::arm(&self.undo, self.told, found, (name, restored), before_table.as_ref())?;
        }
        match (found, after) {
            (Found::Ufw, Some(from)) => ufw::open(&Opened { from: from.clone(), ..opened })?,
            (Found::Ufw, None) => ufw::close(&Opened { from: before.unwrap_or_default(), ..opened })?,
            (Found::Firewalld, Some(from)) => firewalld::open(&Opened { from: from.clone(), ..opened })?,
            (Found::Firewalld, None) => {
                firewalld::close(&Opened { from: before.unwrap_or_default(), ..opened })?;
            }
            (Found::Nftables, _) => {}
        }
        let Some(mut table) = before_table else { return Ok(()) };
        let put = |part: &mut std::collections::BTreeMap<_, _>, from: Option<&BTreeSet<String>>| match from {
            Some(from) => drop(part.insert(name.clone(), from.clone())),
            None => drop(part.remove(name)),
        };
        if found == Found::Nftables {
            put(&mut table.opened, after);
        }
        put(&mut table.guarded, goes_up);
        nft::load(&self.folder, &table)?;
        undo::follow(&self.undo, &table)
    }
}

/// The table of our own as it is now.
fn table() -> Result<Table, String> {
    Ok(nft::read(&nft::list()?)?.ours)
}

fn tool(program: &str, words: &[&str]) -> Result<Ran, Failure> {
    Command::new(program, LIMIT).args(words).keep(ANSWER).run().map_err(|why| why.failure())?.ok()
}

/// The whole output of a tool.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let ran = tool(program, words).map_err(|failure| failure.text().to_owned())?;
    ran.out.text().ok_or_else(|| format!("{program} says too much, or what is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::is_narrower;
    use std::collections::BTreeSet;

    #[test]
    fn whoever_is_let_in_no_longer_makes_it_narrower() {
        let set = |of: &[&str]| of.iter().map(|from| (*from).to_owned()).collect::<BTreeSet<_>>();
        let (all, one, two) = (set(&[]), set(&["10.0.0.0/8"]), set(&["10.0.0.0/8", "fd00::/8"]));
        assert!(is_narrower(Some(&all), Some(&one)) && is_narrower(Some(&two), Some(&one)));
        assert!(is_narrower(Some(&one), None) && is_narrower(Some(&all), None));
        assert!(!is_narrower(None, Some(&one)) && !is_narrower(Some(&one), Some(&two)));
        assert!(!is_narrower(Some(&two), Some(&all)) && !is_narrower(Some(&all), Some(&all)));
    }
}

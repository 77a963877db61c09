//! The firewall of the machine. Ufw and firewalld are told by their own tools; otherwise there is a table of our own,
//! which is loaded whole and at once. Nobody else's table is ever touched.

mod firewalld;
mod nft;
mod ufw;
mod undo;

pub(crate) use undo::confirm;

use super::command::{ANSWER, Command, PATH, Ran};
use crate::facts::{Answer, OpeningFact, Question};
use crate::outcome::Failure;
use crate::step::OpeningStep;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        if Path::new("/run/firewalld.pid").exists() || Path::new("/run/firewalld/firewalld.pid").exists() {
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

    /// Its sources; everywhere is `None`.
    fn sources(&self) -> Vec<Option<&str>> {
        if self.from.is_empty() {
            vec![None]
        } else {
            self.from.iter().map(|from| Some(from.as_str())).collect()
        }
    }
}

/// The firewall, once it was asked for.
#[derive(Debug)]
pub(super) struct Firewall {
    /// The folder of what does not outlive a boot.
    folder: PathBuf,
    found: Option<Result<Found, Failure>>,
}

impl Firewall {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), found: None }
    }

    fn found(&mut self) -> Result<Found, Failure> {
        let find = || {
            let text = "there is no firewall that is known here: install nftables, ufw or firewalld";
            Found::find().ok_or_else(|| Failure::Failed(text.to_owned()))
        };
        self.found.get_or_insert_with(find).clone()
    }

    /// Answers questions about openings, in order, by one process.
    pub(super) fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        let found = match self.found() {
            Ok(found) => found,
            Err(failure) => {
                return questions.iter().map(|_| Answer::Refused(failure.text().to_owned())).collect();
            }
        };
        let said = match found {
            Found::Ufw => ufw::list(),
            Found::Firewalld => firewalld::list(),
            Found::Nftables => nft::list(),
        };
        let answer = |question: &&Question| {
            let Question::Opening(name) = question else {
                return Answer::NotAnswered("no question for a firewall; report this as a bug".to_owned());
            };
            let opened = match Opened::new(name, &BTreeSet::new()) {
                Ok(opened) => opened,
                Err(failure) => return Answer::Refused(failure.text().to_owned()),
            };
            match &said {
                Err(why) => Answer::NotAnswered(why.clone()),
                Ok(said) => {
                    let (from, blocked) = match found {
                        Found::Ufw => (ufw::from(said, &opened), None),
                        Found::Firewalld => (firewalld::from(said, &opened), None),
                        Found::Nftables => match nft::read(said) {
                            Ok(rules) => (rules.from(&opened), rules.blocks(&opened)),
                            Err(why) => return Answer::NotAnswered(why),
                        },
                    };
                    Answer::Opening(OpeningFact { firewall: found.as_str(), from, blocked })
                }
            }
        };
        questions.iter().map(answer).collect()
    }

    /// Opens or closes one port.
    pub(super) fn perform(&mut self, step: &OpeningStep) -> Result<(), Failure> {
        let found = self.found()?;
        let (name, from, opens) = match step {
            OpeningStep::Open { name, from } => (name, from, true),
            OpeningStep::Close { name, from } => (name, from, false),
        };
        let opened = Opened::new(name, from)?;
        if !opens {
            // What is closed may be what we are told through.
            undo::arm(&self.folder, found, &opened)?;
        }
        match (found, opens) {
            (Found::Ufw, true) => ufw::open(&opened),
            (Found::Ufw, false) => ufw::close(&opened),
            (Found::Firewalld, true) => firewalld::open(&opened),
            (Found::Firewalld, false) => firewalld::close(&opened),
            (Found::Nftables, opens) => nft::change(&self.folder, &opened, opens),
        }
    }
}

fn tool(program: &str, words: &[&str]) -> Result<Ran, Failure> {
    Command::new(program, LIMIT).args(words).keep(ANSWER).run().map_err(|why| why.failure())?.ok()
}

/// The whole output of a tool.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let ran = tool(program, words).map_err(|failure| failure.text().to_owned())?;
    ran.out.text().ok_or_else(|| format!("{program} says too much, or what is not UTF-8"))
}

//! What is asked of the machine, and what it answered. A question has three answers: yes, no, and *not answered*.

mod managed;

pub use managed::{AccountFact, Check, Load, Manager, OpeningFact, UnitFact};

use crate::container::{Family, HeldPort};
use crate::digest::{Digest, Digests};
use crate::step::Ids;
use mesh_model::resource::Format;
use std::collections::{BTreeMap, BTreeSet};

/// One question about the machine. Questions are asked in batches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// What is at this path.
    Path(String),
    /// What is at this path, with the digests of its content if it is a regular file.
    Content {
        /// An absolute path.
        path: String,
        /// Whether the keyed digest is wanted too.
        keyed: bool,
    },
    /// What keys of ours inside a file come to.
    Leaves {
        /// The file.
        path: String,
        /// The target's name, under which it is kept what the file held before.
        target: String,
        /// The resource whose content is set; `None`: all of it is taken back.
        id: Option<String>,
        /// The file's format.
        format: Format,
    },
    /// What of an unpacked archive stands in this directory.
    Unpacked {
        /// The directory.
        path: String,
        /// The archives that it may hold: the declared one, the recorded one, and those that were begun.
        archives: Vec<Digest>,
    },
    /// The numbers of an owner: `user`, `user:group` or `uid:gid`.
    Owner(String),
    /// How this unit of the service manager stands.
    Unit(String),
    /// What this unit last wrote into the log of the machine.
    UnitLog(String),
    /// Whether this package is installed.
    Package(String),
    /// How the account of this name stands.
    Account(String),
    /// Whether a declared command exits with 0.
    Holds(Box<Check>),
    /// The container of this name, with those of an exchange.
    Container(String),
    /// Whether there is a network of this name.
    Network(String),
    /// Whether this image is here.
    Image(String),
    /// Whether something listens on this port.
    Listener(HeldPort),
    /// Whether this port is open, `8080/tcp`.
    Opening(String),
    /// From where a guard lets a port in, such as `8080/tcp`.
    Guard(String),
}

/// What kind of thing is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory with this number of entries.
    Directory {
        /// How many entries it holds, without `.` and `..`.
        entries: u64,
    },
    /// A symbolic link that leads there.
    Link(String),
    /// Anything else, in words: "a FIFO".
    Other(&'static str),
}

impl FileKind {
    /// In words, for messages.
    pub fn words(&self) -> String {
        match self {
            Self::Regular => "a regular file".to_owned(),
            Self::Directory { .. } => "a directory".to_owned(),
            Self::Link(to) => format!("a link to {to}"),
            Self::Other(words) => (*words).to_owned(),
        }
    }
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFact {
    /// What it is.
    pub kind: FileKind,
    /// Twelve bits.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// In bytes.
    pub size: u64,
    /// Whether something is mounted there.
    pub mounted: bool,
    /// Which version of the thing this was: compared again right before it is replaced.
    pub stamp: Stamp,
    /// Of a regular file, if its content was asked for.
    pub digests: Option<Digests>,
}

impl PathFact {
    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.kind == FileKind::Regular
    }

    /// Whether it is a regular file with this content.
    pub fn has(&self, digest: &Digest) -> bool {
        self.digests.as_ref().is_some_and(|digests| digests.contains(digest))
    }
}

/// Which version of a file was looked at: any change gives another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The device's number.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
    /// When the inode changed, in nanoseconds since 1970.
    pub changed_ns: i128,
}

/// What is known of a path: where it lies, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathAnswer {
    /// The mount point under which it lies, or would lie.
    pub mount: String,
    /// What is there, if anything.
    pub found: Option<PathFact>,
}

/// What a file holds, and what it would hold with our keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavesAnswer {
    /// The mount point under which it lies.
    pub mount: String,
    /// What was looked at; `None`: there is no file.
    pub seen: Option<Stamp>,
    /// The keyed digest of what it holds.
    pub found: Option<Digest>,
    /// The keyed digest of what it shall hold; `None`: it shall be gone.
    pub wanted: Option<Digest>,
}

/// What stands in the directory of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedAnswer {
    /// The mount point under which it lies, or would lie.
    pub mount: String,
    /// What is there, if anything.
    pub found: Option<UnpackedFact>,
}

/// What was found in the directory of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFact {
    /// What it is.
    pub kind: FileKind,
    /// The owner of the directory itself.
    pub owner: Ids,
    /// Which version of it was looked at.
    pub stamp: Stamp,
    /// The archive of which every entry stands as it was unpacked, if there is one.
    pub holds: Option<Digest>,
    /// Entries that came from none of the archives: the first one, and how many there are.
    pub foreign: Option<(String, u64)>,
}

/// A true answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::Path`] and [`Question::Content`].
    Path(PathAnswer),
    /// To [`Question::Leaves`].
    Leaves(LeavesAnswer),
    /// To [`Question::Unpacked`].
    Unpacked(UnpackedAnswer),
    /// To [`Question::Owner`].
    Owner {
        /// The user's number.
        uid: u32,
        /// The group's number.
        gid: u32,
    },
    /// To [`Question::Unit`].
    Unit(UnitFact),
    /// To [`Question::UnitLog`].
    Text(String),
    /// To [`Question::Package`]: the status that the package database has, such as `installed`.
    Package(String),
    /// To [`Question::Account`].
    Account(AccountFact),
    /// To [`Question::Holds`].
    Holds {
        /// Whether it is true.
        yes: bool,
        /// What the command said, for people; empty if that may not be told.
        said: String,
    },
    /// To [`Question::Container`].
    Container(Box<Family>),
    /// To a question about a thing that has a name: it is there.
    Present,
    /// To [`Question::Opening`].
    Opening(OpeningFact),
    /// Addresses and networks.
    Sources(BTreeSet<String>),
    /// To a question about a thing that has a name: there is none of that name.
    Absent,
    /// The question can be answered, and the answer forbids to go on: a link in the path, an owner who is not trusted.
    Refused(String),
    /// Nobody answered in time, or the answer made no sense. Nothing is created, removed or forgotten on the strength
    /// of it.
    NotAnswered(String),
}

/// All that is known of the machine right now. A step removes what it touched, so it is looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<Question, Answer>);

impl Facts {
    /// What was answered, if it was asked and nothing has touched it since.
    pub fn get(&self, question: &Question) -> Option<&Answer> {
        self.0.get(question)
    }

    /// Takes an answer.
    pub fn learn(&mut self, question: Question, answer: Answer) {
        self.0.insert(question, answer);
    }

    /// Drops what a step may have changed.
    pub fn forget(&mut self, touch: &Touch) {
        self.0.retain(|question, _| !touch.reaches(question));
    }

    /// Keeps the answers to `questions` alone.
    #[must_use]
    pub fn only(&self, questions: &[Question]) -> Self {
        let known = |question: &Question| Some((question.clone(), self.0.get(question)?.clone()));
        Self(questions.iter().filter_map(known).collect())
    }
}

/// Which answers are no longer true after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Any answer may have changed: a declared command ran.
    Everything,
    /// These alone.
    These {
        /// Each of these.
        questions: Vec<Question>,
        /// Whatever these managers answer.
        managers: BTreeSet<Manager>,
    },
}

impl Touch {
    /// These questions alone.
    pub const fn these(questions: Vec<Question>) -> Self {
        Self::These { questions, managers: BTreeSet::new() }
    }

    /// Whatever this manager answers.
    pub fn manager(manager: Manager) -> Self {
        Self::These { questions: Vec::new(), managers: BTreeSet::from([manager]) }
    }

    /// Everything that can be asked about a path.
    pub fn path(path: &str) -> Self {
        let content = |keyed| Question::Content { path: path.to_owned(), keyed };
        Self::these(vec![Question::Path(path.to_owned()), content(false), content(true)])
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::These { mut questions, mut managers },
                Self::These { questions: more, managers: others },
            ) => {
                questions.extend(more);
                managers.extend(others);
                Self::These { questions, managers }
            }
            _ => Self::Everything,
        }
    }

    /// Whether the answer to `question` may have changed.
    pub fn reaches(&self, question: &Question) -> bool {
        match self {
            Self::Everything => true,
            // Whatever was done, a declared command may find it so now.
            Self::These { .. } if question.manager() == Manager::Commands => true,
            Self::These { managers, .. } if managers.contains(&question.manager()) => true,
            Self::These { questions, .. } => match question {
                // Whatever touches a file touches the keys in it.
                Question::Leaves { path, .. } => questions.contains(&Question::Path(path.clone())),
                // What is written below a directory changes what stands in it.
                Question::Unpacked { path, .. } => questions.iter().any(|question| match question {
                    Question::Path(other) => {
                        other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    }
                    _ => false,
                }),
                other => questions.contains(other),
            },
        }
    }
}

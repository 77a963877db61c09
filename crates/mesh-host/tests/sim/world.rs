//! A simulated machine: files and directories in memory.

use crate::archives;
use crate::chance::Chance;
use crate::fuse::Fuse;
use crate::managers::{self, Managers};
use mesh_host::digest::{DigestKey, Stream};
use mesh_host::facts::{Answer, FileKind, PathAnswer, PathFact, Question, Stamp};
use mesh_host::machine::{Machine, Tools};
use mesh_host::outcome::Failure;
use mesh_host::step::{Content, FileStep, Ids, Step};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    File(Vec<u8>),
    Directory,
    Link(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) thing: Thing,
    pub(crate) mode: u32,
    pub(crate) owner: Ids,
    pub(crate) version: u64,
}

/// How steps and looks go wrong, for the time of one apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Writes below these paths fail.
    pub(crate) refused: BTreeSet<String>,
    /// Questions about these paths are not answered.
    pub(crate) silent: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) kept: BTreeMap<String, Vec<u8>>,
    pub(crate) faults: Faults,
    pub(crate) fuse: Fuse,
    /// Every path that a step wrote or removed.
    pub(crate) touched: BTreeSet<String>,
    /// A planted fault, which the checks have to find.
    pub(crate) planted: Option<Planted>,
    pub(crate) managers: Managers,
    /// What each archive brought to its place.
    pub(crate) lists: archives::Lists,
    chance: Chance,
    version: u64,
}

/// Faults that the checks have to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A write says that it went well, and the file is the old one.
    WriteIsLost,
    /// Removing a file removes its neighbours too.
    UnlinkTakesMore,
    /// The mode is not set.
    ModeIsLost,
    /// The original is not kept.
    OriginalIsLost,
    /// An entry of an archive is left out.
    EntryIsLost,
    /// Removing an archive takes what it did not bring.
    RemovalTakesMore,
}

pub(crate) static KEY: DigestKey = DigestKey::new([7; 32]);

pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

impl World {
    pub(crate) fn new(seed: u64, fuse: Fuse) -> Self {
        Self {
            nodes: BTreeMap::new(),
            kept: BTreeMap::new(),
            faults: Faults::default(),
            fuse,
            touched: BTreeSet::new(),
            planted: None,
            managers: Managers::default(),
            lists: archives::Lists::default(),
            chance: Chance::new(seed ^ 0xabcd),
            version: 0,
        }
    }

    pub(crate) fn put(&mut self, path: &str, thing: Thing, mode: u32, owner: Ids) {
        self.version += 1;
        self.nodes.insert(path.to_owned(), Node { thing, mode, owner, version: self.version });
    }

    pub(crate) fn entries(&self, path: &str) -> usize {
        self.nodes.keys().filter(|other| parent(other) == path).count()
    }

    /// All that a person would see: without versions.
    pub(crate) fn seen(&self) -> BTreeMap<String, (Thing, u32, Ids)> {
        let seen = |node: &Node| (node.thing.clone(), node.mode, node.owner);
        self.nodes.iter().map(|(path, node)| (path.clone(), seen(node))).collect()
    }

    pub(crate) fn stamp(node: &Node) -> Stamp {
        Stamp { device: 1, inode: node.version, changed_ns: 0 }
    }

    fn fact(&self, path: &str, digests: Option<bool>) -> Option<PathFact> {
        let node = self.nodes.get(path)?;
        let kind = match &node.thing {
            Thing::File(_) => FileKind::Regular,
            Thing::Directory => FileKind::Directory { entries: self.entries(path) as u64 },
            Thing::Link(to) => FileKind::Link(to.clone()),
        };
        let digests = match (&node.thing, digests) {
            (Thing::File(bytes), Some(keyed)) => {
                let mut stream = Stream::new(keyed.then_some(&KEY));
                stream.update(bytes);
                Some(stream.finish())
            }
            _ => None,
        };
        let Ids { uid, gid } = node.owner;
        let stamp = Self::stamp(node);
        Some(PathFact { kind, mode: node.mode, uid, gid, size: 0, mounted: false, stamp, digests })
    }

    /// Why a path cannot be looked at, if so.
    pub(crate) fn blocked(&self, path: &str) -> Option<Answer> {
        match self.path(path, None) {
            Answer::Path(_) => None,
            answer => Some(answer),
        }
    }

    fn path(&self, path: &str, digests: Option<bool>) -> Answer {
        if self.faults.silent.contains(path) {
            return Answer::NotAnswered("the disk does not answer".to_owned());
        }
        let mut folder = parent(path);
        while !folder.is_empty() {
            match self.nodes.get(folder).map(|node| &node.thing) {
                None | Some(Thing::Directory) => folder = parent(folder),
                Some(_) => return Answer::Refused(format!("{folder} is not a directory")),
            }
        }
        Answer::Path(PathAnswer { mount: "/".to_owned(), found: self.fact(path, digests) })
    }

    pub(crate) fn make_parents(&mut self, path: &str) -> Result<(), Failure> {
        let folder = parent(path).to_owned();
        if folder.is_empty() {
            return Ok(());
        }
        match self.nodes.get(&folder).map(|node| &node.thing) {
            Some(Thing::Directory) => return Ok(()),
            Some(_) => return Err(Failure::Failed(format!("{folder} is not a directory"))),
            None => {}
        }
        self.make_parents(&folder)?;
        self.burn()?;
        self.put(&folder, Thing::Directory, 0o755, Ids { uid: 0, gid: 0 });
        Ok(())
    }

    pub(crate) fn burn(&self) -> Result<(), Failure> {
        if self.fuse.burn() { Ok(()) } else { Err(Failure::Failed("killed".to_owned())) }
    }

    pub(crate) fn compare(&self, path: &str, seen: Option<Stamp>) -> Result<(), Failure> {
        if self.nodes.get(path).map(Self::stamp) == seen {
            return Ok(());
        }
        Err(Failure::Failed(format!("{path} changed while it was worked on")))
    }

    fn file(&mut self, step: &FileStep, tools: &Tools<'_>) -> Result<(), Failure> {
        let path = step.path();
        if self.faults.refused.contains(path) {
            return Err(Failure::Failed("read-only file system".to_owned()));
        }
        match step {
            FileStep::MakeDirectory { mode, owner, .. } => {
                self.make_parents(path)?;
                self.compare(path, None)?;
                self.burn()?;
                self.put(path, Thing::Directory, *mode, owner.unwrap_or(Ids { uid: 0, gid: 0 }));
            }
            FileStep::SetDirectory { seen, mode, owner, .. } => {
                self.compare(path, Some(*seen))?;
                self.burn()?;
                let was = self.nodes[path].owner;
                self.put(path, Thing::Directory, *mode, owner.unwrap_or(was));
            }
            FileStep::RemoveDirectory { .. } => {
                if self.entries(path) > 0 {
                    return Err(Failure::Failed(format!("{path} is not empty")));
                }
                self.burn()?;
                self.nodes.remove(path);
            }
            FileStep::Keep { seen, name, .. } => {
                self.compare(path, Some(*seen))?;
                self.burn()?;
                let Thing::File(bytes) = self.nodes[path].thing.clone() else { panic!("kept no file") };
                if self.planted != Some(Planted::OriginalIsLost) {
                    self.kept.insert(name.clone(), bytes);
                }
                return Ok(());
            }
            FileStep::Write { content, mode, owner, seen, .. } => {
                self.make_parents(path)?;
                let bytes = match content {
                    Content::Declared(id) => tools.contents.get(id).unwrap().to_vec(),
                    Content::Original(name) => self.kept.get(name).cloned().unwrap_or_default(),
                };
                let temporary = format!("{}/{}", parent(path), tools.temporary);
                self.burn()?;
                assert!(!self.nodes.contains_key(&temporary), "the temporary is there already");
                self.put(&temporary, Thing::File(bytes.clone()), 0o600, Ids { uid: 0, gid: 0 });
                self.burn()?;
                self.nodes.remove(&temporary);
                self.compare(path, *seen)?;
                let owner = owner.unwrap_or(Ids { uid: 0, gid: 0 });
                let mode = if self.planted == Some(Planted::ModeIsLost) { 0o600 } else { *mode };
                if self.planted != Some(Planted::WriteIsLost) {
                    self.put(path, Thing::File(bytes), mode, owner);
                }
            }
            FileStep::Unpack { .. } | FileStep::RemoveUnpacked { .. } => self.archive(step, tools)?,
            FileStep::SetLeaves { .. } => panic!("not simulated"),
            FileStep::Unlink { seen, .. } => {
                self.compare(path, Some(*seen))?;
                self.burn()?;
                self.nodes.remove(path);
                if self.planted == Some(Planted::UnlinkTakesMore) {
                    let folder = format!("{}/", parent(path));
                    self.nodes.retain(|other, _| !other.starts_with(&folder));
                }
            }
        }
        self.touched.insert(path.to_owned());
        // Done, and perhaps the response is lost.
        self.burn()
    }

    /// A person changes something at `path`.
    pub(crate) fn meddle(&mut self, path: &str) {
        let strangers = Ids { uid: 1001, gid: 1001 };
        let Some(node) = self.nodes.get(path).cloned() else {
            if matches!(self.nodes.get(parent(path)).map(|node| &node.thing), Some(Thing::Directory)) {
                self.put(path, Thing::File(b"a stranger's".to_vec()), 0o644, strangers);
            }
            return;
        };
        match (node.thing.clone(), self.chance.below(4)) {
            (Thing::Directory, 0) if self.entries(path) == 0 => drop(self.nodes.remove(path)),
            (Thing::Directory, 1) => self.put(path, node.thing, 0o700, node.owner),
            (Thing::Directory, _) => {
                self.put(&format!("{path}/left-by-hand"), Thing::File(b"hand".to_vec()), 0o644, strangers);
            }
            (_, 0) => drop(self.nodes.remove(path)),
            (Thing::File(_), 1) if self.chance.once_in(3) => {
                self.put(path, Thing::Link("/etc/passwd".to_owned()), 0o777, strangers);
            }
            (thing, 1) => self.put(path, thing, 0o666, node.owner),
            (thing, 2) => self.put(path, thing, node.mode, strangers),
            _ => self.put(path, Thing::File(b"by hand".to_vec()), node.mode, node.owner),
        }
    }
}

impl Machine for World {
    fn look(&mut self, questions: &[Question]) -> Vec<Answer> {
        let answer = |question: &Question| match question {
            Question::Path(path) => self.path(path, None),
            Question::Content { path, keyed } => self.path(path, Some(*keyed)),
            Question::Unpacked { path, archives } => self.unpacked(path, archives),
            Question::Leaves { .. } => Answer::NotAnswered("not simulated".to_owned()),
            Question::Owner(name) => match name.as_str() {
                "web" => Answer::Owner { uid: 500, gid: 500 },
                "db" => Answer::Owner { uid: 501, gid: 501 },
                _ => Answer::Absent,
            },
            other => self.managers.look(other),
        };
        questions.iter().map(answer).collect()
    }

    fn perform(&mut self, step: &Step, tools: &Tools<'_>) -> Result<(), Failure> {
        match step {
            Step::Files(step) => self.file(step, tools),
            step => {
                self.burn()?;
                let config = match self.nodes.get(managers::CONFIG).map(|node| &node.thing) {
                    Some(Thing::File(bytes)) => Some(bytes.clone()),
                    _ => None,
                };
                self.managers.perform(step, config)?;
                // Done, and perhaps the response is lost.
                self.burn()
            }
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.burn()
    }

    fn wait(&mut self, _: u64) {}
}

impl World {
    /// Removes the temporaries that the memory knows of.
    pub(crate) fn sweep(&mut self, memory: &mesh_host::record::Memory) {
        for intent in memory.intents.values().flatten() {
            if let Some(temporary) = &intent.temporary {
                self.nodes.remove(temporary);
                self.remove_below(temporary);
            }
        }
    }
}

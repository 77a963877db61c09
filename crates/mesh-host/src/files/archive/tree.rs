//! What stands in a directory, and the list of what an archive brought.

use crate::digest::{Digest, Stream};
use crate::files::look::open_regular;
use crate::files::walk::{Stat, stat_at};
use crate::step::Ids;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How deep and how wide a directory is looked at.
const MAX_DEPTH: usize = 64;
const MAX_ENTRIES: usize = 200_000;

/// Everything below a directory, by its path from there.
pub(super) struct Tree(BTreeMap<String, (Stat, Option<String>)>);

impl Tree {
    pub(super) fn read(root: &OwnedFd) -> Result<Self, Errno> {
        let mut tree = Self(BTreeMap::new());
        tree.add(root, "", 0)?;
        Ok(tree)
    }

    fn add(&mut self, directory: &OwnedFd, at: &str, depth: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if [".", ".."].contains(&name.as_str()) {
                continue;
            }
            if depth > MAX_DEPTH || self.0.len() > MAX_ENTRIES {
                return Err(Errno::TOOBIG);
            }
            let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
            let Some(stat) = stat_at(directory, &name)? else { continue };
            let link = match stat.file_type {
                FileType::Symlink => {
                    Some(readlinkat(directory, name.as_str(), Vec::new())?.to_string_lossy().into_owned())
                }
                _ => None,
            };
            let is_directory = stat.is_directory() && !stat.mounted;
            self.0.insert(path.clone(), (stat, link));
            if is_directory {
                self.add(&super::open_directory(directory, &name)?, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// What an archive brought: each entry as it was when it was unpacked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct List(BTreeMap<String, Item>);

#[derive(Debug, Serialize, Deserialize)]
struct Item {
    mode: u32,
    /// When the inode last changed, in nanoseconds: while that is so, its content is not read again.
    changed: i128,
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Directory,
    Link(String),
    File(Digest),
}

impl List {
    /// The list of a fresh directory. `digests` has that of each file.
    pub(super) fn of(tree: &Tree, digests: &BTreeMap<String, Digest>) -> Self {
        let item = |(name, (stat, link)): (&String, &(Stat, Option<String>))| {
            let what = match (link, digests.get(name)) {
                (Some(to), _) => What::Link(to.clone()),
                (None, Some(digest)) => What::File(digest.clone()),
                (None, None) => What::Directory,
            };
            (name.clone(), Item { mode: stat.mode, changed: stat.stamp.changed_ns, what })
        };
        Self(tree.0.iter().map(item).collect())
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether every entry stands as it was unpacked, and belongs to `owner`.
    pub(super) fn stands(&self, tree: &Tree, root: &OwnedFd, owner: Ids) -> bool {
        self.0.iter().all(|(name, item)| {
            tree.0.get(name).is_some_and(|found| found.0.owner == owner && item.is(found, root, name))
        })
    }

    /// Removes what stands as it was unpacked.
    pub(super) fn remove(&self, tree: &Tree, root: &OwnedFd) -> Result<(), Errno> {
        for (name, item) in self.0.iter().rev() {
            let Some(found) = tree.0.get(name) else { continue };
            let is_directory = matches!(item.what, What::Directory) && found.0.is_directory();
            if !is_directory && !item.is(found, root, name) {
                continue;
            }
            let (parent, last) = open_parent(root, name)?;
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            match unlinkat(&parent, last, flags) {
                Ok(()) | Err(Errno::NOENT) => {}
                // What a person put there is left.
                Err(Errno::NOTEMPTY | Errno::EXIST) if is_directory => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stores the list of what is about to be put in place; it lasts.
    pub(super) fn stage(&self, folder: &Path, path: &str, archive: &Digest) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (to, temporary) = (staged(folder, path, archive), folder.join("new"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(temporary, to)?;
        fs::File::open(folder)?.sync_all()
    }

    /// What was staged is in place; that lasts.
    pub(super) fn settle(folder: &Path, path: &str, archive: &Digest) -> io::Result<()> {
        fs::rename(staged(folder, path, archive), place(folder, path, archive))?;
        fs::File::open(folder)?.sync_all()
    }

    /// The stored list, and whether it is only staged; `None`: there is none.
    pub(super) fn load(folder: &Path, path: &str, archive: &Digest) -> io::Result<Option<(Self, bool)>> {
        match Self::read(&place(folder, path, archive))? {
            Some(list) => Ok(Some((list, false))),
            None => Ok(Self::read(&staged(folder, path, archive))?.map(|list| (list, true))),
        }
    }

    fn read(file: &Path) -> io::Result<Option<Self>> {
        match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All lists of this directory whose archives were in place.
    pub(super) fn all(folder: &Path, path: &str) -> Vec<Self> {
        let files = files_of(folder, path).into_iter().filter(|file| file.extension().is_none());
        files.filter_map(|file| Self::read(&file).ok().flatten()).collect()
    }

    /// Drops the lists of this directory but that of `archive`. What cannot be dropped does no harm.
    pub(super) fn forget_others(folder: &Path, path: &str, archive: &Digest) {
        let kept = place(folder, path, archive);
        for file in files_of(folder, path).iter().filter(|file| **file != kept) {
            let _ = fs::remove_file(file);
        }
    }

    /// Drops all lists of this directory. What cannot be dropped does no harm.
    pub(super) fn forget(folder: &Path, path: &str) {
        for file in files_of(folder, path) {
            let _ = fs::remove_file(file);
        }
    }
}

impl Item {
    /// Whether it is what was found.
    fn is(&self, (stat, link): &(Stat, Option<String>), root: &OwnedFd, name: &str) -> bool {
        match &self.what {
            What::Directory => stat.is_directory() && stat.mode == self.mode,
            What::Link(to) => link.as_ref() == Some(to),
            What::File(digest) => {
                stat.is_regular()
                    && stat.mode == self.mode
                    && (stat.stamp.changed_ns == self.changed
                        || content(root, name, stat).as_ref() == Some(digest))
            }
        }
    }
}

fn content(root: &OwnedFd, name: &str, stat: &Stat) -> Option<Digest> {
    let (parent, last) = open_parent(root, name).ok()?;
    let mut file = open_regular(&parent, last, stat).ok()?;
    let mut stream = Stream::new(None);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(stream.finish().plain),
            count => stream.update(&buffer[..count]),
        }
    }
}

fn open_parent<'n>(root: &OwnedFd, name: &'n str) -> Result<(OwnedFd, &'n str), Errno> {
    let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(root, ".", flags, Mode::empty())?;
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        directory = super::open_directory(&directory, part)?;
    }
    Ok((directory, last))
}

fn prefix(path: &str) -> String {
    Digest::plain(path.as_bytes()).as_str().trim_start_matches("sha256:")[..32].to_owned()
}

fn place(folder: &Path, path: &str, archive: &Digest) -> PathBuf {
    let archive = archive.as_str().trim_start_matches("sha256:");
    folder.join(format!("{}-{archive}", prefix(path)))
}

/// Where the list lies until the archive is in place: a kill may come first.
fn staged(folder: &Path, path: &str, archive: &Digest) -> PathBuf {
    place(folder, path, archive).with_extension("next")
}

fn files_of(folder: &Path, path: &str) -> Vec<PathBuf> {
    let prefix = format!("{}-", prefix(path));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
    entries.filter_map(Result::ok).filter(ours).map(|entry| entry.path()).collect()
}

/// Removes a directory of ours with all that is in it. Nothing is followed, and no mount point is entered.
pub(in crate::files) fn remove_tree(directory: &OwnedFd, name: &str) -> Result<(), Errno> {
    let root = super::open_directory(directory, name)?;
    let tree = Tree::read(&root)?;
    for (name, (stat, _)) in tree.0.iter().rev() {
        let (parent, last) = open_parent(&root, name)?;
        let flags = if stat.is_directory() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&parent, last, flags)?;
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}

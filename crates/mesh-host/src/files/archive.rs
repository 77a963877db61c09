//! Archives: read twice, first to refuse what may not be unpacked, then to unpack it beside its place. Every entry is made
//! by handles below the new directory, so nothing is ever written elsewhere. A file of the machine is copied first, since
//! a user who may write it could change it between the two readings.

mod read;
mod tree;

pub(super) use tree::remove_tree;

use super::perform::{changed, failed, made, same, stopped, there, unsynced};
use super::walk::{Found, Parent, Stop, stat_at};
use super::{Files, look};
use crate::digest::Digest;
use crate::facts::{Answer, FileKind, Stamp, UnpackedAnswer, UnpackedFact};
use crate::outcome::Failure;
use crate::step::Ids;
use read::{Entry, Kind, Source};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, linkat, mkdirat, openat, renameat_with,
    symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use tree::{List, Tree};

/// What is to be unpacked, and where.
pub(super) struct Wanted<'a> {
    pub(super) path: &'a str,
    pub(super) digest: &'a Digest,
    pub(super) strip: usize,
    pub(super) owner: Option<Ids>,
    pub(super) seen: Option<Stamp>,
    pub(super) temporary: &'a str,
}

/// What of these archives stands in the directory.
pub(super) fn answer(files: &Files, path: &str, archives: &[Digest]) -> Answer {
    let parent = match files.walker.parent(path, &files.accounts) {
        Ok(Found::There(parent)) => parent,
        Ok(Found::Missing { mount, .. }) => return Answer::Unpacked(UnpackedAnswer { mount, found: None }),
        Err(Stop::Refused(why)) => return Answer::Refused(why),
        Err(Stop::Silent(why)) => return Answer::NotAnswered(why),
    };
    match fact(files, &parent, path, archives) {
        Ok(found) => Answer::Unpacked(UnpackedAnswer { mount: parent.mount.clone(), found }),
        Err(why) => Answer::NotAnswered(format!("{path} cannot be looked at: {why}")),
    }
}

fn fact(
    files: &Files,
    parent: &Parent,
    path: &str,
    archives: &[Digest],
) -> Result<Option<UnpackedFact>, String> {
    let words = |error: Errno| error.to_string();
    let Some(stat) = parent.stat().map_err(words)? else { return Ok(None) };
    let (owner, stamp) = (stat.owner, stat.stamp);
    if !stat.is_directory() {
        let kind = stat.words();
        return Ok(Some(UnpackedFact { kind, owner, stamp, holds: None, foreign: None }));
    }
    let directory = open_directory(&parent.directory, &parent.name).map_err(words)?;
    let tree = Tree::read(&directory).map_err(words)?;
    let mut lists: Vec<(&Digest, (List, bool))> = archives
        .iter()
        .filter_map(|digest| Some((digest, List::load(&files.lists, path, digest).ok()??)))
        .collect();
    let holds = lists.iter().find(|(_, (list, _))| list.stands(&tree, &directory, owner));
    let holds = holds.map(|(digest, _)| (*digest).clone());
    for (digest, (_, staged)) in lists.iter_mut().filter(|(digest, _)| holds.as_ref() == Some(*digest)) {
        // Killed after the exchange. What cannot be settled now is settled at the next look.
        *staged &= List::settle(&files.lists, path, digest).is_err();
    }
    let known = |name: &str| lists.iter().any(|(_, (list, staged))| !staged && list.knows(name));
    let mut strangers = tree.names().filter(|name| !known(name));
    let first = strangers.next().map(str::to_owned);
    let foreign = first.map(|first| (first, 1 + strangers.count() as u64));
    let kind = FileKind::Directory { entries: tree.names().count() as u64 };
    Ok(Some(UnpackedFact { kind, owner, stamp, holds, foreign }))
}

fn open_directory(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

/// Unpacks an archive and puts it in its place.
pub(super) fn unpack(
    files: &mut Files,
    wanted: &Wanted<'_>,
    source: Option<&str>,
    content: Option<&[u8]>,
) -> Result<(), Failure> {
    let path = wanted.path;
    let refused = |why: String| Failure::Failed(format!("the archive of {path}: {why}"));
    let (mut source, found) = match (source, content) {
        (Some(from), _) => copied(files, from)?,
        (None, Some(bytes)) => (Source::of_bytes(bytes), Digest::plain(bytes)),
        (None, None) => {
            return Err(Failure::Failed(format!(
                "the archive of {path} was not filled; report this as a bug"
            )));
        }
    };
    if found != *wanted.digest {
        return Err(refused(format!("its digest is {found}, and {} is declared", wanted.digest)));
    }
    source.check(wanted.strip).map_err(refused)?;

    let parent = made(files, path)?;
    mkdirat(&parent.directory, wanted.temporary, Mode::from_raw_mode(0o700))
        .map_err(|error| failed(path, "be unpacked", error))?;
    let done = fill(files, wanted, &parent, &mut source);
    if done.is_err() {
        // The failure that is told is the one above; the next start sweeps what cannot be removed now.
        let _ = remove_tree(&parent.directory, wanted.temporary);
    }
    unsynced(files, &parent.directory);
    done
}

/// A copy of the file that nobody else can reach, and the digest of exactly these bytes.
fn copied(files: &Files, from: &str) -> Result<(Source<'static>, Digest), Failure> {
    let file = open_source(files, from)?;
    let (copy, size, digest) = read::copy(file, &files.lists)
        .map_err(|error| Failure::Failed(format!("the archive {from} cannot be copied: {error}")))?;
    Ok((Source::of_file(copy, size), digest))
}

fn open_source(files: &Files, from: &str) -> Result<File, Failure> {
    let gone = || Failure::Failed(format!("the archive {from} is not there: declare what brings it before"));
    let parent = match files.walker.parent(from, &files.accounts).map_err(stopped)? {
        Found::There(parent) => parent,
        Found::Missing { .. } => return Err(gone()),
    };
    let stat = parent.stat().map_err(|error| failed(from, "be looked at", error))?.ok_or_else(gone)?;
    if !stat.is_regular() {
        return Err(Failure::Failed(format!("{from} is {}, and no archive", stat.words().words())));
    }
    look::open_regular(&parent.directory, &parent.name, &stat)
        .map_err(|error| failed(from, "be opened", error))
}

fn fill(files: &Files, wanted: &Wanted<'_>, parent: &Parent, source: &mut Source<'_>) -> Result<(), Failure> {
    let path = wanted.path;
    let cannot = |error: Errno| failed(path, "be unpacked", error);
    let root = open_directory(&parent.directory, wanted.temporary).map_err(cannot)?;
    let mut staging =
        Staging { root: &root, owner: wanted.owner, digests: BTreeMap::new(), modes: Vec::new() };
    source
        .each(wanted.strip, &mut |entry| staging.make(entry))
        .map_err(|why| Failure::Failed(format!("the archive of {path}: {why}")))?;
    staging.finish().map_err(cannot)?;
    let digests = std::mem::take(&mut staging.digests);
    syncfs(&root).map_err(cannot)?;
    let tree = Tree::read(&root).map_err(cannot)?;
    let list = List::of(&tree, &digests);
    // Its owner gets in only now: what the list has is what was unpacked.
    staging.open_up().map_err(cannot)?;
    let unkept = |error| Failure::Failed(format!("the list of {path} cannot be kept: {error}"));
    list.stage(&files.lists, path, wanted.digest).map_err(unkept)?;

    same(parent, wanted.seen)?;
    let (directory, name) = (&parent.directory, parent.name.as_str());
    if wanted.seen.is_none() {
        match renameat_with(directory, wanted.temporary, directory, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Err(changed(path)),
            other => other.map_err(cannot)?,
        }
        return List::settle(&files.lists, path, wanted.digest).map_err(unkept);
    }
    let exchange = || renameat_with(directory, wanted.temporary, directory, name, RenameFlags::EXCHANGE);
    exchange().map_err(cannot)?;
    // What came between the look and the exchange is not lost.
    let old = open_directory(directory, wanted.temporary).and_then(|old| Tree::read(&old)).map_err(cannot)?;
    let lists = List::all(&files.lists, path);
    if let Some(stranger) = old.names().find(|name| !lists.iter().any(|list| list.knows(name))) {
        let back = exchange();
        let text = format!("{path}/{stranger} appeared while the archive was unpacked");
        return Err(match back {
            Ok(()) => Failure::Failed(format!("{text}: move it away")),
            Err(error) => Failure::Failed(format!("{text}; it is in {} now: {error}", wanted.temporary)),
        });
    }
    List::settle(&files.lists, path, wanted.digest).map_err(unkept)?;
    remove_tree(directory, wanted.temporary).map_err(|error| failed(path, "be cleaned up", error))?;
    List::forget_others(&files.lists, path, wanted.digest);
    Ok(())
}

/// The new directory while it is filled.
struct Staging<'a> {
    root: &'a OwnedFd,
    owner: Option<Ids>,
    digests: BTreeMap<String, Digest>,
    /// Set last, since a directory may be closed to its owner.
    modes: Vec<(String, u32)>,
}

impl Staging<'_> {
    fn make(&mut self, entry: &mut Entry<'_>) -> Result<(), String> {
        let name = entry.name.clone();
        let words = |error: Errno| format!("{name} cannot be unpacked: {error}");
        let (parent, last) = self.parent(&name).map_err(words)?;
        match &entry.kind {
            Kind::Directory => {
                self.directory(&parent, last).map_err(words)?;
                self.modes.push((name, entry.mode));
            }
            Kind::Link(to) => {
                symlinkat(to.as_str(), &parent, last).map_err(words)?;
                if let Some(Ids { uid, gid }) = self.owner {
                    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                    rustix::fs::chownat(&parent, last, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
                }
            }
            Kind::Same(as_name) => {
                let (from, from_last) = self.parent(as_name).map_err(words)?;
                linkat(&from, from_last, &parent, last, AtFlags::empty()).map_err(words)?;
                if let Some(digest) = self.digests.get(as_name).cloned() {
                    self.digests.insert(name, digest);
                }
            }
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let handle = openat(&parent, last, flags, Mode::from_raw_mode(0o600)).map_err(words)?;
                let digest =
                    entry.copy_to(&handle).map_err(|why| format!("{name} cannot be unpacked: {why}"))?;
                self.own(&handle, entry.mode).map_err(words)?;
                self.digests.insert(name, digest);
            }
        }
        Ok(())
    }

    /// The directory around an entry, made if it is missing, and the last part of its name.
    fn parent<'n>(&self, name: &'n str) -> Result<(OwnedFd, &'n str), Errno> {
        let mut directory =
            self.root.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            self.directory(&directory, part)?;
            directory = open_directory(&directory, part)?;
        }
        Ok((directory, last))
    }

    fn directory(&self, within: &OwnedFd, name: &str) -> Result<(), Errno> {
        match mkdirat(within, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.own(&open_directory(within, name)?, 0o755),
        }
    }

    fn own(&self, handle: &OwnedFd, mode: u32) -> Result<(), Errno> {
        if let Some(Ids { uid, gid }) = self.owner {
            fchown(handle, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        fchmod(handle, Mode::from_raw_mode(mode))
    }

    fn finish(&mut self) -> Result<(), Errno> {
        for (name, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            let (parent, last) = self.parent(&name)?;
            fchmod(open_directory(&parent, last)?, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    fn open_up(&self) -> Result<(), Errno> {
        self.own(self.root, 0o755)
    }
}

/// Removes what an archive brought and still stands as it was unpacked.
pub(super) fn remove(files: &mut Files, path: &str, digest: &Digest) -> Result<(), Failure> {
    let cannot = |error: Errno| failed(path, "be removed", error);
    let parent = there(files, path)?;
    let list = List::load(&files.lists, path, digest)
        .map_err(|error| Failure::Failed(format!("the list of {path} cannot be read: {error}")))?;
    // The list goes last, so a removal before this one was complete. What is there now is a person's.
    let Some((list, _)) = list else { return Ok(()) };
    let root = open_directory(&parent.directory, &parent.name).map_err(cannot)?;
    let tree = Tree::read(&root).map_err(cannot)?;
    list.remove(&tree, &root).map_err(cannot)?;
    match unlinkat(&parent.directory, parent.name.as_str(), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(error) => return Err(cannot(error)),
    }
    unsynced(files, &parent.directory);
    List::forget(&files.lists, path);
    match stat_at(&parent.directory, &parent.name) {
        Ok(_) => Ok(()),
        Err(error) => Err(cannot(error)),
    }
}

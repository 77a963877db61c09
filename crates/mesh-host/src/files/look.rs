//! Answers to questions about paths. Nothing here waits: what is not a regular file is never read.

use super::leaves::{self, Leaves};
use super::walk::{Found, Parent, Stat, Stop};
use super::{Files, MAX_READ};
use crate::digest::{DigestKey, Digests, Stream};
use crate::facts::{Answer, FileKind, PathAnswer, PathFact, Question};
use crate::step::parent;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::rc::Rc;
use zeroize::Zeroizing;

/// Entries of a directory are counted up to here.
const MAX_ENTRIES: u64 = 1_000;
/// How many directories stay open while a batch is answered.
const MAX_PARENTS: usize = 64;
/// How many bytes of a file are digested at a time.
const MAX_BUFFER: usize = 64 << 10;

/// The directories of this batch that are open already. Within one batch nothing is done, so none of them is stale.
#[derive(Default)]
pub(super) struct Parents(BTreeMap<String, Rc<Result<Found, Stop>>>);

pub(super) fn answer(files: &Files, question: &Question, parents: &mut Parents) -> Answer {
    match question {
        Question::Path(path) => path_answer(files, path, Depth::Kind, parents),
        Question::Content { path, keyed } => {
            path_answer(files, path, Depth::Content(keyed.then_some(&files.key)), parents)
        }
        Question::Leaves { path, target, id, format } => {
            leaves::answer(files, Leaves { path, target, id: id.as_deref(), format: *format })
        }
        Question::Unpacked { path, archives } => super::archive::answer(files, path, archives),
        Question::Owner(owner) => files.accounts.answer(owner),
        other => Answer::NotAnswered(format!("{other:?} is nothing of files; report this as a bug")),
    }
}

fn path_answer(files: &Files, path: &str, depth: Depth<'_>, parents: &mut Parents) -> Answer {
    let folder = parent(path);
    let found = parents.0.get(folder).cloned().unwrap_or_else(|| {
        if parents.0.len() == MAX_PARENTS {
            parents.0.clear();
        }
        let found = Rc::new(files.walker.parent(path, &files.accounts));
        parents.0.insert(folder.to_owned(), Rc::clone(&found));
        found
    });
    let directory = match &*found {
        Ok(Found::There(parent)) => parent,
        Ok(Found::Missing { mount, .. }) => {
            return Answer::Path(PathAnswer { mount: mount.clone(), found: None });
        }
        Err(Stop::Refused(why)) => return Answer::Refused(why.clone()),
        Err(Stop::Silent(why)) => return Answer::NotAnswered(why.clone()),
    };
    let name = path.rsplit('/').next().unwrap_or("");
    match fact(directory, name, depth) {
        Ok(found) => Answer::Path(PathAnswer { mount: directory.mount.clone(), found }),
        Err(error) => Answer::NotAnswered(format!("{path} cannot be looked at: {error}")),
    }
}

/// How closely a path is looked at.
#[derive(Clone, Copy)]
enum Depth<'a> {
    /// What is there.
    Kind,
    /// With the digests of its content; with the keyed one if there is a key.
    Content(Option<&'a DigestKey>),
}

/// What is at `name`.
fn fact(parent: &Parent, name: &str, depth: Depth<'_>) -> Result<Option<PathFact>, Errno> {
    let Some(stat) = super::walk::stat_at(&parent.directory, name)? else { return Ok(None) };
    let kind = match stat.file_type {
        FileType::Directory => match entries(&parent.directory, name) {
            Ok(entries) => FileKind::Directory { entries },
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        },
        FileType::Symlink => {
            let to = readlinkat(&parent.directory, name, Vec::new())?;
            FileKind::Link(to.to_string_lossy().into_owned())
        }
        _ => stat.words(),
    };
    let digests = match depth {
        Depth::Content(key) if stat.is_regular() && stat.size <= MAX_READ => {
            digests(&parent.directory, name, &stat, key)?
        }
        _ => None,
    };
    Ok(Some(PathFact {
        kind,
        mode: stat.mode,
        uid: stat.owner.uid,
        gid: stat.owner.gid,
        size: stat.size,
        mounted: stat.mounted,
        stamp: stat.stamp,
        digests,
    }))
}

fn entries(directory: &OwnedFd, name: &str) -> Result<u64, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = if name.is_empty() { "." } else { name };
    let opened = openat(directory, name, flags, Mode::empty())?;
    let mut count = 0;
    for entry in Dir::new(opened)? {
        let entry = entry?;
        if ![&b"."[..], b".."].contains(&entry.file_name().to_bytes()) {
            count += 1;
        }
        if count == MAX_ENTRIES {
            break;
        }
    }
    Ok(count)
}

/// Opens a regular file without waiting for anything, and makes sure that it is the one that was looked at.
pub(super) fn open_regular(directory: &OwnedFd, name: &str, seen: &Stat) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = openat(directory, name, flags, Mode::empty())?;
    match super::walk::stat_at(&opened, "")? {
        Some(stat) if stat.is_regular() && stat.stamp == seen.stamp => Ok(opened.into()),
        // Changed between the look and the open.
        _ => Err(Errno::AGAIN),
    }
}

fn digests(
    directory: &OwnedFd,
    name: &str,
    stat: &Stat,
    key: Option<&DigestKey>,
) -> Result<Option<Digests>, Errno> {
    let mut file = open_regular(directory, name, stat)?;
    let mut stream = Stream::new(key);
    // Secrets pass through here. Its end is read too, in one call for a small file.
    let room = usize::try_from(stat.size).unwrap_or(MAX_BUFFER).saturating_add(1).min(MAX_BUFFER);
    let mut buffer = Zeroizing::new(vec![0; room]);
    let mut left = MAX_READ;
    loop {
        match file.read(&mut buffer[..]) {
            Ok(0) => return Ok(Some(stream.finish())),
            Ok(count) => {
                stream.update(&buffer[..count]);
                // It grows while it is read.
                match left.checked_sub(count as u64) {
                    Some(rest) => left = rest,
                    None => return Ok(None),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
}

/// The whole content of a regular file, which is not larger than what is read at all.
pub(super) fn read_regular(
    directory: &OwnedFd,
    name: &str,
    stat: &Stat,
) -> Result<Zeroizing<Vec<u8>>, Errno> {
    let file = open_regular(directory, name, stat)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0) + 1));
    let read = file.take(MAX_READ).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(bytes)
}

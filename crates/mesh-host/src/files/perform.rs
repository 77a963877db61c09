//! Effects on files. A file is written beside its place under a name that the journal knows, gets owner and mode, is
//! synced, and is renamed over what was looked at. No inode that was found there is ever changed.

use super::archive;
use super::leaves::{self, Leaves};
use super::look::open_regular;
use super::walk::{Found, Parent, Stat, Stop, stat_at};
use super::{Files, MAX_READ};
use crate::facts::Stamp;
use crate::leaves::Kept;
use crate::machine::Tools;
use crate::outcome::Failure;
use crate::step::{Content, FileStep, Ids};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fsetxattr, fsync, ftruncate, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use zeroize::Zeroizing;

pub(super) fn perform(files: &mut Files, step: &FileStep, tools: &Tools<'_>) -> Result<(), Failure> {
    match step {
        FileStep::MakeDirectory { path, mode, owner } => make_directory(files, path, *mode, *owner),
        FileStep::SetDirectory { path, seen, mode, owner } => {
            let directory = open_directory(&there(files, path)?)?;
            let stat = stat_at(&directory, "").map_err(|error| failed(path, "be looked at", error))?;
            if stat.is_none_or(|stat| (stat.stamp.device, stat.stamp.inode) != (seen.device, seen.inode)) {
                return Err(changed(path));
            }
            set(&directory, path, *mode, *owner)?;
            fsync(&directory).map_err(|error| failed(path, "be synced", error))
        }
        FileStep::RemoveDirectory { path } => {
            let parent = there(files, path)?;
            unlinkat(&parent.directory, parent.name.as_str(), AtFlags::REMOVEDIR)
                .map_err(|error| failed(path, "be removed", error))?;
            unsynced(files, &parent.directory);
            Ok(())
        }
        FileStep::Keep { path, seen, name } => keep(files, path, *seen, name),
        FileStep::Write { path, content, mode, owner, seen, in_place, .. } => {
            let bytes = bytes_of(files, content, tools)?;
            if *in_place {
                let seen = seen.ok_or_else(|| changed(path))?;
                write_into(files, path, &bytes, seen, *mode, *owner)
            } else {
                let place = Place { path, temporary: tools.temporary, seen: *seen, keeps_mode: false };
                replace(files, &place, &bytes, *mode, *owner)
            }
        }
        FileStep::SetLeaves { path, target, id, format, seen, private, .. } => {
            let leaves = Leaves { path, target, id: id.as_deref(), format: *format };
            set_leaves(files, leaves, *seen, *private, tools)
        }
        FileStep::Unpack { path, id, source, digest, strip, owner, seen } => {
            let wanted = archive::Wanted {
                path,
                digest,
                strip: usize::from(*strip),
                owner: *owner,
                seen: *seen,
                temporary: tools.temporary,
            };
            archive::unpack(files, &wanted, source.as_deref(), tools.contents.get(id))
        }
        FileStep::RemoveUnpacked { path, digest } => archive::remove(files, path, digest),
        FileStep::Unlink { path, seen } => {
            let parent = there(files, path)?;
            same(&parent, Some(*seen))?;
            unlinkat(&parent.directory, parent.name.as_str(), AtFlags::empty())
                .map_err(|error| failed(path, "be removed", error))?;
            unsynced(files, &parent.directory);
            Ok(())
        }
    }
}

pub(super) fn failed(path: &str, what: &str, error: Errno) -> Failure {
    let hint = match error {
        Errno::ROFS => ": the file system is read-only; mount it writable",
        Errno::NOSPC => ": the disk is full; make room",
        Errno::PERM => ": is it immutable? look at lsattr",
        Errno::ACCESS => ": this needs root's rights",
        Errno::BUSY => {
            ": something is mounted there; mount its directory instead, or declare \"in-place\": true"
        }
        _ => "",
    };
    Failure::Failed(format!("{path} cannot {what}: {error}{hint}"))
}

pub(super) fn changed(path: &str) -> Failure {
    Failure::Failed(format!(
        "{path} changed while it was worked on, and is left as it is; the next apply looks again"
    ))
}

pub(super) fn stopped(stop: Stop) -> Failure {
    match stop {
        Stop::Refused(why) => Failure::Failed(why),
        Stop::Silent(why) => Failure::NotAnswered(why),
    }
}

pub(super) fn there(files: &Files, path: &str) -> Result<Parent, Failure> {
    match files.walker.parent(path, &files.accounts).map_err(stopped)? {
        Found::There(parent) => Ok(parent),
        Found::Missing { .. } => Err(changed(path)),
    }
}

/// The directory around `path`, made if it is missing.
pub(super) fn made(files: &mut Files, path: &str) -> Result<Parent, Failure> {
    let mut directories = Vec::new();
    let parent = files
        .walker
        .make_parent(path, &files.accounts, &mut |directory| directories.extend(directory.try_clone().ok()))
        .map_err(stopped)?;
    for directory in &directories {
        unsynced(files, directory);
    }
    Ok(parent)
}

/// Remembers that the entries of a directory have to be synced.
pub(super) fn unsynced(files: &mut Files, directory: &OwnedFd) {
    if let (Ok(Some(stat)), Ok(directory)) = (stat_at(directory, ""), directory.try_clone()) {
        files.unsynced.insert((stat.stamp.device, stat.stamp.inode), directory);
    }
}

/// What was looked at has to be there still.
pub(super) fn same(parent: &Parent, seen: Option<Stamp>) -> Result<Option<Stat>, Failure> {
    let stat = parent.stat().map_err(|error| failed(&parent.path, "be looked at", error))?;
    if stat.as_ref().map(|stat| stat.stamp) == seen { Ok(stat) } else { Err(changed(&parent.path)) }
}

/// Owner first: a change of owner takes setuid and setgid away.
fn set(handle: &OwnedFd, path: &str, mode: u32, owner: Option<Ids>) -> Result<(), Failure> {
    if let Some(Ids { uid, gid }) = owner {
        fchown(handle, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
            .map_err(|error| failed(path, "get its owner", error))?;
    }
    fchmod(handle, Mode::from_raw_mode(mode)).map_err(|error| failed(path, "get its mode", error))
}

fn open_directory(parent: &Parent) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = if parent.name.is_empty() { "." } else { parent.name.as_str() };
    openat(&parent.directory, name, flags, Mode::empty())
        .map_err(|error| failed(&parent.path, "be opened", error))
}

fn make_directory(files: &mut Files, path: &str, mode: u32, owner: Option<Ids>) -> Result<(), Failure> {
    let parent = made(files, path)?;
    // Nobody gets in before it has its owner and mode.
    mkdirat(&parent.directory, parent.name.as_str(), Mode::from_raw_mode(0o700))
        .map_err(|error| failed(path, "be made", error))?;
    unsynced(files, &parent.directory);
    let directory = open_directory(&parent)?;
    set(&directory, path, mode, owner)?;
    fsync(&directory).map_err(|error| failed(path, "be synced", error))
}

fn bytes_of(files: &Files, content: &Content, tools: &Tools<'_>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    match content {
        Content::Declared(id) => match tools.contents.get(id) {
            Some(bytes) => Ok(Zeroizing::new(bytes.to_vec())),
            None => Err(Failure::Failed(format!("the content of {id} was not filled; report this as a bug"))),
        },
        Content::Original(name) => std::fs::read(files.kept.join(name))
            .map(Zeroizing::new)
            .map_err(|error| Failure::Failed(format!("the kept original {name} cannot be read: {error}"))),
    }
}

/// Sets keys inside a file. What was there before is kept first; what is no longer needed of it goes last.
fn set_leaves(
    files: &mut Files,
    leaves: Leaves<'_>,
    seen: Option<Stamp>,
    private: bool,
    tools: &Tools<'_>,
) -> Result<(), Failure> {
    let looked = leaves::look(files, leaves)?;
    if !leaves::same(&looked, seen) {
        return Err(changed(leaves.path));
    }
    let after = if leaves.id.is_some() { looked.next.kept.clone() } else { Kept::default() };
    leaves::store_kept(files, leaves.target, &leaves::both(&looked.kept, &looked.next.kept))?;
    match (&looked.next.content, &looked.parent, &looked.stat) {
        (Some(content), _, stat) => {
            // The file is the machine's: it keeps its mode and owner.
            let mode = stat.as_ref().map_or(if private { 0o600 } else { 0o644 }, |stat| stat.mode);
            let root = rustix::process::geteuid().is_root();
            let new = Ids { uid: 0, gid: 0 };
            let owner = root.then(|| stat.as_ref().map_or(new, |stat| stat.owner));
            let place = Place { path: leaves.path, temporary: tools.temporary, seen, keeps_mode: true };
            replace(files, &place, content.as_bytes(), mode, owner)?;
        }
        (None, Some(parent), Some(_)) => {
            unlinkat(&parent.directory, parent.name.as_str(), AtFlags::empty())
                .map_err(|error| failed(leaves.path, "be removed", error))?;
            unsynced(files, &parent.directory);
        }
        _ => {}
    }
    leaves::store_kept(files, leaves.target, &after)
}

struct Place<'a> {
    path: &'a str,
    temporary: &'a str,
    seen: Option<Stamp>,
    /// Whether mode and owner are those that were there.
    keeps_mode: bool,
}

fn replace(
    files: &mut Files,
    place: &Place<'_>,
    bytes: &[u8],
    mode: u32,
    owner: Option<Ids>,
) -> Result<(), Failure> {
    let Place { path, temporary, seen, keeps_mode } = *place;
    let parent = made(files, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(&parent.directory, temporary, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| failed(path, "be written", error))?;
    let written = fill(&handle, path, bytes, mode, owner)
        .and_then(|()| attributes(&parent, &handle, keeps_mode))
        .and_then(|()| fsync(&handle).map_err(|error| failed(path, "be synced", error)))
        .and_then(|()| same(&parent, seen))
        .and_then(|_| rename(&parent, temporary, seen.is_none()));
    if written.is_err() {
        // The failure that is told is the one above; the next start sweeps what cannot be removed now.
        let _ = unlinkat(&parent.directory, temporary, AtFlags::empty());
        return written;
    }
    unsynced(files, &parent.directory);
    let ours = stat_at(&handle, "").map_err(|error| failed(path, "be looked at", error))?;
    let now = parent.stat().map_err(|error| failed(path, "be looked at", error))?;
    let inode = |stat: Option<Stat>| stat.map(|stat| (stat.stamp.device, stat.stamp.inode));
    if inode(ours) == inode(now) { Ok(()) } else { Err(changed(path)) }
}

fn fill(handle: &OwnedFd, path: &str, bytes: &[u8], mode: u32, owner: Option<Ids>) -> Result<(), Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(handle, rest) {
            Ok(0) => return Err(failed(path, "be written", Errno::IO)),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(path, "be written", error)),
        }
    }
    set(handle, path, mode, owner)
}

/// The new file gets the security label and the users' attributes of the old one, and its access list where its mode is
/// kept too. Where there are none, there is nothing to do.
fn attributes(parent: &Parent, handle: &OwnedFd, keeps_mode: bool) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(old) = openat(&parent.directory, parent.name.as_str(), flags, Mode::empty()) else {
        return Ok(());
    };
    // The kernel's own limits.
    let (mut names, mut value) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let Ok(length) = flistxattr(&old, &mut names[..]) else { return Ok(()) };
    for name in names[..length].split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let wanted = name == "security.selinux"
            || name.starts_with("user.")
            || keeps_mode && name == "system.posix_acl_access";
        if !wanted {
            continue;
        }
        let Ok(length) = fgetxattr(&old, name, &mut value[..]) else { continue };
        match fsetxattr(handle, name, &value[..length], XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP) => {}
            Err(error) => return Err(failed(&parent.path, &format!("get its attribute {name}"), error)),
        }
    }
    Ok(())
}

fn rename(parent: &Parent, temporary: &str, is_new: bool) -> Result<(), Failure> {
    let (directory, name) = (&parent.directory, parent.name.as_str());
    let renamed = if is_new {
        // What appeared in the meantime is not written over. Some file systems cannot promise that.
        match renameat_with(directory, temporary, directory, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, temporary, directory, name),
            Err(Errno::EXIST) => return Err(changed(&parent.path)),
            other => other,
        }
    } else {
        renameat(directory, temporary, directory, name)
    };
    renamed.map_err(|error| failed(&parent.path, "be put in place", error))
}

/// Writes into the file that is there. A declaration says so where something holds on to the inode.
fn write_into(
    files: &mut Files,
    path: &str,
    bytes: &[u8],
    seen: Stamp,
    mode: u32,
    owner: Option<Ids>,
) -> Result<(), Failure> {
    let parent = there(files, path)?;
    let stat = same(&parent, Some(seen))?;
    if stat.is_some_and(|stat| stat.links > 1) {
        let why = "has another name too, under which it would be changed as well: remove the hard link";
        return Err(Failure::Failed(format!("{path} {why}")));
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let handle = openat(&parent.directory, parent.name.as_str(), flags, Mode::empty())
        .map_err(|error| failed(path, "be opened", error))?;
    let opened = stat_at(&handle, "").map_err(|error| failed(path, "be looked at", error))?;
    if opened.is_none_or(|opened| opened.stamp != seen) {
        return Err(changed(path));
    }
    ftruncate(&handle, 0).map_err(|error| failed(path, "be written", error))?;
    fill(&handle, path, bytes, mode, owner)?;
    fsync(&handle).map_err(|error| failed(path, "be synced", error))
}

/// Copies a file into the kept originals, whole and synced.
fn keep(files: &Files, path: &str, seen: Stamp, name: &str) -> Result<(), Failure> {
    let parent = there(files, path)?;
    let Some(stat) = same(&parent, Some(seen))? else { return Err(changed(path)) };
    if stat.size > MAX_READ {
        return Err(Failure::Failed(format!(
            "{path} is the machine's own and larger than the {} MiB that are kept before it is written over: move it away",
            MAX_READ >> 20
        )));
    }
    let original = open_regular(&parent.directory, &parent.name, &stat)
        .map_err(|error| failed(path, "be read", error))?;
    copy(files, original, name)
        .map_err(|error| Failure::Failed(format!("the original of {path} cannot be kept: {error}")))?;
    same(&parent, Some(seen)).map(drop)
}

fn copy(files: &Files, original: File, name: &str) -> std::io::Result<()> {
    let mut bytes = Zeroizing::new(Vec::new());
    original.take(MAX_READ).read_to_end(&mut bytes)?;
    let temporary = files.kept.join(format!("{name}.new"));
    let mut copy =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    copy.write_all(&bytes)?;
    copy.sync_all()?;
    let place = files.kept.join(name);
    // One that nobody remembers, since the state was lost: it may be what the machine had.
    if std::fs::read(&place).is_ok_and(|earlier| earlier != *bytes) {
        let aside = files.kept.join(format!("{name}.earlier"));
        if !aside.exists() {
            std::fs::rename(&place, &aside)?;
            log::warn!("another original was kept before and is not remembered: see {}", aside.display());
        }
    }
    std::fs::rename(&temporary, place)?;
    File::open(&files.kept)?.sync_all()
}

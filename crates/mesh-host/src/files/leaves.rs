//! Keys inside a file of the machine: what it shall hold, and what is kept of it.

use super::look::read_regular;
use super::walk::{Found, Parent, Stat, Stop};
use super::{Files, MAX_READ};
use crate::digest::Digest;
use crate::facts::{Answer, LeavesAnswer, Stamp};
use crate::leaves::{Kept, Next, next};
use crate::outcome::Failure;
use mesh_model::resource::Format;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use zeroize::Zeroizing;

/// One file, and whose keys are set in it.
#[derive(Clone, Copy)]
pub(super) struct Leaves<'l> {
    pub(super) path: &'l str,
    pub(super) target: &'l str,
    pub(super) id: Option<&'l str>,
    pub(super) format: Format,
}

/// What is there, and what shall be.
pub(super) struct Looked {
    pub(super) mount: String,
    pub(super) parent: Option<Parent>,
    pub(super) stat: Option<Stat>,
    found: Option<Zeroizing<Vec<u8>>>,
    pub(super) next: Next,
    pub(super) kept: Kept,
}

pub(super) fn answer(files: &Files, leaves: Leaves<'_>) -> Answer {
    match look(files, leaves) {
        Ok(looked) => {
            let digest = |bytes: &[u8]| Digest::keyed(&files.key, bytes);
            Answer::Leaves(LeavesAnswer {
                mount: looked.mount,
                seen: looked.stat.as_ref().map(|stat| stat.stamp),
                found: looked.found.as_ref().map(|bytes| digest(bytes)),
                wanted: looked.next.content.as_ref().map(|content| digest(content.as_bytes())),
            })
        }
        Err(Failure::Failed(why)) => Answer::Refused(why),
        Err(Failure::NotAnswered(why)) => Answer::NotAnswered(why),
    }
}

pub(super) fn look(files: &Files, leaves: Leaves<'_>) -> Result<Looked, Failure> {
    let path = leaves.path;
    let refused = |why: String| Failure::Failed(format!("{path}: {why}"));
    let (parent, mount) = match files.walker.parent(path, &files.accounts) {
        Ok(Found::There(parent)) => {
            let mount = parent.mount.clone();
            (Some(parent), mount)
        }
        Ok(Found::Missing { mount, .. }) => (None, mount),
        Err(Stop::Refused(why)) => return Err(Failure::Failed(why)),
        Err(Stop::Silent(why)) => return Err(Failure::NotAnswered(why)),
    };
    let silent = |error| Failure::NotAnswered(format!("{path} cannot be looked at: {error}"));
    let stat = match &parent {
        Some(parent) => parent.stat().map_err(silent)?,
        None => None,
    };
    let found = match (&parent, &stat) {
        (Some(parent), Some(stat)) if stat.is_regular() && stat.size <= MAX_READ => {
            Some(read_regular(&parent.directory, &parent.name, stat).map_err(silent)?)
        }
        (_, Some(stat)) => return Err(refused(format!("it is {}, or too large", stat.words().words()))),
        _ => None,
    };
    let text = match &found {
        Some(bytes) => Some(std::str::from_utf8(bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?),
        None => None,
    };
    let wanted = match leaves.id {
        Some(id) => {
            let content = files
                .contents
                .get(id)
                .ok_or_else(|| refused(format!("the content of {id} was not filled")))?;
            Some(std::str::from_utf8(content).map_err(|_| refused("the content is not UTF-8".to_owned()))?)
        }
        None => None,
    };
    let kept = read_kept(files, leaves.target)?;
    let next = next(leaves.format, text, wanted, &kept).map_err(refused)?;
    Ok(Looked { mount, parent, stat, found, next, kept })
}

/// Compares what is there with what was looked at.
pub(super) fn same(looked: &Looked, seen: Option<Stamp>) -> bool {
    looked.stat.as_ref().map(|stat| stat.stamp) == seen
}

fn name(target: &str) -> String {
    format!("{}.leaves", &Digest::plain(target.as_bytes()).as_str().trim_start_matches("sha256:")[..32])
}

fn own(files: &Files) -> Result<&nkeys::XKey, Failure> {
    files.own.as_ref().map(|own| &own.0).ok_or_else(|| {
        Failure::Failed(
            "what a file held before is kept sealed, and there is no sealing key: make one with mesh-host key make"
                .to_owned(),
        )
    })
}

fn read_kept(files: &Files, target: &str) -> Result<Kept, Failure> {
    let sealed = match fs::read(files.kept.join(name(target))) {
        Ok(sealed) => sealed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(Failure::NotAnswered(format!("what was kept cannot be read: {error}"))),
    };
    let own = own(files)?;
    let opened = own.open(&sealed, own).map(Zeroizing::new).ok();
    let kept = opened.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    kept.ok_or_else(|| Failure::Failed("what was kept cannot be opened with this host's key".to_owned()))
}

/// Stores what is kept of a file; nothing left to keep removes it.
pub(super) fn store_kept(files: &Files, target: &str, kept: &Kept) -> Result<(), Failure> {
    let stored =
        |error: io::Error| Failure::Failed(format!("what the file held before cannot be kept: {error}"));
    let path = files.kept.join(name(target));
    if kept.leaves.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(stored(error)),
            _ => Ok(()),
        };
    }
    let own = own(files)?;
    let bytes = Zeroizing::new(serde_json::to_vec(kept).map_err(|error| stored(io::Error::other(error)))?);
    let sealed = own.seal(&bytes, own).map_err(|error| stored(io::Error::other(error.to_string())))?;
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&sealed)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(&files.kept)?.sync_all()
    };
    write().map_err(stored)
}

/// What has to be kept while it is not known whether the content is in place: what was, and what is about to be.
pub(super) fn both(before: &Kept, after: &Kept) -> Kept {
    let mut kept = after.clone();
    for former in &before.leaves {
        // Of one that changes, either value may be in the file after a kill.
        if !kept.leaves.contains(former) {
            kept.leaves.push(former.clone());
        }
    }
    kept
}

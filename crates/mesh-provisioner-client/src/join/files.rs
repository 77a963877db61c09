//! The files that joining writes: whole, synced, with owner and mode from the start.

use super::accounts::Owner;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// As much as a file of settings needs, and more.
const ROOM: usize = 16 * 1024;

/// A file of settings that is about to take its place. Dropped before, it leaves nothing.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    is_put: bool,
}

impl Pending {
    /// Makes the file beside its place, and sees that there is room on the disk. Everybody may read it.
    pub(super) fn new(path: &Path) -> Result<Pending, String> {
        let what = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(what)?;
        let temporary = path.with_extension("joining");
        remove(&temporary).map_err(what)?;
        let open = || OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary);
        let file = open().map_err(what)?;
        let pending = Pending { path: path.to_owned(), temporary, file, is_put: false };
        // The umask may have taken bits away.
        pending.file.set_permissions(fs::Permissions::from_mode(0o644)).map_err(what)?;
        (&pending.file).write_all(&[b' '; ROOM]).and_then(|()| pending.file.sync_all()).map_err(what)?;
        Ok(pending)
    }

    /// Writes what it is to hold.
    pub(super) fn fill(&mut self, text: &str) -> Result<(), String> {
        let mut write = || {
            io::Seek::rewind(&mut self.file)?;
            self.file.write_all(text.as_bytes())?;
            self.file.set_len(text.len() as u64)?;
            self.file.sync_all()
        };
        write().map_err(|error| format!("{} cannot be written: {error}", self.path.display()))
    }

    fn put(&mut self) -> Result<(), String> {
        let put = fs::rename(&self.temporary, &self.path).and_then(|()| sync_folder(&self.path));
        put.map_err(|error| format!("{} cannot be put in its place: {error}", self.path.display()))?;
        self.is_put = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_put {
            fs::remove_file(&self.temporary).ok();
        }
    }
}

/// Puts all files in their places, or none: a machine with some of them would look as if it had joined.
pub(super) fn put_all(files: Vec<Pending>) -> Result<(), String> {
    let mut before = Vec::new();
    for mut file in files {
        let found = match fs::read(&file.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} cannot be read: {error}", file.path.display())),
        };
        let put = found.and_then(|found| file.put().map(|()| found));
        match put {
            Ok(found) => before.push((file.path.clone(), found)),
            Err(why) => {
                for (path, found) in before {
                    match found {
                        Some(bytes) => fs::write(&path, bytes).ok(),
                        None => fs::remove_file(&path).ok(),
                    };
                }
                return Err(why);
            }
        }
    }
    Ok(())
}

/// Makes the folder that only the client reads.
pub(super) fn make_private_folder(path: &Path, owner: &Owner) -> Result<(), String> {
    let what = |error: io::Error| format!("the folder {} cannot be made: {error}", path.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(what)?;
    let folder = File::open(path).map_err(what)?;
    if owner.gives {
        fchown(&folder, Some(owner.uid), Some(owner.gid)).map_err(what)?;
    }
    folder.set_permissions(fs::Permissions::from_mode(0o700)).map_err(what)
}

/// Writes a new secret file, which only the client reads. One that is there is an error.
pub(super) fn write_secret(path: &Path, text: &str, owner: &Owner) -> io::Result<()> {
    let temporary = path.with_extension("new");
    remove(&temporary)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    if owner.gives {
        fchown(&file, Some(owner.uid), Some(owner.gid))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // A link, since a rename would replace a file that another process made meanwhile.
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    linked?;
    sync_folder(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(of: &Path) -> io::Result<()> {
    of.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_put_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("a/one.json"), folder.path().join("b/two.json"));
        let pending = |path: &Path, text: &str| {
            let mut pending = Pending::new(path).unwrap();
            pending.fill(text).unwrap();
            pending
        };
        drop((pending(&one, "x"), pending(&two, "y")));
        let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!((names(&folder.path().join("a")), names(&folder.path().join("b"))), (0, 0));
        put_all(vec![pending(&one, "one"), pending(&two, "two")]).unwrap();
        assert_eq!(
            (fs::read_to_string(&one).unwrap(), fs::read_to_string(&two).unwrap()),
            ("one".into(), "two".into())
        );
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o7777, 0o644);
        // The second place is a folder with something in it, which no rename replaces.
        fs::remove_file(&two).unwrap();
        fs::create_dir_all(two.join("full")).unwrap();
        let why = put_all(vec![pending(&one, "new"), pending(&two, "new")]).unwrap_err();
        assert!(why.contains("two.json cannot be"), "{why}");
        assert_eq!(fs::read_to_string(&one).unwrap(), "one");
        fs::remove_file(&one).unwrap();
        put_all(vec![pending(&one, "new"), pending(&two, "new")]).unwrap_err();
        assert!(!one.exists());
    }

    #[test]
    fn a_secret_is_never_replaced_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner { uid: 0, gid: 0, gives: false };
        let private = folder.path().join("state");
        make_private_folder(&private, &owner).unwrap();
        let path = private.join("bus.nk");
        write_secret(&path, "first", &owner).unwrap();
        assert_eq!(write_secret(&path, "second", &owner).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&private), mode(&path)), (0o700, 0o600));
        assert_eq!(fs::read_dir(&private).unwrap().count(), 1);
    }
}

//! Where the state is stored: named files in one folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Named files that can be appended to and replaced. The tests have one that loses what was not synced.
pub trait Disk {
    /// The whole file; `None` if there is none.
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Appends to the file, which is made if there is none. It lasts only once [`Disk::sync`] returned.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended last.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Puts a whole file in place of another one, so that after a crash the one or the other is there; it lasts.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file over another one; it lasts. No file of the first name: nothing happens.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
}

/// A folder of the machine: 0700, its files 0600.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: Option<(String, File)>,
}

impl Folder {
    /// The folder at `path`, which is made if it is not there.
    pub fn new(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Ok(Self { path: path.to_owned(), open: None })
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn opened(&mut self, name: &str) -> io::Result<&mut File> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let path = self.path.join(name);
            let is_new = !path.exists();
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            if is_new {
                self.sync_folder()?;
            }
            self.open = Some((name.to_owned(), file));
        }
        let (_, file) = self.open.as_mut().expect("it was opened above");
        Ok(file)
    }
}

impl Disk for Folder {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.opened(name)?.write_all(bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.opened(name)?.sync_data()
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        let temporary = self.path.join(format!("{name}.new"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path.join(name))?;
        self.sync_folder()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.open = None;
        match fs::rename(self.path.join(from), self.path.join(to)) {
            Ok(()) => self.sync_folder(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A disk that is only read: every change is quietly left out.
#[derive(Debug)]
pub struct ReadOnly<D>(pub D);

impl<D: Disk> Disk for ReadOnly<D> {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.read(name)
    }

    fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn replace(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
}

//! What the client remembers over a restart, in one file: before a hand-over that it is begun, and after it how it ended.
//!
//! Each state is one line, `<SHA-256 of the text, in hex> <text>`, appended and synced. The last whole line counts, so
//! whatever a crash left of a line is as if it had not been written. A file that has grown is rewritten with its last
//! line, and takes the place of the old one by rename.

use mesh_model::digest::Digest;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The file's name in the state folder.
pub const FILE: &str = "journal";

/// A file that is smaller is not rewritten.
const SMALL: u64 = 64 << 10;

/// How many times the last line it may have before it is rewritten.
const TIMES: u64 = 16;

/// A larger file is not ours.
const MAX_BYTES: u64 = 256 << 20;

/// The open journal of one client.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// How many bytes of whole lines it has.
    length: u64,
}

impl Journal {
    /// Opens the journal of a folder, or makes it; also gives what was remembered last. What a crash left of a line is
    /// taken away.
    pub fn open(folder: &Path) -> io::Result<(Journal, Option<String>)> {
        let path = folder.join(FILE);
        let (last, length) = match read(&path)? {
            Some(bytes) => last(&bytes),
            None => (None, 0),
        };
        let is_new = !path.exists();
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        if is_new {
            sync(folder)?;
        }
        Ok((Journal { path, file, length }, last))
    }

    /// Remembers a text of one line. When this returns well, it is on the disk.
    pub fn keep(&mut self, text: &str) -> io::Result<()> {
        if text.contains('\n') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "what is to be kept has more than one line",
            ));
        }
        let line = line(text);
        let grown = self.length + line.len() as u64;
        if grown > SMALL && grown > (TIMES * line.len() as u64).min(MAX_BYTES) {
            return self.renew(&line);
        }
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length = grown,
            // A half line would spoil the next one.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }

    fn renew(&mut self, line: &[u8]) -> io::Result<()> {
        let new = self.path.with_extension("new");
        // One that a crash left may have another mode.
        if let Err(error) = fs::remove_file(&new)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&new)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(line)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        self.length = line.len() as u64;
        self.path.parent().map_or(Ok(()), sync)
    }
}

/// What was remembered last, without opening the journal for writing.
pub fn look(folder: &Path) -> io::Result<Option<String>> {
    Ok(read(&folder.join(FILE))?.and_then(|bytes| last(&bytes).0))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() || found.len() > MAX_BYTES => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a journal: move it away", path.display()),
        )),
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn line(text: &str) -> Vec<u8> {
    format!("{} {text}\n", Digest::of(text.as_bytes()).hex()).into_bytes()
}

/// The last whole line's text, and where whole lines end.
fn last(bytes: &[u8]) -> (Option<String>, u64) {
    let mut found = (None, 0);
    let mut at = 0;
    while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end) {
        if let Some(text) = whole(&bytes[at..end]) {
            found = (Some(text), end as u64 + 1);
        }
        at = end + 1;
    }
    (found.0.map(str::to_owned), found.1)
}

fn whole(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?;
    let (digest, text) = text.split_once(' ')?;
    (digest == Digest::of(text.as_bytes()).hex()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(states: &[&str]) -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, before) = Journal::open(folder.path()).unwrap();
        assert_eq!(before, None);
        for state in states {
            journal.keep(state).unwrap();
        }
        let bytes = fs::read(folder.path().join(FILE)).unwrap();
        (folder, bytes)
    }

    #[test]
    fn what_was_kept_last_is_remembered_and_only_its_owner_reads_it() {
        let (folder, _) = kept(&["one", "two", "ä three"]);
        assert_eq!(look(folder.path()).unwrap().as_deref(), Some("ä three"));
        let (mut journal, last) = Journal::open(folder.path()).unwrap();
        assert_eq!(last.as_deref(), Some("ä three"));
        journal.keep("four").unwrap();
        assert_eq!(look(folder.path()).unwrap().as_deref(), Some("four"));
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert!(journal.keep("two\nlines").is_err());
    }

    #[test]
    fn a_file_cut_off_at_any_byte_has_the_last_whole_state() {
        let states = ["{\"a\":1}", "{\"b\":\"two\"}", "{}"];
        let (folder, bytes) = kept(&states);
        let ends: Vec<usize> =
            (1..=3).map(|count| states[..count].iter().map(|s| s.len() + 66).sum()).collect();
        assert_eq!(ends[2], bytes.len());
        for cut in 0..=bytes.len() {
            fs::write(folder.path().join(FILE), &bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (mut journal, last) = Journal::open(folder.path()).unwrap();
            assert_eq!(last.as_deref(), whole.checked_sub(1).map(|at| states[at]), "cut at {cut}");
            journal.keep("next").unwrap();
            assert_eq!(look(folder.path()).unwrap().as_deref(), Some("next"), "cut at {cut}");
        }
    }

    #[test]
    fn a_changed_byte_spoils_its_own_state_alone() {
        let (folder, bytes) = kept(&["one", "two"]);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(folder.path().join(FILE), &changed).unwrap();
            let last = look(folder.path()).unwrap();
            // Without its end the first line is one with the second, and both are spoiled.
            let expected = if at + 1 < bytes.len() / 2 { Some("two") } else { Some("one") };
            let expected = if at + 1 == bytes.len() / 2 { None } else { expected };
            assert_eq!(last.as_deref(), expected, "byte {at}");
        }
    }

    #[test]
    fn a_file_that_has_grown_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        let text = "x".repeat(1000);
        let mut largest = 0;
        for number in 0..200 {
            let state = format!("{number} {text}");
            journal.keep(&state).unwrap();
            let length = fs::metadata(folder.path().join(FILE)).unwrap().len();
            largest = largest.max(length);
            assert_eq!(look(folder.path()).unwrap(), Some(state));
        }
        assert!((SMALL / 2..=SMALL + 1100).contains(&largest), "{largest}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // What a crash left of a new file does no harm.
        fs::write(folder.path().join("journal.new"), "half").unwrap();
        for number in 0..100 {
            journal.keep(&format!("{number} {text}")).unwrap();
        }
        let (_, last) = Journal::open(folder.path()).unwrap();
        assert_eq!(last, Some(format!("99 {text}")));
    }

    #[test]
    fn a_file_never_grows_larger_than_what_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        // As after fifteen lines of this size.
        let text = "x".repeat(17 << 20);
        journal.length = MAX_BYTES - (8 << 20);
        journal.file.set_len(journal.length).unwrap();
        journal.keep(&text).unwrap();
        assert!(look(folder.path()).unwrap() == Some(text), "it is opened again");
    }
}

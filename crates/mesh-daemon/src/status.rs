//! The status file: a program's last word about itself, for readers that have no bus.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Everybody may read it: it contains no secret, and a health check often runs as another user.
const MODE: u32 = 0o644;

/// The default path: in the runtime directory that systemd created for us, if it did.
pub fn default_path(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let directories = environment("RUNTIME_DIRECTORY")?;
    let first = directories.split(':').next().filter(|first| !first.is_empty())?;
    Some(Path::new(first).join("status.json"))
}

/// How often it is reported that the file cannot be written.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// A status file that is written again and again.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    /// How many writes failed since that was last reported.
    failed: u32,
    reported: Option<Instant>,
}

impl StatusFile {
    /// The file at `path`, which is not written yet.
    pub const fn new(path: PathBuf) -> Self {
        StatusFile { path, failed: 0, reported: None }
    }

    /// Writes it. Gives a line for the log if that fails, at most once a minute, or works again.
    ///
    /// If there is no room for a new file, the old one is marked as written: its reader can tell a program that runs
    /// from one that is gone.
    pub fn write(&mut self, json: &str, now: Instant) -> Option<String> {
        let path = self.path.display();
        let Err(error) = write(&self.path, json) else {
            self.failed = 0;
            return self.reported.take().map(|_| format!("the status file {path} can be written again"));
        };
        let mark = |file: fs::File| file.set_modified(SystemTime::now());
        OpenOptions::new().write(true).open(&self.path).and_then(mark).ok();
        self.failed += 1;
        if self.reported.is_some_and(|reported| now < reported + REPORT_EVERY) {
            return None;
        }
        self.reported = Some(now);
        let times = match std::mem::take(&mut self.failed) {
            1 => String::new(),
            times => format!(" ({times} times)"),
        };
        Some(format!(
            "the status file {path} cannot be written{times}: {error}: look at the owner of its folder and the space on its disk"
        ))
    }
}

/// Replaces the file by a rename, so that a reader sees the old text or the new one, never a part.
///
/// It is not synced to the disk: after a crash of the machine the seat is gone, too.
pub fn write(path: &Path, json: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = write_new(&beside, json).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Creates the file. It never follows a link at that path.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    let mut file = match create() {
        // Left by a process that was killed. In a container every process has the same id.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()?
        }
        other => other?,
    };
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_directory_has_it() {
        let path = |value: Option<&str>| {
            default_path(&|name| (name == "RUNTIME_DIRECTORY").then_some(value)?.map(str::to_owned))
        };
        assert_eq!(path(None), None);
        assert_eq!(path(Some("")), None);
        assert_eq!(path(Some("/run/seat")), Some("/run/seat/status.json".into()));
        assert_eq!(path(Some("/run/seat:/run/other")), Some("/run/seat/status.json".into()));
    }

    #[test]
    fn that_it_cannot_be_written_is_reported_once_a_minute_with_a_count() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("run");
        let mut file = StatusFile::new(folder.join("status.json"));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = file.write("{}", at(0)).unwrap();
        assert!(first.contains("cannot be written: No such file"), "{first}");
        assert_eq!([15, 30, 45].map(|seconds| file.write("{}", at(seconds))), [None, None, None]);
        let later = file.write("{}", at(60)).unwrap();
        assert!(later.contains("cannot be written (4 times): "), "{later}");
        fs::create_dir(&folder).unwrap();
        assert!(file.write("{}", at(75)).unwrap().ends_with("can be written again"));
        assert_eq!(file.write("{}", at(90)), None);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_marked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        fs::write(&path, "{}").unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(old).unwrap();
        // A folder stands where the new file is to be made.
        fs::create_dir(directory.path().join(format!(".status.json.{}", std::process::id()))).unwrap();
        assert!(StatusFile::new(path.clone()).write("{\"new\":1}", Instant::now()).is_some());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        assert!(fs::metadata(&path).unwrap().modified().unwrap() > old);
    }

    #[test]
    fn it_is_replaced_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("mesh-status-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("status.json");
        write(&path, "{\"long\":true}").unwrap();
        // What a killed process left; a link there is replaced, not followed.
        let left = directory.join(format!(".status.json.{}", std::process::id()));
        let victim = directory.join("victim");
        std::os::unix::fs::symlink(&victim, &left).unwrap();
        write(&path, "{}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        let names: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["status.json"]);
        let missing = write(&directory.join("none/status.json"), "{}").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        fs::remove_dir_all(&directory).unwrap();
    }
}

//! The status file: the seat's last word about itself, for readers that have no bus.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Everybody may read it: there is no secret in it, and a health check often runs as another user.
const MODE: u32 = 0o644;

/// Where the file is when no flag says it: in the runtime directory that systemd made for us, if it did.
pub fn default_path(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let directories = environment("RUNTIME_DIRECTORY")?;
    let first = directories.split(':').next().filter(|first| !first.is_empty())?;
    Some(Path::new(first).join("status.json"))
}

/// Puts `json` in place of the file by a rename, so that a reader sees the old text or the new one, never a
/// part.
///
/// It is not synced to the disk: after a crash of the machine there is no seat that it could tell of.
pub fn write(path: &Path, json: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = write_new(&beside, json).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Makes the file, and never follows a link that somebody laid in its place.
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

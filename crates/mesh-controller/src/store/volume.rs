//! Whether a store lies where `SQLite`'s locks do not hold.

use std::path::Path;

/// The numbers of network file systems (Linux, `statfs(2)`), where locks and shared memory cannot be relied on.
const REMOTE: [(i64, &str); 6] = [
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x5346_414F, "AFS"),
    (0x0103_1997, "9P"),
];

/// The name of the network file system that the folder of `path` lies on, if it lies on one.
pub fn is_remote(path: &Path) -> Option<&'static str> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = rustix::fs::statfs(folder).ok()?;
    named(found.f_type as i64)
}

fn named(number: i64) -> Option<&'static str> {
    REMOTE.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m07_a_network_file_system_is_known_by_its_number() {
        assert_eq!(named(0x6969), Some("NFS"));
        assert_eq!(named(0xEF53), None, "ext4 is local");
        assert_eq!(is_remote(&std::env::temp_dir().join("x.db")), None);
    }
}

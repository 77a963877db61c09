//! Whether the links that start a unit with the machine are those that its file asks for: systemd itself only says that
//! there are some.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Whether the links to `unit` in `folder` are others than its file at `file` asks for. Whatever cannot be read does not
/// differ.
pub(super) fn differ(folder: &Path, file: &Path, unit: &str) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    // An instance has the links of its template, and specifiers would have to be resolved.
    let Some(wanted) = wanted(&text).filter(|_| !unit.contains('@')) else { return false };
    found(folder, unit).is_some_and(|found| found != wanted)
}

/// The folders of links that the section `Install` asks for. `None`: it says something that is not followed here.
fn wanted(text: &str) -> Option<BTreeSet<String>> {
    let mut wanted = BTreeSet::new();
    let mut installs = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            installs = line == "[Install]";
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| installs) else { continue };
        let end = match name.trim() {
            "WantedBy" => ".wants",
            "RequiredBy" => ".requires",
            "UpheldBy" => ".upholds",
            _ => continue,
        };
        if value.contains(['%', '\\', '"']) {
            return None;
        }
        if value.trim().is_empty() {
            wanted.retain(|folder: &String| !folder.ends_with(end));
        }
        wanted.extend(value.split_whitespace().map(|target| format!("{target}{end}")));
    }
    Some(wanted)
}

/// The folders of links that have one to `unit`.
fn found(folder: &Path, unit: &str) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).ok()? {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let is_folder = [".wants", ".requires", ".upholds"].iter().any(|end| name.ends_with(end));
        if is_folder && fs::symlink_metadata(folder.join(&name).join(unit)).is_ok() {
            found.insert(name);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::differ;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn h11_links_of_an_older_install_section_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.service");
        let wants = folder.path().join("multi-user.target.wants");
        fs::create_dir(&wants).unwrap();
        symlink(&file, wants.join("a.service")).unwrap();
        let says = |by: &str| {
            fs::write(&file, format!("[Unit]\nWantedBy=x\n[Install]\nWantedBy={by}\n")).unwrap();
            differ(folder.path(), &file, "a.service")
        };
        assert!(!says("multi-user.target"));
        assert!(says("default.target"));
        assert!(says("multi-user.target default.target"));
        assert!(!says("multi-user.target\nAlias=b.service"));
        assert!(!says("%i.target"), "specifiers are not followed");
    }
}

//! One version everywhere, and the commit where it is known.

use super::{file, printed};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first heading that names a version.
fn first<'a>(text: &'a str, before: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(before)).unwrap_or_default();
    line.split([' ', ')', ']', '"']).next().unwrap_or_default()
}

#[test]
fn version_changelog_and_package_agree() {
    assert_eq!(first(&file("CHANGELOG.md"), "## "), VERSION, "CHANGELOG.md");
    let package = file("packaging/mesh-provisioner/changelog");
    let (upstream, revision) = first(&package, "mesh-provisioner (").rsplit_once('-').unwrap();
    assert_eq!(upstream, VERSION, "packaging/mesh-provisioner/changelog");
    assert!(revision.parse::<u32>().is_ok_and(|revision| revision > 0), "{revision}");
    let manual = file("packaging/mesh-provisioner/mesh-provisioner.8").replace("\\-", "-");
    assert_eq!(first(&manual, ".TH MESH-PROVISIONER 8 \"\" \"mesh-provisioner "), VERSION, "the manual");
}

#[test]
fn the_program_says_its_version_and_its_commit() {
    let line = printed(&["--version"]);
    let said = line.strip_prefix(&format!("mesh-provisioner {VERSION}")).expect("the version").trim_end();
    // Without git, as in a package's sources, there is no commit to say.
    if !said.is_empty() {
        let commit = said.strip_prefix(" (").and_then(|said| said.strip_suffix(')')).expect("a commit");
        assert!(commit.len() >= 7 && !commit.contains(char::is_whitespace), "{line}");
    }
    assert_eq!(line.lines().count(), 1, "{line}");
}

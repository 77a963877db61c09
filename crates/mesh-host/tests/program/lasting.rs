//! What has to be on the disk before what, seen from the system calls: a machine that loses its power has the old file or
//! the new one, and no record of what is not there.

use crate::tree::{Tree, program};
use serde_json::json;
use std::process::Command;

#[test]
fn h28_a_file_lasts_before_its_rename_and_its_directory_before_its_record() {
    let tree = Tree::new();
    tree.write("/srv/site", "old");
    let bundle = tree.bundle(&json!({"bundle": "test", "resources": [
        {"id": "site", "type": "file", "path": "/srv/site", "content": "new"},
        {"id": "deep", "type": "file", "path": "/srv/new/deep/file", "content": "new"},
    ]}));
    let trace = tree.path("/trace");
    let ran = Command::new("strace")
        .args(["-f", "-y", "-qq", "-e", "trace=write,fsync,fdatasync,renameat,renameat2,mkdirat", "-o"])
        .arg(&trace)
        .arg(program())
        .args(["apply", "--root"])
        .arg(tree.root())
        .arg(&bundle)
        .output()
        .expect("strace is needed");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let trace = tree.read("/trace");
    let lines: Vec<&str> =
        trace.lines().filter_map(|line| line.split_once(' ')).map(|(_, call)| call).collect();
    // Where the first call from `from` on is that begins like this and has all these words.
    let at = |from: usize, call: &str, words: &[&str]| {
        let is =
            |line: &&str| line.trim_start().starts_with(call) && words.iter().all(|word| line.contains(word));
        let found = lines.iter().skip(from).position(is);
        from + found.unwrap_or_else(|| panic!("no {call} {words:?} from {from} on:\n{trace}"))
    };
    for (folder, name) in [("/srv", "site"), ("/srv/new/deep", "file")] {
        let folder = format!("{}>", tree.path(folder).display());
        let renamed = at(0, "renameat", &[&folder, &format!("\"{name}\"")]);
        let temporary = lines[renamed].split('"').nth(1).unwrap();
        let temporary = format!("/{temporary}>");
        // The intent, the content, the rename, the directory, the record.
        let intent = at(0, "fdatasync", &["/journal>"]);
        let written = at(intent, "write", &[&temporary]);
        let synced = at(written, "fsync", &[&temporary]);
        assert!(synced < renamed, "{name} is renamed at {renamed} and synced at {synced}:\n{trace}");
        let directory = at(renamed, "fsync", &[&folder]);
        let recorded = at(renamed, "write", &["/journal>"]);
        assert!(
            directory < recorded,
            "{name} is recorded at {recorded} and lasts from {directory}:\n{trace}"
        );
    }
    // A directory that was made lasts with the one around it.
    for folder in ["new", "deep"] {
        let made = at(0, "mkdirat", &[&format!("\"{folder}\"")]);
        let around = lines[made].split(['<', '>']).nth(1).unwrap();
        let directory = at(made, "fsync", &[&format!("<{around}>")]);
        let recorded = at(at(made, "renameat", &["\"file\""]), "write", &["/journal>"]);
        assert!(directory < recorded, "{folder}:\n{trace}");
    }
}

//! What is shipped beside the program: unit, manual, completions and sample fit it.

use crate::tree::{Tree, program};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The commands that the program's help names, without those that only `serve` starts.
fn commands() -> Vec<String> {
    let help = Command::new(program()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("Commands:").nth(1).expect("a list of commands");
    let list = list.split("\n\n").next().unwrap();
    // Of a description that is too long for one line the rest stands below it, further to the right.
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("  ") && !line.starts_with("   ") {
            commands.push((words[0].to_owned(), words[1..].join(" ")));
        } else if let Some((_, description)) = commands.last_mut() {
            description.push(' ');
            description.push_str(&words.join(" "));
        }
    }
    let own = commands.into_iter().filter(|(_, description)| !description.contains("started by serve"));
    own.map(|(name, _)| name).collect()
}

#[test]
fn manual_and_completions_name_every_command() {
    let commands = commands();
    assert!(commands.len() >= 9, "{commands:?}");
    for name in ["mesh-host.8", "mesh-host.bash", "_mesh-host", "mesh-host.fish"] {
        let text = file(&format!("mesh-host/{name}"));
        for command in &commands {
            assert!(text.contains(command.as_str()), "packaging/mesh-host/{name} has no {command}");
        }
    }
}

#[test]
fn systemd_takes_the_unit_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh-host.service");
    let unit = file("mesh-host/mesh-host.service");
    let installed = "ExecStart=/usr/bin/mesh-host ";
    assert!(unit.contains(installed), "{unit}");
    fs::write(&path, unit.replace(installed, &format!("ExecStart={} ", program()))).unwrap();
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .output()
        .expect("systemd-analyze");
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("mesh-host")).collect();
    assert!(verify.status.success() && ours.is_empty(), "{said}");
}

#[test]
fn the_sample_can_be_applied() {
    let tree = Tree::new();
    tree.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    let sample: Value = serde_json::from_str(&file("sample/machine.json")).unwrap();
    let ran = tree.apply_bundle(&sample);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let words = [
        "tools skipped",
        "account created",
        "home created",
        "page created",
        "ready skipped",
        "clock skipped",
        "journal skipped",
    ];
    assert_eq!(ran.words(), words);
    assert_eq!(tree.read("/srv/sample/page.json"), "{\"port\":8080}");
    assert!(tree.read("/etc/passwd").contains("sample:x:100:100::/srv/sample:/usr/sbin/nologin"));
    assert_eq!(tree.owner("/srv/sample"), (100, 100));
}

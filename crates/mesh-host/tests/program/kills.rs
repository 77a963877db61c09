//! The real program, killed at real system calls: afterwards the next apply ends as if nothing had happened.

use crate::tree::{Tree, program};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

/// The calls that change something, make it last, or lead there. `strace` counts each by itself.
const CALLS: [&str; 16] = [
    "renameat2",
    "renameat",
    "rename",
    "fsync",
    "fdatasync",
    "write",
    "mkdirat",
    "mkdir",
    "unlinkat",
    "fchmod",
    "fchown",
    "linkat",
    "openat",
    "openat2",
    "statx",
    "flock",
];

/// How many kills the plain run has; more with `HOST_KILLS`.
fn kills() -> usize {
    std::env::var("HOST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn before(tree: &Tree) {
    tree.write("/etc/found", "the machine's");
    tree.write("/etc/equal", "equal");
    tree.write("/etc/foreign", "foreign");
    tree.apply(&first());
    tree.write("/etc/edited", "by hand");
}

fn first() -> Value {
    json!([
        {"id": "gone", "type": "file", "path": "/etc/gone", "content": "goes"},
        {"id": "over", "type": "file", "path": "/etc/found", "content": "over the machine's"},
        {"id": "dir", "type": "directory", "path": "/srv/old"},
        {"id": "edited", "type": "file", "path": "/etc/edited", "content": "one"},
    ])
}

fn second() -> Value {
    json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": "a secret"}}, "resources": [
        {"id": "dir", "type": "directory", "path": "/srv/new", "mode": "0750"},
        {"id": "edited", "type": "file", "path": "/etc/edited", "content": "one"},
        {"id": "equal", "type": "file", "path": "/etc/equal", "content": "equal"},
        {"id": "secret", "type": "file", "path": "/srv/new/secret", "content": "${secret:key}"},
        {"id": "tool", "type": "file", "path": "/srv/new/deep/tool", "content": "x", "mode": "4755"},
        {"id": "seed", "type": "file", "path": "/srv/new/seed", "content": "s", "create-once": true},
    ]})
}

/// What is remembered, without what differs between two trees.
fn remembered(tree: &Tree) -> Value {
    let status = tree.run(&["status", "--json"]);
    serde_json::from_str(&status.out).unwrap()
}

#[test]
fn h74_after_a_kill_at_any_system_call_the_next_apply_ends_as_if_nothing_had_happened() {
    let calm = Tree::new();
    before(&calm);
    assert_eq!(calm.apply_bundle(&second()).code, 0);
    let (want, records) = (calm.seen(), remembered(&calm));
    let (mut at, mut met, mut killed) = ([1; CALLS.len()], [0; CALLS.len()], 0);
    for turn in (0..CALLS.len()).cycle() {
        if killed == kills() {
            break;
        }
        let (name, number) = (CALLS[turn], at[turn]);
        let tree = Tree::new();
        before(&tree);
        if !is_killed(&tree, &second(), name, number) {
            // Past the last call of this name: begin again at its first.
            at[turn] = 1;
            continue;
        }
        at[turn] += 1;
        met[turn] += 1;
        killed += 1;
        let ran = tree.apply_bundle(&second());
        assert_eq!(ran.code, 0, "killed at {name} {number}: {}", ran.err);
        assert_eq!(tree.seen(), want, "killed at {name} {number}");
        assert_eq!(remembered(&tree), records, "killed at {name} {number}");
        let again = tree.apply_bundle(&second());
        assert_eq!(again.report()["changed"], false, "killed at {name} {number}: {}", again.out);
        assert_eq!(fs::read_to_string(tree.path("/etc/foreign")).unwrap(), "foreign");
    }
    // Each of these is met, or the test would prove less than it says.
    for needed in ["renameat2", "renameat", "fsync", "fdatasync", "write", "mkdirat", "unlinkat", "openat2"] {
        let turn = CALLS.iter().position(|call| *call == needed).unwrap();
        assert!(met[turn] > 0, "{needed} was never met");
    }
}

#[test]
fn h74_a_file_that_a_kill_left_half_written_in_place_comes_back_when_nothing_declares_it_any_more() {
    let with = |content: &str| json!([{"id": "f", "type": "file", "path": "/etc/f", "content": content, "in-place": true}]);
    // Written over for the first time, and in place of what was written before.
    for earlier in [None, Some("one")] {
        let mut killed = 0;
        for (name, number) in (1..40).map(|number| ("write", number)).chain([("ftruncate", 1), ("fchmod", 1)])
        {
            let tree = Tree::new();
            tree.write("/etc/f", "the machine's");
            if let Some(earlier) = earlier {
                tree.apply(&with(earlier));
            }
            if !is_killed(&tree, &json!({"bundle": "test", "resources": with("two")}), name, number) {
                continue;
            }
            killed += 1;
            let ran = tree.apply(&json!([]));
            assert_eq!(tree.read("/etc/f"), "the machine's", "killed at {name} {number}: {}", ran.out);
        }
        assert!(killed > 4, "only {killed} kills were met");
    }
}

/// Applies the bundle and kills the program at this call. `false`: it ended before.
pub(crate) fn is_killed(tree: &Tree, bundle: &Value, name: &str, number: usize) -> bool {
    let file = tree.bundle(bundle);
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("inject={name}:signal=SIGKILL:when={number}"))
        .arg(program())
        .args(["apply", "--root"])
        .arg(tree.root())
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is needed");
    match (status.code(), status.signal()) {
        (Some(0), _) => false,
        (None, Some(9)) => true,
        other => panic!("{name} {number}: neither done nor killed: {other:?}"),
    }
}

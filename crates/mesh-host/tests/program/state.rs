//! State, lock and what a subset leaves alone.

use crate::tree::{Ran, Tree};
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;

fn files(count: usize) -> Value {
    (0..count).map(|n| json!({"id": format!("f{n}"), "type": "file", "path": format!("/srv/f{n}"), "content": format!("{n}")})).collect()
}

#[test]
fn h71_damaged_state_is_set_aside_and_nothing_is_removed() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 3] = [Vec::clear, |bytes| bytes.truncate(bytes.len() / 2), |bytes| bytes[40] ^= 1];
    for damage in damages {
        let tree = Tree::new();
        tree.apply(&files(2));
        tree.apply(&files(3));
        let state = tree.path("/var/lib/mesh-host");
        for name in ["snapshot.1", "snapshot.2"] {
            let path = state.join(name);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
        let _ = fs::remove_file(state.join("journal"));
        let _ = fs::remove_file(state.join("journal.1"));
        let ran = tree.apply(&json!([]));
        assert_eq!((ran.code, ran.words()), (0, Vec::<String>::new()), "{}", ran.err);
        assert!(
            ran.err.contains("snapshot.1 cannot be used") && ran.err.contains("snapshot.2 cannot be used"),
            "{}",
            ran.err
        );
        assert!(state.join("snapshot.1.bad").exists() && state.join("snapshot.2.bad").exists());
        assert!((0..3).all(|n| tree.exists(&format!("/srv/f{n}"))));
    }
}

#[test]
fn an_original_that_was_kept_outlives_the_loss_of_the_state() {
    let tree = Tree::new();
    tree.write("/etc/conf", "the machine's");
    let with =
        |content: &str| json!([{"id": "conf", "type": "file", "path": "/etc/conf", "content": content}]);
    tree.apply(&with("one"));
    let state = tree.path("/var/lib/mesh-host");
    for name in ["snapshot.1", "snapshot.2", "journal", "journal.1"] {
        let _ = fs::remove_file(state.join(name));
    }
    tree.apply(&with("two"));
    let kept = fs::read_dir(state.join("kept")).unwrap();
    let kept: Vec<_> = kept.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(kept.contains(&"the machine's".to_owned()), "{kept:?}");
}

#[test]
fn what_fails_again_and_again_does_not_let_the_state_grow() {
    let tree = Tree::new();
    let with = |content: &str| json!([{"id": "f", "type": "file", "path": "/etc/f", "content": content}]);
    tree.apply(&with("one"));
    let attribute = |sign: &str| {
        let changed = std::process::Command::new("chattr").arg(sign).arg(tree.path("/etc/f")).output();
        changed.is_ok_and(|output| output.status.success())
    };
    assert!(attribute("+i"), "chattr is needed, on a file system that knows the immutable attribute");
    let size = || fs::metadata(tree.path("/var/lib/mesh-host/snapshot.1")).unwrap().len();
    let mut sizes = Vec::new();
    for _ in 0..8 {
        assert_eq!(tree.apply(&with("two")).code, 3);
        sizes.push(size());
    }
    attribute("-i");
    // The numbers of entries may get a digit longer.
    assert!(sizes[7] < sizes[3] + 16, "{sizes:?}");
    assert_eq!(tree.apply(&with("two")).words(), ["f updated"]);
}

#[test]
fn h76_a_lock_does_not_outlive_its_holder() {
    let tree = Tree::new();
    tree.apply(&files(1));
    let file = tree.bundle(&json!({"bundle": "test", "resources": files(2)}));
    // Waits for its input under no lock; killed, it leaves none.
    let mut child = tree.command(&["apply", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tree.run(&["apply", &file]).code, 0);
}

#[test]
fn h77_of_twenty_at_once_one_works_and_the_state_is_sound() {
    let tree = Tree::new();
    let file = tree.bundle(&json!({"bundle": "test", "resources": files(200)}));
    let children: Vec<_> = (0..20)
        .map(|_| {
            tree.command(&["apply", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ran: Vec<Ran> =
        children.into_iter().map(|child| Ran::of(child.wait_with_output().unwrap())).collect();
    let worked = ran.iter().filter(|ran| ran.code == 0).count();
    assert!(
        worked >= 1 && ran.iter().all(|ran| [0, 75].contains(&ran.code)),
        "{:?}",
        ran.iter().map(|ran| ran.code).collect::<Vec<_>>()
    );
    assert!(
        ran.iter().filter(|ran| ran.code == 75).all(|ran| ran.err.contains("another apply is under way"))
    );
    let again = tree.apply(&files(200));
    assert_eq!(again.report()["totals"], json!({"unchanged": 200}), "{}", again.err);
}

#[test]
fn what_needs_a_manager_is_skipped_in_a_tree() {
    let tree = Tree::new();
    let ran = tree.apply(&json!([{"id": "curl", "type": "package", "package": "curl"},
                                 {"id": "f", "type": "file", "path": "/etc/f", "content": "x"}]));
    assert_eq!(
        (ran.code, ran.words()),
        (0, vec!["curl skipped".to_owned(), "f created".to_owned()]),
        "{}",
        ran.err
    );
}

#[test]
fn a_field_that_is_not_known_refuses_the_whole_bundle() {
    let tree = Tree::new();
    let ran = tree.apply(&json!([{"id": "f", "type": "file", "path": "/etc/f", "content": "x"},
                                 {"id": "g", "type": "file", "path": "/etc/g", "content": "x", "mdoe": "0600"}]));
    assert!(ran.code == 1 && ran.err.contains("mdoe: unknown field"), "{} {}", ran.code, ran.err);
    assert!(!tree.exists("/etc/f"));
}

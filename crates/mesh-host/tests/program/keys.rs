//! Keys of the mesh inside a file that the machine owns.

use crate::kills::is_killed;
use crate::tree::Tree;
use serde_json::{Value, json};

fn into(id: &str, path: &str, format: &str, content: &str) -> Value {
    json!({"id": id, "type": "file", "into": path, "format": format, "content": content})
}

fn with_key() -> Tree {
    let tree = Tree::new();
    assert_eq!(tree.run(&["key", "make"]).code, 0);
    tree
}

#[test]
fn content_that_cannot_be_set_refuses_its_module_before_anything_is_done() {
    let tree = with_key();
    for (format, content) in [("ini", "[a]\nb: 1\n"), ("json", "[1]")] {
        let ran = tree.apply(&json!([
            {"id": "first", "type": "file", "path": "/etc/first", "content": "x"},
            into("keys", "/etc/keys", format, content),
        ]));
        assert_eq!(ran.code, 1, "{format}: {}", ran.out);
        assert!(ran.err.contains("keys: the content is not"), "{format}: {}", ran.err);
        assert!(!tree.exists("/etc/first"), "{format}");
    }
}

#[test]
fn h74_keys_that_a_kill_left_in_a_file_are_taken_out_when_nothing_declares_them_any_more() {
    const BEFORE: &str = "[a]\nb = 1\n";
    let with = |content: &str| json!([into("keys", "/etc/conf", "ini", content)]);
    // Set for the first time, and in place of other keys of ours.
    for earlier in [None, Some("[a]\nb = 4\nd = 5\n")] {
        for number in 1.. {
            let tree = with_key();
            tree.write("/etc/conf", BEFORE);
            if let Some(earlier) = earlier {
                assert_eq!(tree.apply(&with(earlier)).words(), ["keys updated"]);
            }
            let bundle = json!({"bundle": "test", "resources": with("[a]\nb = 2\nc = 3\n")});
            if !is_killed(&tree, &bundle, "write", number) {
                assert!(number > 3, "only {number} writes were met");
                break;
            }
            let ran = tree.apply(&json!([]));
            assert_eq!(ran.code, 0, "killed at write {number}: {}", ran.err);
            assert_eq!(tree.read("/etc/conf"), BEFORE, "killed at write {number}: {}", ran.out);
        }
    }
}

#[test]
fn a_file_of_the_machine_keeps_its_attributes() {
    let tree = with_key();
    tree.write("/etc/conf", "[a]\nb = 1\n");
    let path = tree.path("/etc/conf");
    let empty = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.note", b"by hand", empty)
        .expect("a file system with attributes is needed");
    let ran = tree.apply(&json!([into("keys", "/etc/conf", "ini", "[a]\nb = 2\n")]));
    assert_eq!((ran.code, tree.read("/etc/conf")), (0, "[a]\nb = 2\n".to_owned()), "{}", ran.err);
    let mut value = [0; 32];
    let length = rustix::fs::getxattr(&path, "user.note", &mut value[..]);
    assert_eq!(length.map(|length| value[..length].to_vec()), Ok(b"by hand".to_vec()));
}

#[test]
fn a_file_that_the_keys_made_is_left_while_a_person_has_something_in_it() {
    let tree = with_key();
    for (format, theirs) in [("ini", "; a note\n"), ("toml", "# a note\n"), ("toml", "[theirs]\n")] {
        let path = format!("/etc/conf.{format}");
        assert_eq!(tree.apply(&json!([into("keys", &path, format, "b = 1\n")])).words(), ["keys created"]);
        tree.write(&path, &format!("{}{theirs}", tree.read(&path)));
        assert_eq!(tree.apply(&json!([])).words(), ["keys removed"]);
        assert_eq!(tree.read(&path), theirs, "{format}");
        std::fs::remove_file(tree.path(&path)).unwrap();
    }
}

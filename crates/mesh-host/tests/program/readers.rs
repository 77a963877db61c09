//! Case K54: who can read a file while it is written.

use crate::tree::Tree;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

fn conf(content: &str, mode: Option<&str>) -> Value {
    let mut file = json!({"id": "conf", "type": "file", "path": "/srv/conf", "content": content});
    if let Some(mode) = mode {
        file["mode"] = json!(mode);
    }
    json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}],
           "values": {"secret:key": {"text": "never-for-others"}}, "resources": [file]})
}

/// Somebody who looks at every new name in the folder finds none that others may read, and a mode alone is a change.
#[test]
fn k54_a_file_with_a_secret_is_readable_by_nobody_else_even_for_a_moment() {
    let tree = Tree::new();
    assert_eq!(tree.run(&["key", "make"]).code, 0);
    fs::create_dir_all(tree.path("/srv")).unwrap();
    let (folder, over) = (tree.path("/srv"), AtomicBool::new(false));
    let open = std::thread::scope(|scope| {
        let racer = scope.spawn(|| {
            let (mut looks, mut open) = (0_u64, Vec::new());
            while !over.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&folder).unwrap().flatten() {
                    // It may be gone by now.
                    let Ok(found) = entry.metadata() else { continue };
                    looks += 1;
                    if found.permissions().mode() & 0o077 != 0 {
                        open.push((entry.file_name(), found.permissions().mode()));
                    }
                }
            }
            (looks, open)
        });
        for turn in 0..20 {
            let ran = tree.apply_bundle(&conf(&format!("{turn} ${{secret:key}}"), None));
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
        over.store(true, Ordering::Relaxed);
        racer.join().unwrap()
    });
    assert!(open.0 > 20, "the racer looked {} times", open.0);
    assert_eq!(open.1, []);
    let ran = tree.apply_bundle(&conf("19 ${secret:key}", Some("0640")));
    assert_eq!((ran.words(), tree.mode("/srv/conf")), (vec!["conf updated".to_owned()], 0o640));
}

//! Directories and files: what is made, mended, left and removed.

use crate::tree::Tree;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

fn file(id: &str, path: &str, content: &str) -> Value {
    json!({"id": id, "type": "file", "path": path, "content": content})
}

#[test]
fn a_tree_is_made_and_then_there_is_nothing_to_do() {
    let tree = Tree::new();
    let resources = json!([
        {"id": "state", "type": "directory", "path": "/srv/web", "mode": "0750"},
        {"id": "site", "type": "file", "path": "/srv/web/site.json", "content": "{\"a\":1}", "format": "json"},
        {"id": "tool", "type": "file", "path": "/opt/x/tool", "bytes": "AAEC", "mode": "4755"},
    ]);
    let plan = tree.plan(&resources);
    assert_eq!(
        (plan.code, plan.words()),
        (2, ["state created", "site created", "tool created"].map(str::to_owned).to_vec())
    );
    assert!(!tree.exists("/srv/web"));
    let first = tree.apply(&resources);
    assert_eq!((first.code, first.words()), (0, plan.words()), "{}", first.err);
    assert_eq!(
        (tree.mode("/srv/web"), tree.mode("/srv/web/site.json"), tree.mode("/opt/x/tool")),
        (0o750, 0o644, 0o4755)
    );
    assert_eq!(tree.read("/srv/web/site.json"), "{\"a\":1}");
    assert_eq!(fs::read(tree.path("/opt/x/tool")).unwrap(), [0, 1, 2]);
    let before = tree.seen();
    let second = tree.apply(&resources);
    assert_eq!(second.words(), ["state unchanged", "site unchanged", "tool unchanged"]);
    assert_eq!(second.report()["changed"], false);
    assert_eq!((tree.plan(&resources).code, tree.seen()), (0, before));
}

#[test]
fn what_hands_changed_is_corrected_with_the_kind_of_drift() {
    let tree = Tree::new();
    let resources =
        json!([file("a", "/etc/a", "one"), file("b", "/etc/b", "two"), file("c", "/etc/c", "three")]);
    tree.apply(&resources);
    tree.write("/etc/a", "by hand");
    fs::set_permissions(tree.path("/etc/b"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::remove_file(tree.path("/etc/c")).unwrap();
    let again = tree.apply(&resources);
    assert_eq!(again.words(), ["a corrected", "b corrected", "c corrected"]);
    assert_eq!([again.cause("a"), again.cause("b"), again.cause("c")], ["content", "mode", "gone"]);
    assert_eq!(
        (tree.read("/etc/a"), tree.mode("/etc/b"), tree.read("/etc/c")),
        ("one".into(), 0o644, "three".into())
    );
    // Changed by hand and declared otherwise: updated, and it had drifted.
    tree.write("/etc/a", "by hand");
    let changed = tree.apply(&json!([file("a", "/etc/a", "four")]));
    assert_eq!(changed.words(), ["c removed", "b removed", "a updated"]);
    assert!(changed.detail("a").contains("it had drifted"), "{}", changed.detail("a"));
}

#[test]
fn what_is_undeclared_goes_and_what_was_there_before_comes_back() {
    let tree = Tree::new();
    tree.write("/etc/motd", "the machine's\n");
    fs::set_permissions(tree.path("/etc/motd"), fs::Permissions::from_mode(0o640)).unwrap();
    tree.write("/etc/equal", "equal");
    let resources = json!([
        {"id": "dir", "type": "directory", "path": "/srv/data"},
        file("motd", "/etc/motd", "ours\n"), file("equal", "/etc/equal", "equal"), file("conf", "/etc/conf", "x"),
        {"id": "seed", "type": "file", "path": "/srv/data/seed", "content": "seed", "create-once": true},
    ]);
    assert_eq!(
        tree.apply(&resources).words(),
        ["dir created", "motd updated", "equal unchanged", "conf created", "seed created"]
    );
    assert_eq!(tree.read("/etc/motd"), "ours\n");
    tree.write("/srv/data/seed", "grown by the application");
    tree.write("/srv/data/more", "data");
    let gone = tree.apply(&json!([]));
    assert_eq!(gone.words(), ["seed kept", "conf removed", "equal forgotten", "motd removed", "dir kept"]);
    assert_eq!((tree.read("/etc/motd"), tree.mode("/etc/motd")), ("the machine's\n".to_owned(), 0o640));
    assert!(tree.exists("/etc/equal") && !tree.exists("/etc/conf"));
    assert_eq!(tree.read("/srv/data/more"), "data");
    assert!(gone.detail("dir").starts_with("2 entries are in it"), "{}", gone.detail("dir"));
    assert_eq!(tree.apply(&json!([])).words(), [""; 0]);
}

#[test]
fn a_target_that_moves_to_another_id_is_not_made_again() {
    let tree = Tree::new();
    tree.apply(&json!([file("old", "/etc/a", "one")]));
    let inode = fs::metadata(tree.path("/etc/a")).unwrap().ino();
    assert_eq!(tree.apply(&json!([file("new", "/etc/a", "one")])).words(), ["new unchanged"]);
    assert_eq!(fs::metadata(tree.path("/etc/a")).unwrap().ino(), inode);
    assert_eq!(tree.apply(&json!([])).words(), ["new removed"]);
}

#[test]
fn each_bundle_has_its_own_orphans() {
    let tree = Tree::new();
    tree.apply(&json!([file("a", "/etc/a", "one")]));
    tree.apply_bundle(&json!({"bundle": "other", "resources": [file("b", "/etc/b", "two")]}));
    tree.apply_bundle(&json!({"bundle": "other", "resources": []}));
    assert!(tree.exists("/etc/a") && !tree.exists("/etc/b"));
}

#[test]
fn h07_a_create_once_file_that_is_present_does_not_move() {
    let tree = Tree::new();
    let resources =
        json!([{"id": "seed", "type": "file", "path": "/etc/seed", "content": "s", "create-once": true}]);
    assert_eq!(tree.apply(&resources).report()["changed"], true);
    tree.write("/etc/seed", "grown");
    for _ in 0..2 {
        let again = tree.apply(&resources);
        assert_eq!(
            (again.words(), again.report()["changed"].clone()),
            (vec!["seed kept".to_owned()], json!(false))
        );
    }
    assert_eq!(tree.read("/etc/seed"), "grown");
}

#[test]
fn h23_a_dangling_link_is_named() {
    let tree = Tree::new();
    tree.write("/srv/x", "");
    symlink("/nowhere", tree.path("/srv/dir")).unwrap();
    symlink("/nowhere", tree.path("/srv/file")).unwrap();
    let ran = tree.apply(&json!([
        {"id": "dir", "type": "directory", "path": "/srv/dir"},
        file("file", "/srv/file", "x"), file("below", "/srv/dir/below", "x"), file("fine", "/srv/fine", "x"),
    ]));
    assert_eq!(
        (ran.code, ran.words()),
        (3, ["dir failed", "file failed", "below failed", "fine created"].map(str::to_owned).to_vec())
    );
    assert!(ran.cause("dir").contains("a link to /nowhere"), "{}", ran.cause("dir"));
    assert!(ran.cause("file").contains("a link to /nowhere"), "{}", ran.cause("file"));
    assert!(ran.cause("below").contains("/srv/dir is a link"), "{}", ran.cause("below"));
    assert!(
        ran.err.contains("dir failed: ")
            && ran.err.contains("2 other resources also failed; everything was attempted"),
        "{}",
        ran.err
    );
}

#[test]
fn h24_a_link_is_not_replaced_and_not_followed() {
    let tree = Tree::new();
    tree.write("/etc/real", "real");
    symlink("real", tree.path("/etc/resolv.conf")).unwrap();
    let ran = tree.apply(&json!([file("dns", "/etc/resolv.conf", "ours")]));
    assert_eq!(ran.words(), ["dns failed"]);
    assert_eq!(tree.read("/etc/real"), "real");
    assert_eq!(fs::read_link(tree.path("/etc/resolv.conf")).unwrap().to_str(), Some("real"));
}

#[test]
fn h25_a_user_who_swaps_a_component_for_a_link_leads_nothing_astray() {
    let tree = Tree::new();
    tree.write("/etc/passwd", "u:x:4242:4242::/:/bin/false\n");
    tree.write("/etc/group", "u:x:4242:\n");
    let passwd = tree.read("/etc/passwd");
    let resources = |n: u32| {
        json!([{"id": "home", "type": "directory", "path": "/home/u", "owner": "u"},
               file("f", "/home/u/d/passwd", &format!("taken over {n}"))])
    };
    tree.apply(&resources(0));
    // The user's own process: a directory, then a link to /etc, for as long as it is not stopped.
    let swap = "cd home/u && while :; do mv d e; ln -s ../../etc d; rm d; mv e d; done";
    let mut swapper = Command::new("sh")
        .args(["-c", swap])
        .current_dir(tree.root())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for n in 1..60 {
        let ran = tree.apply(&resources(n));
        assert_eq!(tree.read("/etc/passwd"), passwd, "{}", ran.out);
    }
    swapper.kill().unwrap();
    swapper.wait().unwrap();
}

#[test]
fn h27_all_twelve_bits_are_set_or_the_mode_is_refused() {
    let tree = Tree::new();
    let with =
        |mode: Value| json!([{"id": "f", "type": "file", "path": "/etc/f", "content": "x", "mode": mode}]);
    for (text, bits) in [("4755", 0o4755), ("1777", 0o1777), ("2711", 0o2711), ("000", 0)] {
        assert_eq!(tree.apply(&with(json!(text))).code, 0);
        assert_eq!(tree.mode("/etc/f"), bits);
        assert_eq!(tree.apply(&with(json!(text))).words(), ["f unchanged"]);
    }
    for wrong in [json!(755), json!("0999"), json!("")] {
        let ran = tree.apply(&with(wrong.clone()));
        assert_eq!(ran.code, 1, "{wrong}");
        assert!(ran.err.contains("mode"), "{}", ran.err);
    }
    assert_eq!(tree.mode("/etc/f"), 0);
}

#[test]
fn h30_what_cannot_be_written_fails_and_is_never_unchanged() {
    let tree = Tree::new();
    let resources = json!([file("f", "/etc/f", "one")]);
    tree.apply(&resources);
    let attribute = |sign: &str| {
        let changed = Command::new("chattr").arg(sign).arg(tree.path("/etc/f")).output();
        changed.is_ok_and(|output| output.status.success())
    };
    assert!(attribute("+i"), "chattr is needed, on a file system that knows the immutable attribute");
    let ran = tree.apply(&json!([file("f", "/etc/f", "two")]));
    attribute("-i");
    assert_eq!((ran.code, ran.words()), (3, vec!["f failed".to_owned()]));
    assert!(ran.cause("f").contains("immutable"), "{}", ran.cause("f"));
    assert_eq!(tree.read("/etc/f"), "one");
    assert_eq!(tree.apply(&json!([file("f", "/etc/f", "two")])).words(), ["f updated"]);
}

#[test]
fn h32_a_new_file_in_a_new_directory_needs_one_apply() {
    let tree = Tree::new();
    tree.write("/etc/passwd", "web:x:700:701::/:/bin/false\n");
    tree.write("/etc/group", "web:x:701:\n");
    let resources = json!([
        {"id": "d", "type": "directory", "path": "/srv/new", "owner": "web", "mode": "0700"},
        {"id": "f", "type": "file", "path": "/srv/new/deep/f", "content": "x", "owner": "web", "mode": "0600"},
    ]);
    assert_eq!(tree.apply(&resources).words(), ["d created", "f created"]);
    assert_eq!((tree.owner("/srv/new"), tree.owner("/srv/new/deep/f")), ((700, 701), (700, 701)));
    assert_eq!(tree.apply(&resources).words(), ["d unchanged", "f unchanged"]);
}

#[test]
fn h33_an_orphan_that_is_a_directory_now_is_kept() {
    let tree = Tree::new();
    tree.apply(&json!([file("f", "/srv/f", "x")]));
    fs::remove_file(tree.path("/srv/f")).unwrap();
    tree.write("/srv/f/data", "precious");
    let ran = tree.apply(&json!([]));
    assert_eq!(ran.words(), ["f kept"]);
    assert_eq!(tree.read("/srv/f/data"), "precious");
}

#[test]
fn h35_what_is_no_regular_file_is_never_waited_for() {
    let tree = Tree::new();
    tree.write("/srv/x", "");
    let made = |program: &str, arguments: &[&str]| {
        assert!(
            Command::new(program).args(arguments).current_dir(tree.path("/srv")).status().unwrap().success()
        );
    };
    made("mkfifo", &["fifo"]);
    made("mknod", &["device", "c", "1", "5"]);
    fs::File::create(tree.path("/srv/large")).unwrap().set_len(10 << 30).unwrap();
    let began = Instant::now();
    let ran = tree.apply(&json!([
        file("fifo", "/srv/fifo", "x"),
        file("device", "/srv/device", "x"),
        file("large", "/srv/large", "x"),
    ]));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(ran.words(), ["fifo failed", "device failed", "large failed"]);
    assert!(ran.cause("fifo").contains("a FIFO") && ran.cause("device").contains("a character device"));
    assert!(ran.cause("large").contains("larger than the 64 MiB"), "{}", ran.cause("large"));
    assert_eq!(fs::metadata(tree.path("/srv/large")).unwrap().len(), 10 << 30);
}

#[test]
fn h96_one_failure_does_not_stop_the_others() {
    let tree = Tree::new();
    tree.write("/srv/f7/data", "in the way");
    let resources: Vec<_> = (0..50).map(|n| file(&format!("f{n}"), &format!("/srv/f{n}"), "x")).collect();
    let ran = tree.apply(&json!(resources));
    assert_eq!(ran.code, 3);
    assert_eq!(
        (ran.report()["totals"]["created"].clone(), ran.report()["totals"]["failed"].clone()),
        (json!(49), json!(1))
    );
    assert_eq!(ran.report()["first_failure"]["id"], "f7");
}

#[test]
fn h104_two_resources_with_one_target_are_refused() {
    let tree = Tree::new();
    let ran = tree.apply(&json!([file("a", "/etc/a", "x"), file("b", "/etc/a", "y")]));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("b and a have one target, /etc/a"), "{}", ran.err);
    let ran = tree.apply(&json!([file("a", "/etc/a", "x"), file("a", "/etc/b", "y")]));
    assert!(ran.code == 1 && ran.err.contains("the id a stands twice"), "{}", ran.err);
    assert!(!tree.exists("/etc"));
}

#[test]
fn a_restored_original_is_as_it_was() {
    let tree = Tree::new();
    tree.write("/etc/a", "before");
    tree.apply(&json!([file("a", "/etc/a", "ours")]));
    let ran = tree.run(&["restore", "a"]);
    assert_eq!((ran.code, tree.read("/etc/a")), (0, "before".to_owned()), "{}", ran.err);
    assert_eq!(tree.run(&["restore", "a"]).code, 1);
}

#[test]
fn an_original_in_a_directory_of_its_declared_owner_is_restored() {
    let tree = Tree::new();
    tree.write("/srv/web/conf", "before");
    let owner = if rustix::process::geteuid().is_root() { "12345:12345" } else { "0:0" };
    let resources = json!([
        {"id": "dir", "type": "directory", "path": "/srv/web", "owner": owner},
        file("conf", "/srv/web/conf", "ours"),
    ]);
    assert_eq!(tree.apply(&resources).code, 0);
    let ran = tree.run(&["restore", "conf"]);
    assert_eq!((ran.code, tree.read("/srv/web/conf")), (0, "before".to_owned()), "{}", ran.err);
}

#[test]
fn what_is_forgotten_is_left() {
    let tree = Tree::new();
    tree.apply(&json!([file("a", "/etc/a", "ours")]));
    assert_eq!(tree.run(&["forget", "a"]).code, 0);
    assert_eq!(tree.apply(&json!([])).words(), [""; 0]);
    assert_eq!(tree.read("/etc/a"), "ours");
}

#[test]
fn keys_inside_a_file_of_the_machine_are_set_corrected_and_taken_out_again() {
    let tree = Tree::new();
    tree.write("/etc/docker/daemon.json", "{\"debug\":true,\"log\":{\"level\":\"warn\"}}");
    fs::set_permissions(tree.path("/etc/docker/daemon.json"), fs::Permissions::from_mode(0o640)).unwrap();
    let with = |content: &str| {
        json!([{"id": "docker", "type": "file", "into": "/etc/docker/daemon.json", "format": "json", "content": content},
               {"id": "new", "type": "file", "into": "/etc/new.toml", "format": "toml", "content": "[a]\nb = 1\n"}])
    };
    let without_key = tree.apply(&with("{\"log\":{\"level\":\"info\"}}"));
    assert!(without_key.cause("docker").contains("there is no sealing key"), "{}", without_key.out);
    assert_eq!(tree.run(&["key", "make"]).code, 0);
    let first = tree.apply(&with("{\"log\":{\"level\":\"info\"},\"dns\":[\"10.0.0.1\"]}"));
    assert_eq!(
        (first.code, first.words()),
        (0, vec!["docker updated".to_owned(), "new created".to_owned()]),
        "{}",
        first.out
    );
    let set = "{\n  \"debug\": true,\n  \"log\": {\n    \"level\": \"info\"\n  },\n  \"dns\": [\n    \"10.0.0.1\"\n  ]\n}\n";
    assert_eq!(
        (tree.read("/etc/docker/daemon.json").as_str(), tree.mode("/etc/docker/daemon.json")),
        (set, 0o640)
    );
    assert_eq!(tree.read("/etc/new.toml"), "[a]\nb = 1\n");
    assert_eq!(
        tree.apply(&with("{\"log\":{\"level\":\"info\"},\"dns\":[\"10.0.0.1\"]}")).words(),
        ["docker unchanged", "new unchanged"]
    );
    tree.write("/etc/docker/daemon.json", &set.replace("info", "error"));
    let again = tree.apply(&with("{\"log\":{\"level\":\"info\"},\"dns\":[\"10.0.0.1\"]}"));
    assert_eq!((again.words()[0].as_str(), again.cause("docker").as_str()), ("docker corrected", "content"));
    let gone = tree.apply(&json!([]));
    assert_eq!(gone.words(), ["new removed", "docker removed"], "{}", gone.out);
    assert_eq!(
        tree.read("/etc/docker/daemon.json"),
        "{\n  \"debug\": true,\n  \"log\": {\n    \"level\": \"warn\"\n  }\n}\n"
    );
    assert!(!tree.exists("/etc/new.toml"));
}

/// Runs `script` where mounts are its own: `$1` is the root of the tree, `$2` the program, `$3` the bundle.
fn among_own_mounts(tree: &Tree, script: &str, resources: &Value) -> crate::tree::Ran {
    let file = tree.bundle(&json!({"bundle": "test", "resources": resources}));
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-ec", script, "sh"])
        .arg(tree.root())
        .args([crate::tree::program(), file])
        .output()
        .unwrap();
    crate::tree::Ran::of(output)
}

#[test]
fn h20_and_k56_a_mount_point_is_told_or_written_in_place_as_declared() {
    let tree = Tree::new();
    tree.write("/etc/real", "real");
    tree.write("/etc/f", "");
    let script = r#"mount --bind "$1/etc/real" "$1/etc/f"; "$2" apply --json --root "$1" "$3""#;
    let ran = among_own_mounts(&tree, script, &json!([file("f", "/etc/f", "ours")]));
    assert_eq!((ran.code, ran.words()), (3, vec!["f failed".to_owned()]), "{}", ran.err);
    assert!(ran.cause("f").contains("is a mount point"), "{}", ran.cause("f"));
    assert_eq!(tree.read("/etc/real"), "real");
    let in_place =
        json!([{"id": "f", "type": "file", "path": "/etc/f", "content": "ours", "in-place": true}]);
    let ran = among_own_mounts(&tree, script, &in_place);
    assert_eq!((ran.code, ran.words()), (0, vec!["f updated".to_owned()]), "{} {}", ran.out, ran.err);
    assert_eq!(tree.read("/etc/real"), "ours");
}

#[test]
fn a_disk_that_is_not_mounted_is_not_answered_and_nothing_is_removed() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("/srv/disk")).unwrap();
    fs::create_dir_all(tree.path("/disk")).unwrap();
    let script = r#"mount --bind "$1/disk" "$1/srv/disk"; "$2" apply --json --root "$1" "$3""#;
    let resources = json!([file("f", "/srv/disk/f", "x")]);
    assert_eq!(among_own_mounts(&tree, script, &resources).words(), ["f created"]);
    // The disk is away: neither made again on the empty mount point nor taken for gone.
    let away = tree.apply(&resources);
    assert_eq!((away.code, away.words()), (3, vec!["f not-answered".to_owned()]), "{}", away.err);
    assert!(away.cause("f").contains("mounted at /srv/disk"), "{}", away.cause("f"));
    assert_eq!(tree.apply(&json!([])).words(), ["f not-answered"]);
    assert!(!tree.exists("/srv/disk/f"));
    assert_eq!(among_own_mounts(&tree, script, &json!([])).words(), ["f removed"]);
    assert!(!tree.exists("/disk/f"));
}

#[test]
fn a_file_in_place_keeps_its_inode() {
    let tree = Tree::new();
    let with = |content: &str| json!([{"id": "f", "type": "file", "path": "/etc/f", "content": content, "in-place": true}]);
    assert_eq!(tree.apply(&with("one")).words(), ["f created"]);
    let inode = fs::metadata(tree.path("/etc/f")).unwrap().ino();
    assert_eq!(tree.apply(&with("three")).words(), ["f updated"]);
    assert_eq!(
        (fs::metadata(tree.path("/etc/f")).unwrap().ino(), tree.read("/etc/f")),
        (inode, "three".to_owned())
    );
    fs::hard_link(tree.path("/etc/f"), tree.path("/etc/other")).unwrap();
    let ran = tree.apply(&with("four"));
    assert!(ran.cause("f").contains("has another name too"), "{}", ran.cause("f"));
}

#[test]
fn through_a_link_the_file_behind_it_is_written_when_that_is_declared() {
    let tree = Tree::new();
    tree.write("/run/real", "the machine's");
    fs::create_dir_all(tree.path("/etc")).unwrap();
    symlink("../run/real", tree.path("/etc/f")).unwrap();
    let with = |content: &str| json!([{"id": "f", "type": "file", "path": "/etc/f", "content": content, "through-link": true}]);
    assert_eq!(tree.apply(&with("ours")).words(), ["f updated"]);
    assert_eq!(tree.read("/run/real"), "ours");
    assert_eq!(fs::read_link(tree.path("/etc/f")).unwrap().to_str(), Some("../run/real"));
    assert_eq!(tree.apply(&with("ours")).words(), ["f unchanged"]);
    assert_eq!(tree.apply(&json!([])).words(), ["f removed"]);
    assert_eq!(tree.read("/run/real"), "the machine's");
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let tree = Tree::new();
    tree.write("/run/passwd", "the machine's");
    fs::create_dir_all(tree.path("/etc")).unwrap();
    symlink("../run/passwd", tree.path("/etc/f")).unwrap();
    let is_root = std::os::unix::fs::lchown(tree.path("/etc/f"), Some(12_345), None).is_ok();
    let ran = tree.apply(
        &json!([{"id": "f", "type": "file", "path": "/etc/f", "content": "ours", "through-link": true}]),
    );
    if is_root {
        assert!(
            ran.err.contains("is a link of the user 12345: only a link of root is followed"),
            "{}",
            ran.err
        );
        assert_eq!((ran.code, tree.read("/run/passwd")), (3, "the machine's".to_owned()));
    } else {
        // Who is not root sets no owner and has none to trust.
        assert_eq!((ran.code, tree.read("/run/passwd")), (0, "ours".to_owned()));
    }
}

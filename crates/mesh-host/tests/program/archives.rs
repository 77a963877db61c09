//! Archives: what is unpacked, mended, exchanged, kept, and refused.

use crate::kills::is_killed;
use crate::tree::{Ran, Tree};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A tar archive of what `script` makes in an empty folder.
fn tar(script: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", script]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packed =
        Command::new("tar").args(flags).args(["-cf", "-", "."]).current_dir(folder.path()).output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    packed.stdout
}

/// A tar archive of one entry with a name and type that no tool would write.
fn evil(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, link) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
    }
    bytes.extend([0; 1024]);
    bytes
}

fn digest(bytes: &[u8]) -> String {
    mesh_model::digest::Digest::of(bytes).to_string().trim_start_matches("sha256:").to_owned()
}

fn archive(bytes: &[u8]) -> Value {
    json!([{"id": "app", "type": "archive", "path": "/opt/app", "bytes": BASE64.encode(bytes), "sha256": digest(bytes)}])
}

fn apply(tree: &Tree, bytes: &[u8]) -> Ran {
    tree.apply(&archive(bytes))
}

const APP: &str = "mkdir bin lib; echo tool >bin/tool; chmod 755 bin/tool; echo one >lib/a; ln -s ../bin/tool lib/tool; ln lib/a lib/b";

#[test]
fn h89_every_form_is_unpacked_mended_exchanged_and_removed() {
    for flags in [&[][..], &["--gzip"], &["--zstd"]] {
        let tree = Tree::new();
        let first = tar(APP, flags);
        assert_eq!(apply(&tree, &first).words(), ["app created"], "{flags:?}");
        assert_eq!((tree.read("/opt/app/lib/b"), tree.mode("/opt/app/bin/tool")), ("one\n".into(), 0o755));
        assert_eq!(fs::read_link(tree.path("/opt/app/lib/tool")).unwrap(), Path::new("../bin/tool"));
        assert_eq!(apply(&tree, &first).words(), ["app unchanged"]);
        // H89: the same names with other bytes, and an empty directory, are not taken for unpacked.
        tree.write("/opt/app/lib/a", "two\n");
        let again = apply(&tree, &first);
        assert_eq!((again.words(), again.cause("app")), (vec!["app corrected".into()], "content".into()));
        assert_eq!(tree.read("/opt/app/lib/a"), "one\n");
        fs::remove_dir_all(tree.path("/opt/app")).unwrap();
        fs::create_dir(tree.path("/opt/app")).unwrap();
        assert_eq!(apply(&tree, &first).words(), ["app corrected"]);
        assert_eq!(tree.read("/opt/app/bin/tool"), "tool\n");

        let second = tar("mkdir share; echo new >share/x", flags);
        assert_eq!(apply(&tree, &second).words(), ["app updated"]);
        assert!(tree.exists("/opt/app/share/x") && !tree.exists("/opt/app/bin"));
        assert_eq!(tree.apply(&json!([])).words(), ["app removed"]);
        assert!(!tree.exists("/opt/app"));
        let left: Vec<_> = fs::read_dir(tree.path("/opt")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn what_a_person_put_there_refuses_the_exchange_and_stays() {
    let tree = Tree::new();
    let first = tar(APP, &[]);
    apply(&tree, &first);
    tree.write("/opt/app/notes", "a person's");
    assert_eq!(apply(&tree, &first).words(), ["app unchanged"], "beside what stands it does no harm");
    let second = apply(&tree, &tar("echo new >x", &[]));
    assert!(second.code == 3 && second.cause("app").contains("notes"), "{}", second.cause("app"));
    assert_eq!(
        (tree.read("/opt/app/notes"), tree.read("/opt/app/lib/a")),
        ("a person's".into(), "one\n".into())
    );
    tree.write("/opt/app/bin/tool", "by hand");
    let gone = tree.apply(&json!([]));
    assert_eq!(gone.words(), ["app kept"]);
    assert!(!tree.exists("/opt/app/lib") && tree.read("/opt/app/bin/tool") == "by hand");
    // Killed after a removal and before the record went: the list is gone, and what a person changed is there.
    let tree = Tree::new();
    apply(&tree, &first);
    tree.write("/opt/app/bin/tool", "by hand");
    fs::remove_dir_all(tree.path("/var/lib/mesh-host/archives")).unwrap();
    assert_eq!(tree.apply(&json!([])).words(), ["app kept"]);
    assert_eq!(tree.read("/opt/app/bin/tool"), "by hand");
    // A directory that another program filled is never taken.
    let tree = Tree::new();
    tree.write("/opt/app/notes", "a person's");
    assert_eq!(apply(&tree, &first).words(), ["app failed"]);
    assert_eq!(tree.read("/opt/app/notes"), "a person's");
}

#[test]
fn what_a_person_puts_there_after_a_kill_refuses_the_exchange_too() {
    let (first, second) = (tar("echo one >a", &[]), tar("echo two >a; echo new >b", &[]));
    let bundle = json!({"bundle": "test", "resources": archive(&second)});
    let mut exchanged = [false; 2];
    for (name, number) in
        ["renameat2", "rename"].iter().flat_map(|name| (1..8).map(move |number| (name, number)))
    {
        let [undeclared, tree] = [Tree::new(), Tree::new()].map(|tree| {
            apply(&tree, &first);
            is_killed(&tree, &bundle, name, number).then_some(tree)
        });
        let (Some(undeclared), Some(tree)) = (undeclared, tree) else { continue };
        assert_eq!(undeclared.apply(&json!([])).words(), ["app removed"], "killed at {name} {number}");
        let is_exchanged = tree.read("/opt/app/a") == "two\n";
        exchanged[usize::from(is_exchanged)] = true;
        if !is_exchanged {
            tree.write("/opt/app/b", "a person's");
            let ran = apply(&tree, &second);
            assert!(
                ran.code == 3 && ran.cause("app").contains("b is in"),
                "killed at {name} {number}: {}",
                ran.out
            );
            assert_eq!(tree.read("/opt/app/b"), "a person's", "killed at {name} {number}");
            fs::remove_file(tree.path("/opt/app/b")).unwrap();
        }
        assert_eq!(apply(&tree, &second).code, 0, "killed at {name} {number}");
        // What was in place stays known when a person changes it.
        tree.write("/opt/app/b", "by hand");
        assert_eq!(apply(&tree, &second).words(), ["app corrected"], "killed at {name} {number}");
        assert_eq!(tree.apply(&json!([])).words(), ["app removed"]);
        let lists = fs::read_dir(tree.path("/var/lib/mesh-host/archives")).unwrap();
        assert_eq!(lists.count(), 0, "killed at {name} {number}");
    }
    assert_eq!(exchanged, [true; 2], "not killed both before and after the exchange");
}

#[test]
fn h87_nothing_is_written_or_linked_outside() {
    use tar::EntryType::{Char, Directory, Fifo, Link, Regular, Symlink};
    let cases: [(&str, Vec<u8>); 11] = [
        ("absolute", evil(&[("/etc/evil", Regular, "")])),
        ("..", evil(&[("a/../../evil", Regular, "")])),
        ("through a link", evil(&[("a", Symlink, "b"), ("b", Directory, ""), ("a/evil", Regular, "")])),
        ("a link out", evil(&[("a", Symlink, "../evil")])),
        ("an absolute link", evil(&[("a", Symlink, "/etc/passwd")])),
        ("a link out through a link", evil(&[("d/a", Symlink, "x/../../evil")])),
        ("a hard link out", evil(&[("a", Link, "../../etc/passwd")])),
        ("a hard link to nothing", evil(&[("a", Link, "b")])),
        ("a device", evil(&[("a", Char, "")])),
        ("a FIFO", evil(&[("a", Fifo, "")])),
        ("twice", evil(&[("a", Regular, ""), ("a", Regular, "")])),
    ];
    for (what, bytes) in cases {
        let tree = Tree::new();
        tree.write("/etc/keep", "x");
        tree.apply(&json!([]));
        let before = tree.seen();
        let ran = apply(&tree, &bytes);
        assert_eq!((ran.code, ran.words()), (3, vec!["app failed".to_owned()]), "{what}: {}", ran.out);
        assert_eq!(tree.seen(), before, "{what}: {}", ran.cause("app"));
    }
}

#[test]
fn an_archive_that_is_another_one_or_too_large_is_refused() {
    let tree = Tree::new();
    let bytes = tar("echo a >a", &[]);
    let other = json!([{"id": "app", "type": "archive", "path": "/opt/app", "bytes": BASE64.encode(&bytes), "sha256": "0".repeat(64)}]);
    let ran = tree.apply(&other);
    assert!(ran.code == 3 && ran.cause("app").contains("its digest is sha256:"), "{}", ran.cause("app"));
    let bomb = tar("head -c 64M /dev/zero >a", &["--gzip"]);
    let ran = apply(&tree, &bomb);
    assert!(ran.code == 3 && ran.cause("app").contains("200 times"), "{}", ran.cause("app"));
    let setuid = tar("echo a >a; chmod 4755 a", &[]);
    assert!(apply(&tree, &setuid).cause("app").contains("setuid"));
    assert!(!tree.exists("/opt/app"));
}

#[test]
fn a_file_of_the_machine_is_unpacked_without_its_first_folders() {
    let tree = Tree::new();
    let bytes = tar("mkdir -p app-1.2/bin; echo a >app-1.2/bin/a; chmod 700 app-1.2/bin", &["--gzip"]);
    fs::create_dir_all(tree.path("/srv")).unwrap();
    fs::write(tree.path("/srv/app.tar.gz"), &bytes).unwrap();
    let resources = json!([{"id": "app", "type": "archive", "path": "/opt/app", "source": "/srv/app.tar.gz",
        "sha256": digest(&bytes), "strip": 1}]);
    assert_eq!(tree.apply(&resources).words(), ["app created"]);
    assert_eq!((tree.read("/opt/app/bin/a"), tree.mode("/opt/app/bin")), ("a\n".into(), 0o700));
    fs::set_permissions(tree.path("/opt/app/bin"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(tree.apply(&resources).words(), ["app corrected"]);
    // The archive itself is needed only to unpack.
    fs::remove_file(tree.path("/srv/app.tar.gz")).unwrap();
    assert_eq!(tree.apply(&resources).words(), ["app unchanged"]);
    fs::remove_file(tree.path("/opt/app/bin/a")).unwrap();
    let gone = tree.apply(&resources);
    assert!(gone.code == 3 && gone.cause("app").contains("is not there"), "{}", gone.cause("app"));
}

#[test]
fn what_is_unpacked_is_what_the_digest_was_taken_of() {
    let tree = Tree::new();
    let (declared, other) = (tar("echo declared >a", &[]), tar("echo replaced >a", &[]));
    assert_eq!(declared.len(), other.len());
    fs::create_dir_all(tree.path("/srv")).unwrap();
    fs::write(tree.path("/srv/app.tar"), &declared).unwrap();
    fs::create_dir_all(tree.path("/opt")).unwrap();
    let file = tree.bundle(&json!({"bundle": "test", "resources": [
        {"id": "app", "type": "archive", "path": "/opt/app", "source": "/srv/app.tar", "sha256": digest(&declared)}]}));
    // The digest is known by the time at which the new directory is made; the program is slow just then.
    let mut slow = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdirat", "-e"])
        .arg("inject=mkdirat:delay_exit=3000000:when=1")
        .arg(crate::tree::program())
        .args(["apply", "--root"])
        .arg(tree.root())
        .arg(&file)
        .spawn()
        .unwrap();
    let is_staged = |entry: std::io::Result<fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with(".mesh-host-")
    };
    crate::mesh::until("the archive is being unpacked", || {
        fs::read_dir(tree.path("/opt")).unwrap().any(is_staged)
    });
    fs::write(tree.path("/srv/app.tar"), &other).unwrap();
    assert!(slow.wait().unwrap().success());
    assert_eq!(tree.read("/opt/app/a"), "declared\n");
}

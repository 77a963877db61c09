//! Joining with the real controller: its token on the standard input, and then every right that a node has is tried.

#[path = "../../mesh-controller/tests/support/mod.rs"]
mod support;

use mesh_daemon::exit::Exit;
use mesh_provisioner_client::site::Site;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Mesh, WAIT};

const CLIENT: &str = env!("CARGO_BIN_EXE_mesh-provisioner-client");

/// The host's program, built for this test.
fn host_program() -> PathBuf {
    let built = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "mesh-host"]).status();
    assert!(built.is_ok_and(|status| status.success()), "mesh-host cannot be built");
    Path::new(CLIENT).with_file_name("mesh-host")
}

fn client(root: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(CLIENT)
        .args(arguments)
        .arg("--root")
        .arg(root)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_machine_joins_and_has_the_rights_of_a_node() {
    let host = host_program();
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let (token, folder) = (mesh.token("attic"), tempfile::tempdir().unwrap());
    let (root, word) = (folder.path(), token.to_word());

    let joined = client(root, &["join", "-"], &word);
    assert!(joined.status.success(), "{joined:?}");
    let site = Site::new(Some(root));
    let settings = site.joined().unwrap();
    assert!(text(&joined.stdout).starts_with(&format!("joined the mesh {} as attic\n", settings.mesh)));
    let seed = fs::read_to_string(site.seed_path()).unwrap();
    for secret in [&word[6..], seed.trim(), token.key.expose(), token.joiner.expose()] {
        assert!(!text(&joined.stdout).contains(secret) && !text(&joined.stderr).contains(secret));
    }

    // J2, J5: with the same keys it is welcome again, and nothing changes.
    let before = fs::read(site.joined_path()).unwrap();
    let again = client(root, &["join", "-"], &word);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(fs::read(site.joined_path()).unwrap(), before);
    // J1: another machine is not, and nothing is left of its try but its own key.
    let other = tempfile::tempdir().unwrap();
    let refused = client(other.path(), &["join", "-"], &word);
    assert_eq!(refused.status.code(), Some(i32::from(Exit::Failed.code())), "{refused:?}");
    assert!(text(&refused.stderr).contains("409"), "{refused:?}");
    assert!(!Site::new(Some(other.path())).joined_path().exists());

    // Every bucket can be read, the inbox subscribed, the host asked.
    let _host = mesh_testing::process::Process::start(
        "mesh-host",
        Command::new(host).arg("serve").arg("--root").arg(root),
    );
    mesh_testing::wait::until("the host's socket", WAIT, || {
        if site.socket().exists() { Ok(()) } else { Err("none".to_owned()) }
    });
    let check = client(root, &["check"], "");
    assert!(check.status.success(), "{}", text(&check.stdout));
    assert_eq!(serving.stop(), Exit::Done);
}

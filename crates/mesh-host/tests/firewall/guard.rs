//! The guard of an adopted node.

use crate::mesh::{Mesh, until};
use crate::{Lab, say};
use mesh_host::session::{self, How, Input, Trouble};
use mesh_host::site::Site;
use mesh_model::host_api::Request;
use mesh_model::json::Read as _;
use mesh_model::report::{Outcome, Word};
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Applies a declaration of an adopted node, or of one that is adopted no longer.
fn declare(mesh: &Mesh, sequence: u64, guard: Option<&str>) -> Vec<Outcome> {
    let adoption = guard.map(|from| {
        json!({"taken": [], "resources": [
            {"id": "adoption.guard-web", "type": "opening", "port": 8080, "from": [from]}]})
    });
    let request = mesh.request_with(&json!({"sequence": sequence, "adoption": adoption}), &[]).to_string();
    let Ok(Request::Apply(apply)) = Request::from_json_bytes(request.as_bytes()) else { panic!("{request}") };
    loop {
        match session::apply(
            &Site::beside(mesh.tree.root()),
            Input::Mesh(apply.clone()),
            How::Apply,
            &mut |_, _| {},
        ) {
            Err(Trouble::Locked) => std::thread::yield_now(),
            other => return other.unwrap().outcomes,
        }
    }
}

/// A docker of this test, with its own rules in this network.
struct Docker(Child, String);

impl Docker {
    fn start(folder: &Path) -> Self {
        let path = |name: &str| folder.join(name).display().to_string();
        let socket = format!("unix://{}", path("s"));
        let daemon = Command::new("dockerd")
            .args(["--data-root", &path("data"), "--exec-root", &path("exec"), "--pidfile", &path("pid")])
            .args(["--host", &socket, "--storage-driver", "vfs"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dockerd is not here: install docker.io");
        let docker = Self(daemon, socket);
        until("docker answers", || {
            docker
                .command(&["version"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
        });
        docker
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg("--host").arg(&self.1).args(words);
        command
    }

    fn say(&self, words: &[&str]) {
        let ran = self.command(words).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.command(&["rm", "--force", "web"]).output();
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Two machines beside this one, 192.0.2.9 of the mesh and 192.0.2.66 outside of it.
const OTHERS: &str = "ip link add near type veth peer name far
    ip netns add others; ip link set far netns others
    ip addr add 192.0.2.1/24 dev near; ip link set near up
    ip -n others addr add 192.0.2.9/24 dev far; ip -n others addr add 192.0.2.66/24 dev far
    ip -n others link set far up";

/// Whether the published port answers to this address.
fn answers(from: &str) -> bool {
    let script = "use IO::Socket::INET; exit !IO::Socket::INET->new(PeerAddr => '192.0.2.1', PeerPort => 8080, LocalAddr => $ARGV[0], Timeout => 2)";
    let status = Command::new("ip").args(["netns", "exec", "others", "perl", "-e", script, from]).status();
    status.unwrap().success()
}

#[test]
fn h94_a_guard_guards_the_ports_that_containers_publish() {
    let lab = Lab::new();
    say(&["sh", "-ec", OTHERS]);
    let docker = Docker::start(lab.0.path());
    let image =
        "mkdir -p image/bin www; cp $(command -v busybox) image/bin/busybox; tar -C image -cf image.tar .";
    say(&["sh", "-ec", &format!("cd {}; {image}", lab.0.path().display())]);
    docker.say(&["import", &lab.0.path().join("image.tar").display().to_string(), "lab:1"]);
    docker.say(&[
        "run",
        "--detach",
        "--name",
        "web",
        "--publish",
        "8080:80",
        "lab:1",
        "/bin/busybox",
        "httpd",
        "-f",
        "-p",
        "80",
    ]);
    until("the container answers", || answers("192.0.2.66"));
    let mesh = Mesh::new();
    let others = say(&["nft", "list", "table", "ip", "nat"]);
    let outcomes = declare(&mesh, 1, Some("192.0.2.9"));
    assert_eq!(outcomes[0].word, Word::Created, "{outcomes:?}");
    assert!(answers("192.0.2.9"), "from the mesh");
    assert!(!answers("192.0.2.66"), "from outside");
    assert_eq!(declare(&mesh, 1, Some("192.0.2.9"))[0].word, Word::Unchanged);
    session::confirm(&Site::beside(mesh.tree.root()), 1).unwrap();
    // Another place is let in, and no longer the one before.
    assert_eq!(declare(&mesh, 2, Some("192.0.2.66"))[0].word, Word::Updated);
    assert!(answers("192.0.2.66") && !answers("192.0.2.9"));
    session::confirm(&Site::beside(mesh.tree.root()), 2).unwrap();
    // The guard comes down: what it was before.
    assert_eq!(declare(&mesh, 3, None)[0].word, Word::Removed);
    assert!(answers("192.0.2.9") && answers("192.0.2.66"));
    session::confirm(&Site::beside(mesh.tree.root()), 3).unwrap();
    assert_eq!(strip(&say(&["nft", "list", "table", "ip", "nat"])), strip(&others));
    say(&["ip", "netns", "del", "others"]);
}

/// Without the counters, which count.
fn strip(rules: &str) -> String {
    let words = rules.split_whitespace();
    words.filter(|word| word.parse::<u64>().is_err()).collect::<Vec<_>>().join(" ")
}

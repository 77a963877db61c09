//! Cases K32, K49 and K50: who may answer for the vault, a host that misbehaves, and a state folder that is full.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_model::host_api::{Line, Request};
use mesh_model::json::Read as _;
use mesh_model::report::{ModuleReport, ModuleState, Outcome, Report, Reported, Word};
use mesh_model::signed::PayloadType;
use mesh_testing::accounts;
use mesh_testing::client::Unanswered;
use mesh_testing::wait;

use super::node::{APPLIED, Mesh, NEEDS, Node, REPORTS, SOON};
use super::{plain, state};

/// Only the vault receives the requests to it, and only the node receives the responses.
#[test]
fn k32_another_node_can_neither_answer_nor_listen() {
    let mesh = Mesh::start();
    let other = mesh.server.client(&accounts::node("cellar"));
    for subject in [
        "mesh-vault.secret",
        "mesh-vault.consumers",
        "mesh-vault.>",
        "_INBOX_mesh.node.attic.>",
        "_INBOX_mesh.>",
        ">",
    ] {
        match other.subscribe(subject, None).next(SOON) {
            Err(Unanswered::Denied(words)) => assert!(words.contains(subject), "{words}"),
            heard => panic!("{subject}: {heard:?}"),
        }
    }
    // A word to the inbox of another node is not passed on either.
    match other.request("_INBOX_mesh.node.attic.1", "{}", SOON) {
        Err(Unanswered::Denied(_)) => {}
        heard => panic!("{heard:?}"),
    }
}

/// What the host does with an apply.
#[derive(Debug, Clone, Copy)]
enum Does {
    HangUp,
    Nonsense,
    Refuse,
    FailAtLength,
    Apply,
}

/// A host that does the same with every apply until it is told otherwise.
fn host(node: &Node, mesh: &Mesh, does: &Arc<Mutex<Does>>) {
    let path = node.root().join("run/mesh-host/host.sock");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    let (does, key) = (Arc::clone(does), mesh.key());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let Ok(Request::Apply(apply)) = Request::from_json_bytes(line.as_bytes()) else {
                stream.write_all(b"{\"done\":{}}\n").unwrap();
                continue;
            };
            let does = *does.lock().unwrap();
            let declaration: mesh_model::declaration::Declaration =
                apply.declaration.open(PayloadType::Declaration, &key).unwrap();
            let mut report = Report::new(declaration.sequence, 1);
            let failed = matches!(does, Does::FailAtLength);
            for part in &declaration.modules {
                let state = if failed { ModuleState::Failed } else { ModuleState::Applied };
                let why = if failed { "notes.run failed".to_owned() } else { String::new() };
                let module =
                    ModuleReport { state, why, assignment: part.assignment, resources: 1, changed: 1 };
                report.modules.insert(part.module.clone(), module);
            }
            let mut lines = Vec::new();
            match does {
                Does::HangUp | Does::Apply => {}
                Does::Nonsense => lines.extend(b"\x00\xff{\n"),
                Does::Refuse => {
                    lines.extend(b"{\"error\":{\"code\":500,\"message\":\"the disk is full\"}}\n");
                }
                Does::FailAtLength => {
                    let text = r#"{"module":"notes","id":"notes.run","type":"action","target":"/bin/false","word":"failed","ms":1}"#;
                    let mut outcome: Outcome = serde_json::from_str(text).unwrap();
                    assert_eq!(outcome.word, Word::Failed);
                    outcome.cause = "it exits with 127: ".to_owned() + &"x".repeat(10 << 20);
                    report.outcomes.push(outcome.clone());
                    report.first_failure = Some(outcome.clone());
                    lines.extend(serde_json::to_vec(&Line::Outcome(Box::new(outcome))).unwrap());
                    lines.push(b'\n');
                }
            }
            if matches!(does, Does::FailAtLength | Does::Apply) {
                let reported = Line::Report(Reported::Report(Box::new(report)));
                lines.extend(serde_json::to_vec(&reported).unwrap());
                lines.push(b'\n');
            }
            // A client that was killed does not listen.
            let _ = stream.write_all(&lines);
        }
    });
}

/// The host hangs up, says nonsense, refuses, or fails with ten megabytes of words: the client lives, says what it was in a
/// short line, claims nothing, and goes on as soon as there is something new.
#[test]
fn k49_whatever_the_host_does_the_client_lives() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    let does = Arc::new(Mutex::new(Does::HangUp));
    host(&node, &mesh, &does);
    mesh.push(&[plain("notes", "0")]);
    node.start_client();
    let client = node.processes();
    let said = |words: &str| {
        wait::until(words, SOON, || if node.logs().contains(words) { Ok(()) } else { Err(node.logs()) });
    };
    said("hung up without an end of its answer");
    for (turn, (next, words)) in [
        (Does::Nonsense, "the host's answer cannot be read"),
        (Does::Refuse, "500 the disk is full"),
        (Does::FailAtLength, "notes was not applied, failed: notes.run failed"),
    ]
    .into_iter()
    .enumerate()
    {
        *does.lock().unwrap() = next;
        mesh.push(&[plain("notes", &format!("turn {turn}"))]);
        said(words);
    }
    node.until_key(&mesh, REPORTS, "attic", |value| {
        let value = value.unwrap_or_default();
        let cause = value["outcomes"][0]["cause"].as_str().unwrap_or_default();
        value["modules"]["notes"]["state"] == "failed"
            && cause.len() < 4096
            && cause.contains("exits with 127")
    });
    node.until_key(&mesh, NEEDS, "attic.notes.config.word", |value| state(value.as_ref()) == "filled");
    node.until_key(&mesh, APPLIED, "attic.notes", |value| value.is_none());
    assert!(node.logs().len() < 64 << 10, "{} bytes of log", node.logs().len());
    *does.lock().unwrap() = Does::Apply;
    mesh.push(&[plain("notes", "last")]);
    node.until_key(&mesh, APPLIED, "attic.notes", |value| value.is_some_and(|value| value["sequence"] == 5));
    assert_eq!(node.processes(), client);
}

/// The disk of the state folder is full: nothing is handed over, and what was kept before stays whole.
#[test]
fn k50_a_full_disk_leaves_the_state_of_before() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    mesh.push(&[plain("notes", "one")]);
    node.start_host();
    node.start_client();
    node.until_file("/srv/notes", b"one\n");
    node.until_key(&mesh, APPLIED, "attic.notes", |value| value.is_some());
    node.until_ready();
    node.kill_client();
    let journal = || node.read("/var/lib/mesh-provisioner-client/journal").unwrap();
    let before = journal();
    mesh.push(&[plain("notes", "two")]);
    // No file may grow: the kernel says so in place of a full disk.
    let serve = node.command(&["serve"]);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(serve.get_program());
    limited.args(serve.get_args()).env_clear();
    limited.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = limited.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (tell, told) = std::sync::mpsc::channel();
    let reader =
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    let mut log = Vec::new();
    while !log.iter().any(|line: &String| line.contains("cannot be kept, so nothing is handed over")) {
        log.push(told.recv_timeout(SOON).unwrap_or_else(|_| panic!("{log:#?}")));
    }
    // It goes on, and says so.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "{log:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert_eq!((node.read("/srv/notes").as_deref(), journal()), (Some(&b"one\n"[..]), before));
    node.start_client();
    node.until_file("/srv/notes", b"two\n");
}

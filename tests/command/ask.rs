//! `ask`: tables for people, JSON for scripts, and why there is no answer.

use crate::support::accounts::{Account, READER, SEAT, node};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use crate::support::server::Server;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::{PATIENCE, until};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

fn ask(mesh: &Mesh, arguments: &[&str]) -> Finished {
    program(&mesh.server, &READER, arguments).run()
}

fn program(server: &Server, account: &Account, arguments: &[&str]) -> Program {
    Program::new(&["ask"]).args(arguments).server(server).account(account)
}

fn loaded() -> Mesh {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", r#"{"port":8080}"#);
    tester.kv_put(NEEDS, "attic.web.licence.x", "1.50");
    tester.kv_put(NEEDS, "cellar.db.config.a=2Eb", "\u{1b}[31mred");
    tester.kv_put(NEEDS, "attic.web", "{}");
    tester.kv_put(APPLIED, "attic.web", "{}");
    tester.kv_put(COLLECT, "attic.shell=3Azsh=3Anormal.web", "[]");
    mesh
}

/// The table's cells; two spaces or more stand between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn a_page_that_is_empty_and_has_more_behind_it_is_not_called_the_whole() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    // More deleted keys than one page reads.
    for at in 0..8_200 {
        tester.kv_delete(NEEDS, format!("attic.web.port.p{at:04}"));
    }
    tester.kv_put(NEEDS, "cellar.web.port.http", "1");
    for (question, code) in [("needs", 0), ("gaps", 3)] {
        let finished = ask(&mesh, &[question]).expect_code(code);
        assert!(finished.stderr.starts_with("there is more: "), "{question}: {}", finished.stderr);
    }
    let finished = ask(&mesh, &["needs", "--all", "-o", "name"]).expect_code(0);
    assert_eq!(finished.stdout, "cellar.web.port.http\n");
    let finished = ask(&mesh, &["gaps", "--all"]).expect_code(0);
    assert!(finished.stderr.starts_with("no gaps: "), "{}", finished.stderr);
}

#[test]
fn a_table_has_a_title_a_line_for_each_entry_and_what_is_malformed_apart() {
    let mesh = loaded();
    let finished = ask(&mesh, &["needs"]).expect_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(cells(lines[0]), ["NODE", "MODULE", "KIND", "NAME", "AGE", "VALUE"]);
    let without_age = |line: &str| {
        let mut cells = cells(line);
        let age = cells.remove(4);
        assert!(age.trim_end_matches(['s', 'm']).parse::<u32>().is_ok(), "an age is one word: {line}");
        cells.join("|")
    };
    assert_eq!(without_age(lines[1]), "attic|web|licence|x|1.50");
    assert_eq!(without_age(lines[2]), r#"attic|web|port|http|{"port":8080}"#);
    assert_eq!(without_age(lines[3]), r"cellar|db|config|a.b|\u{1b}[31mred");
    assert_eq!(lines.len(), 4, "a pipe gets the entries alone");
    let notes: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(notes[0], "malformed: 2");
    assert_eq!(cells(notes[1]), ["BUCKET", "KEY", "WHY", "AGE", "DETAIL"]);
    assert_eq!(cells(notes[2])[..3], ["needs", "attic.web", "shape"]);
    let delete = "  nats kv del mesh-provisioner_needs attic.web --force";
    assert!(
        notes.contains(&delete) && !finished.stderr.contains("cellar.db.config.a=2Eb --force"),
        "{notes:#?}"
    );
    assert!(!finished.stdout.contains('\u{1b}'), "a pipe is not a terminal: {}", finished.stdout);
}

#[test]
fn each_question_has_its_columns() {
    let mesh = loaded();
    for (what, code, columns) in [
        ("registry", 0, &["KIND", "DOMAIN", "MODULE", "WHERE", "AGE"][..]),
        ("applied", 0, &["NODE", "MODULE", "AGE", "VALUE"]),
        ("collect", 0, &["NODE", "COLLECTION", "CONTRIBUTOR", "AGE", "VALUE"]),
        ("gaps", 3, &["NODE", "MODULE", "KIND", "NAME", "GAP", "WHY", "AGE"]),
        ("drift", 3, &["NODE", "MODULE", "STATE", "NEEDS", "NEEDED", "APPLIED"]),
        ("nodes", 3, &["NODE", "NEEDS", "APPLIED", "COLLECT", "MALFORMED", "WROTE", "STALE"]),
        ("collections", 3, &["NODE", "COLLECTION", "STATE", "CONTRIBUTORS", "READERS"]),
    ] {
        let finished = ask(&mesh, &[what]).expect_code(code);
        assert_eq!(cells(finished.stdout.lines().next().unwrap_or_default()), columns, "{what}");
        let has_malformed = !["registry", "applied", "collect"].contains(&what);
        assert_eq!(finished.stderr.contains("malformed: 1"), has_malformed, "{what}: {}", finished.stderr);
    }
    let plain = ask(&mesh, &[]).expect_code(0).stdout;
    assert!(plain.contains("verb mesh-vault.secret"), "without a word it is the registry: {plain}");
    let health = ask(&mesh, &["health"]).expect_code(0).stdout;
    assert!(health.contains("ready: true\n"), "{health}");
}

#[test]
fn filters_narrow_it_and_nothing_is_said_as_such() {
    let mesh = loaded();
    let narrowed = ask(&mesh, &["needs", "--node", "attic", "--kind", "port"]).expect_code(0).stdout;
    assert_eq!(narrowed.lines().filter(|line| line.starts_with("attic")).count(), 1, "{narrowed}");
    let nobody = ask(&mesh, &["needs", "--node", "*"]).expect_code(1);
    assert_eq!(
        (nobody.stdout.as_str(), nobody.stderr.as_str()),
        ("", "the mesh has no node \"*\": there are attic, cellar\n")
    );
    let collection = ask(&mesh, &["collect", "--collection", "shell:zsh:normal"]).expect_code(0).stdout;
    assert!(collection.contains("shell:zsh:normal"), "{collection}");
}

#[test]
fn json_is_the_answer_as_it_came_one_line_a_page() {
    let mesh = loaded();
    let finished = ask(&mesh, &["needs", "--json"]).expect_code(0);
    assert_eq!(finished.stdout.lines().count(), 1);
    let answer: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(answer["entries"].as_array().unwrap().len(), 3);
    assert!(finished.stdout.contains(r#""value":1.50,"#), "digit for digit: {}", finished.stdout);

    let pages = ask(&mesh, &["needs", "--json", "--all", "--limit", "1"]).expect_code(0).stdout;
    let keys: Vec<String> = pages
        .lines()
        .flat_map(|page| serde_json::from_str::<Value>(page).unwrap()["entries"].as_array().cloned().unwrap())
        .map(|entry| entry["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys, ["attic.web.licence.x", "attic.web.port.http", "cellar.db.config.a=2Eb"]);
}

#[test]
fn a_page_says_how_to_go_on_and_all_follows() {
    let mesh = loaded();
    let page = ask(&mesh, &["needs", "--limit", "1"]).expect_code(0).stderr;
    let next = page.lines().last().expect("a last line");
    let (said, place) = next.split_once("--after ").expect("where to go on");
    assert_eq!(said, "there is more: add --all, or go on with ");
    let rest =
        ask(&mesh, &["needs", "--limit", "1", "--after", place.trim_matches('\'')]).expect_code(0).stdout;
    assert!(rest.contains("http") && !rest.contains("licence"), "{rest}");
    let all = ask(&mesh, &["needs", "--limit", "1", "--all"]).expect_code(0).stdout;
    assert!(!all.contains("there is more"), "{all}");
    assert_eq!(
        all.lines().filter(|line| line.starts_with("attic  ") || line.starts_with("cellar ")).count(),
        3
    );
}

#[test]
fn what_is_not_ok_is_3_and_what_is_ok_is_0() {
    let mesh = Mesh::start();
    for what in ["gaps", "drift", "health"] {
        ask(&mesh, &[what]).expect_code(0);
    }
    mesh.tester().kv_put(NEEDS, "attic.web.licence.x", "1");
    for arguments in [&["gaps"][..], &["drift"], &["nodes", "--stale-after", "0s"]] {
        if arguments[0] == "nodes" {
            // It is stale once a second has passed.
            let json = || ask(&mesh, &["nodes", "--json", "--stale-after", "0"]);
            until("the node to be stale", PATIENCE, || match json() {
                stale if stale.code() == 3 => Ok(()),
                fresh => Err(fresh.stdout),
            });
        }
        ask(&mesh, arguments).expect_code(3);
        ask(&mesh, &[arguments, &["--json"]].concat()).expect_code(3);
    }
    mesh.admin().delete_bucket(crate::support::bucket::REGISTRY);
    mesh.seat.signal("HUP");
    mesh.seat.wait_for_log("registry pass failed", PATIENCE);
    let finished = ask(&mesh, &["gaps"]).expect_code(1);
    assert_eq!(finished.stdout, "");
    assert_eq!(
        finished.stderr,
        "error 503: bucket mesh-provisioner_registry does not exist: run mesh-provisioner init\n"
    );
    let json = ask(&mesh, &["gaps", "--json"]).expect_code(1);
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["error"]["code"], 503);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let value = format!("\"{}\"", "x".repeat(400));
    tester.kv_put_all(NEEDS, (0..3000).map(|at| (format!("n{at}.web.port.http"), &value)));
    for arguments in [&["needs", "--all"][..], &["needs", "--all", "--json", "--limit", "100"]] {
        let mut command = program(&mesh.server, &READER, arguments).command();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        let mut first = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
        assert!(!first.is_empty());
        let output = child.wait_with_output().expect("its end");
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    }
    // A table is shown when all pages are there, three of them; JSON page by page, thirty to its end.
    let asked = tester.ask(&json!({"what": "health"})).body()["health"]["counters"]["requests"].as_u64();
    assert!(asked < Some(20), "{asked:?} requests");
}

#[test]
fn a_full_disk_is_said() {
    let mesh = Mesh::start();
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = program(&mesh.server, &READER, &["registry"]).command().stdout(full).output().expect("it");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("cannot write to the standard output: "), "{said}");
}

#[test]
fn nobody_who_answers_is_69_with_the_next_step() {
    let server = Server::start();
    let finished = program(&server, &READER, &[]).run().expect_code(69);
    assert_eq!(finished.stdout, "");
    assert_eq!(
        finished.stderr,
        "mesh-provisioner.provisioning: nobody holds the seat: start mesh-provisioner serve\n"
    );
}

#[test]
fn a_seat_that_hangs_is_69_in_time() {
    let mesh = Mesh::start();
    mesh.seat.freeze();
    let begun = Instant::now();
    let finished = ask(&mesh, &[]).expect_code(69);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(finished.stderr.contains("no response came in time: check"), "{}", finished.stderr);
    mesh.seat.thaw();
}

#[test]
fn what_is_denied_is_77_and_named() {
    let mesh = Mesh::start();
    let nobody = Program::new(&["ask"]).server(&mesh.server).run().expect_code(77);
    assert!(
        nobody.stderr.starts_with("the bus requires credentials, and none were given: set NATS_USER"),
        "{}",
        nobody.stderr
    );
    let wrong = Account::new("reader", "wrong");
    let finished = program(&mesh.server, &wrong, &[]).run().expect_code(77);
    assert!(finished.stderr.contains("refuses the credentials"), "{}", finished.stderr);

    // A node's account has an inbox of its own.
    let attic = program(&mesh.server, &node("attic"), &[]).run().expect_code(77);
    assert!(attic.stderr.contains("_INBOX.") && attic.stderr.contains("--inbox-prefix"), "{}", attic.stderr);
    program(&mesh.server, &node("attic"), &["--inbox-prefix", "_INBOX_mesh.node.attic"]).run().expect_code(0);
    // The seat's account has no right to ask.
    let seat =
        program(&mesh.server, &SEAT, &["--inbox-prefix", "_INBOX_mesh.provisioner"]).run().expect_code(77);
    assert!(
        seat.stderr.contains("\"mesh-provisioner.provisioning\"") && seat.stderr.contains("permissions"),
        "{}",
        seat.stderr
    );
}

#[test]
fn a_bus_that_is_not_there_is_69_whatever_it_is_called() {
    let long = format!("nats://credentials-{}:4222", "x".repeat(60));
    let refused = "refused: nothing listens there: look whether its nats-server runs";
    for (server, said) in [("nats://127.0.0.1:9", refused), (&long, "cannot be looked up")] {
        let next = "(--server names another)";
        let finished = Program::new(&["ask", "--server", server]).run().expect_code(69);
        assert!(
            finished.stderr.starts_with("the bus cannot be reached: ")
                && finished.stderr.contains(said)
                && finished.stderr.contains(next),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_silent_server_is_given_up_after_3_seconds_and_the_next_is_tried() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let begun = Instant::now();
    let finished = Program::new(&["ask", "--server", &format!("nats://{address}")]).run().expect_code(69);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(6), "{took:?}");
    assert!(finished.stderr.contains("sent nothing in 3 s"), "{}", finished.stderr);

    let mesh = Mesh::start();
    let servers = format!("nats://{address},{}", mesh.server.client_url());
    Program::new(&["ask", "--server", &servers]).account(&READER).run().expect_code(0);
}

#[test]
fn a_server_that_greets_and_then_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let greeting = concat!(
        r#"INFO {"server_id":"S","server_name":"s","version":"2.10.0","proto":1,"go":"go","host":"h","#,
        r#""port":4222,"headers":true,"max_payload":1048576,"client_id":1}"#,
        "\r\n"
    );
    thread::spawn(move || {
        let mut kept = Vec::new();
        for connection in listener.incoming().flatten() {
            (&connection).write_all(greeting.as_bytes()).ok();
            kept.push(connection);
        }
    });
    let begun = Instant::now();
    let finished = Program::new(&["ask", "--server", &format!("nats://{address}")]).run().expect_code(69);
    assert!(begun.elapsed() < Duration::from_secs(13), "{:?}", begun.elapsed());
    assert!(finished.stderr.starts_with("the bus cannot be reached: "), "{}", finished.stderr);
}

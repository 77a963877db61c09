//! `check`: every right, every bucket, and where the registry leads.

use crate::support::accounts::{ADMINISTRATOR, Account, SEAT, TESTER};
use crate::support::bucket::{APPLIED, NEEDS, REGISTRY};
use crate::support::mesh::{Mesh, init};
use crate::support::program::{Finished, Program};
use crate::support::server::Server;
use crate::support::setup::{Right, Setup};
use crate::support::verb::AsksTheSeat;
use crate::support::wait::PATIENCE;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn check(server: &Server, account: &Account) -> Finished {
    Program::new(&["check"]).server(server).account(account).run_within(PATIENCE * 2)
}

fn lines<'a>(finished: &'a Finished, verdict: &str) -> Vec<&'a str> {
    let starts = |line: &&str| line.split(' ').next() == Some(verdict);
    finished.stdout.lines().filter(starts).map(|line| &line["unknown  ".len()..]).collect()
}

#[test]
fn a_mesh_in_order_has_nothing_wrong_and_is_left_as_it_was() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let before = tester.last_sequence(REGISTRY);
    let finished = check(&mesh.server, &SEAT).expect_code(0);
    assert_eq!(finished.stderr, "");
    assert_eq!(lines(&finished, "wrong"), [""; 0]);
    let ok = lines(&finished, "ok");
    assert!(
        ok[0].starts_with("connection: nats://127.0.0.1:") || ok[0].starts_with("connection: 127.0.0.1:"),
        "{}",
        ok[0]
    );
    let tried = |list: &str| ok.iter().filter(|line| line.starts_with(list)).count();
    assert_eq!(
        (tried("subscribe "), tried("publish "), tried("bucket ")),
        (10, 16, 4),
        "{}",
        finished.stdout
    );
    assert!(ok.contains(&"collected, shell, environment, contribution in bucket mesh-provisioner_collect"));
    let mut unknown = lines(&finished, "unknown");
    let verb = unknown.remove(0);
    assert!(
        verb.starts_with("subscribe mesh-provisioner.provisioning q: the seat ")
            && verb.contains("ask health"),
        "{verb}"
    );
    assert_eq!(
        unknown,
        [
            "config in bucket mesh-controller_settings: this account may not look",
            "secret by verb mesh-vault.secret: this account may not ask",
            "consumers by verb mesh-vault.consumers: this account may not ask",
            "bound in bucket <provider-module>_bound: each provider module has its own",
            "dir, access, port, seat, machine in bucket mesh-controller_assignments: this account may not look",
        ]
    );
    assert_eq!(tester.last_sequence(REGISTRY), before, "nothing was written");
    let health = tester.ask(&json!({"what": "health"})).good();
    let counters = &health.body()["health"]["counters"];
    assert_eq!((&counters["without_reply"], &counters["refused_replies"]), (&json!(0), &json!(0)));
    assert_eq!(health.body()["health"]["other_seats"], json!([]), "a check is not a seat");
}

#[test]
fn it_ends_with_a_summary_and_names_the_account_it_is_meant_for() {
    let mesh = Mesh::start();
    let seat = check(&mesh.server, &SEAT).expect_code(0);
    assert!(seat.stdout.contains(", as the user \"seat\"\n"), "{}", seat.stdout);
    let last = seat.stdout.lines().last().expect("a last line");
    assert!(last.contains(" ok, 0 wrong, ") && !last.contains("another account"), "{last}");

    let other = check(&mesh.server, &ADMINISTRATOR).expect_code(1);
    let last = other.stdout.lines().last().expect("a last line");
    let said = " rights: is it another account? check is meant for the seat's own";
    assert!(
        last.contains("the user \"administrator\" lacks 14 of the seat's ") && last.ends_with(said),
        "{last}"
    );

    let program = Program::new(&["check", "--json"]).server(&mesh.server).account(&SEAT);
    let report = program.run_within(PATIENCE * 2).expect_code(0).stdout;
    let report: serde_json::Value = serde_json::from_str(&report).expect("one line of JSON");
    assert_eq!((&report["ok"], &report["account"]), (&json!(true), &json!("the user \"seat\"")));
    assert_eq!(report["lines"][0]["verdict"], "ok");
    assert!(report["lines"].as_array().expect("lines").len() > 30);
}

#[test]
fn each_right_that_is_missing_is_named_with_the_line_that_mends_it() {
    let rights = [
        (Right::Publish, "$KV.mesh-provisioner_registry.>"),
        (Right::Publish, "$JS.API.STREAM.INFO.KV_mesh-provisioner_needs"),
        (Right::Publish, "$JS.API.STREAM.MSG.GET.KV_mesh-provisioner_applied"),
        (Right::Publish, "$JS.API.STREAM.MSG.GET.KV_mesh-provisioner_collect"),
        (Right::Publish, "_R_.>"),
        (Right::Subscribe, "mesh-provisioner.provisioning q"),
        (Right::Subscribe, "$SRV.STATS.mesh-provisioner.*"),
    ];
    let setup =
        rights.iter().fold(Setup::shipped(), |setup, (right, subject)| setup.deny(&SEAT, *right, subject));
    let server = setup.start();
    init(&server);
    let finished = check(&server, &SEAT).expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(wrong.len(), rights.len(), "{}", finished.stdout);
    for (right, subject) in rights {
        let list = if right == Right::Publish { "publish" } else { "subscribe" };
        let line = wrong.iter().find(|line| line.starts_with(&format!("{list} {subject}: ")));
        let line = line.unwrap_or_else(|| panic!("no line of {subject} in {}", finished.stdout));
        assert!(
            line.contains("Permissions Violation")
                && line.ends_with(&format!("add the line \"{subject}\" to {list} of the seat's permissions")),
            "{line}"
        );
    }
    assert!(
        lines(&finished, "unknown")
            .contains(&"bucket mesh-provisioner_needs: this account may not look, see above")
    );
}

#[test]
fn without_its_inbox_the_rights_are_tried_all_the_same() {
    let server = Setup::shipped().deny(&SEAT, Right::Subscribe, "_INBOX_mesh.provisioner.>").start();
    let finished = check(&server, &SEAT).expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(wrong.len(), 1, "{}", finished.stdout);
    assert!(
        wrong[0]
            .ends_with(r#"add the line "_INBOX_mesh.provisioner.>" to subscribe of the seat's permissions"#)
    );
    assert_eq!(
        lines(&finished, "unknown"),
        [
            "subscribe mesh-provisioner.provisioning q: whether a seat runs cannot be told, see above",
            "buckets: no response can be received without the seat's inbox",
        ]
    );
}

#[test]
fn a_bucket_that_is_missing_or_takes_nothing_is_wrong() {
    let server = Server::start();
    init(&server);
    let admin = server.client(&ADMINISTRATOR);
    admin.delete_bucket(NEEDS);
    admin.delete_bucket(APPLIED);
    admin.create_bucket(APPLIED, &json!({"subjects": ["elsewhere.>"]}));
    admin.update_bucket(REGISTRY, &json!({"sealed": true}));
    let finished = check(&server, &SEAT).expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(wrong.len(), 3, "{}", finished.stdout);
    assert!(
        wrong[0].starts_with("bucket mesh-provisioner_registry: the bus refuses every write: "),
        "{}",
        wrong[0]
    );
    assert_eq!(
        wrong[1],
        "bucket mesh-provisioner_needs: bucket mesh-provisioner_needs does not exist: run mesh-provisioner init"
    );
    assert!(
        wrong[2].starts_with(
            "bucket mesh-provisioner_applied: the stream of bucket mesh-provisioner_applied is not a bucket: "
        ),
        "{}",
        wrong[2]
    );
}

#[test]
fn a24_a_bucket_that_one_write_can_empty_is_named_with_what_to_update() {
    let server = Server::start();
    init(&server);
    let admin = server.client(&ADMINISTRATOR);
    for bucket in [NEEDS, APPLIED] {
        admin.update_bucket(bucket, &json!({"allow_rollup_hdrs": true}));
    }
    let finished = check(&server, &SEAT).expect_code(0);
    let ok = lines(&finished, "ok");
    let told: Vec<&&str> = ok.iter().filter(|line| line.contains("update its stream")).collect();
    let advice = "update its stream: allow_rollup_hdrs is true, advised is false";
    assert_eq!(told, [&format!("bucket {NEEDS}: {advice}"), &format!("bucket {APPLIED}: {advice}")]);
}

#[test]
fn f01_a_stream_that_takes_the_requests_of_a_verb_is_named_and_no_answer() {
    let server = Server::start();
    init(&server);
    let tester = server.client(&TESTER);
    let stream = json!({"name": "EVERYTHING", "subjects": ["mesh-vault.secret", "mesh-provisioner.>"]});
    assert!(tester.api("STREAM.CREATE.EVERYTHING", &stream)["error"].is_null());
    let finished = check(&server, &TESTER).expect_code(1);
    let said = "the stream EVERYTHING stores requests to mesh-vault.secret and acknowledges them, so that they have no answer: take that subject out of it (nats stream edit EVERYTHING)";
    assert!(
        lines(&finished, "wrong").contains(&format!("secret by verb mesh-vault.secret: {said}").as_str()),
        "{}",
        finished.stdout
    );
    for what in ["gaps", "drift", "registry", "health"] {
        let asked = Program::new(&["ask", what]).server(&server).account(&TESTER).run().expect_code(1);
        assert_eq!(asked.stdout, "", "{what}");
        assert!(
            asked.stderr.contains("the stream EVERYTHING stores requests to"),
            "{what}: {}",
            asked.stderr
        );
    }
}

#[test]
fn a_registry_whose_writes_have_no_answer_is_wrong() {
    let server = Server::start();
    init(&server);
    server.client(&ADMINISTRATOR).update_bucket(REGISTRY, &json!({"no_ack": true}));
    let finished = check(&server, &SEAT).expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(
        wrong,
        ["bucket mesh-provisioner_registry: a write has no answer: set no_ack to false in its stream"]
    );
}

#[test]
fn an_account_that_may_look_sees_where_the_registry_leads() {
    let server = Server::start();
    init(&server);
    let tester = server.client(&TESTER);
    tester.create_bucket("mesh-controller_settings", &json!({}));
    let vault = tester.subscribe("mesh-vault.secret", None);
    let asked = thread::scope(|scope| {
        let run = scope.spawn(|| check(&server, &TESTER));
        let asked = vault.next(PATIENCE * 2).expect("the verb is asked");
        tester.publish(asked.reply.clone().expect("a reply subject"), "{}");
        (asked, run.join().expect("check"))
    });
    assert_eq!(asked.0.body, b"", "an empty request asks for no secret");
    let finished = asked.1.expect_code(1);
    let ok = lines(&finished, "ok");
    assert!(ok.contains(&"config in bucket mesh-controller_settings"), "{}", finished.stdout);
    assert!(ok.contains(&"secret by verb mesh-vault.secret"), "{}", finished.stdout);
    assert_eq!(
        lines(&finished, "wrong"),
        [
            "consumers by verb mesh-vault.consumers: nobody answers: start the module mesh-vault",
            "dir, access, port, seat, machine in bucket mesh-controller_assignments: the bucket does not exist: start the module mesh-controller, which owns it",
        ]
    );
}

#[test]
fn whether_a_seat_runs_is_told_by_its_question_who_is_there() {
    let asks = (Right::Publish, "$SRV.PING.mesh-provisioner");
    let server = Setup::shipped().deny(&SEAT, asks.0, asks.1).start();
    init(&server);
    let finished = check(&server, &SEAT).expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(wrong.len(), 1, "{}", finished.stdout);
    assert!(wrong[0].starts_with("publish $SRV.PING.mesh-provisioner: the bus says: "), "{}", wrong[0]);
    assert!(lines(&finished, "unknown").contains(
        &"subscribe mesh-provisioner.provisioning q: whether a seat runs cannot be told, see above"
    ));
}

#[test]
fn a_seat_that_is_asked_meanwhile_answers_every_request() {
    let mesh = Mesh::start();
    let done = AtomicBool::new(false);
    let answers = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let reader = mesh.reader();
            let mut answers = 0;
            while !done.load(Ordering::Relaxed) {
                reader.ask(&json!({"what": "health"})).good();
                answers += 1;
            }
            answers
        });
        for _ in 0..5 {
            check(&mesh.server, &SEAT).expect_code(0);
        }
        done.store(true, Ordering::Relaxed);
        asking.join().expect("every request has an answer")
    });
    assert!(answers > 100, "{answers}");
}

#[test]
fn a_bus_that_is_not_there_is_the_first_line() {
    let finished = Program::new(&["check", "--server", "nats://127.0.0.1:9"]).run().expect_code(1);
    let wrong = lines(&finished, "wrong");
    assert_eq!(wrong.len(), 1, "{}", finished.stdout);
    assert!(wrong[0].starts_with("connection: ") && wrong[0].contains("refused"), "{}", wrong[0]);
}

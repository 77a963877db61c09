//! What people type, and what they get when it is not quite right.

use crate::support::accounts::READER;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn run(arguments: &[&str]) -> Finished {
    Program::new(arguments).run()
}

fn on(mesh: &Mesh, arguments: &[&str]) -> Finished {
    Program::new(arguments).server(&mesh.server).account(&READER).run()
}

/// A node and a module that are as they should be, another module that was never applied, and a collection.
fn mesh() -> Mesh {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", r#"{"port":8080}"#);
    tester.kv_put(NEEDS, "attic.web.shell.zsh=3Anormal", "1");
    tester.kv_put(APPLIED, "attic.web", "{}");
    tester.kv_put(NEEDS, "cellar.db.config.x", "1");
    tester.kv_put(COLLECT, "attic.shell=3Azsh=3Anormal.web", "[]");
    mesh
}

#[test]
fn help_and_version_are_there_in_every_spelling() {
    for arguments in [&["-h"][..], &["--help"], &["help"]] {
        assert!(
            run(arguments).expect_code(0).stdout.starts_with("Usage: mesh-provisioner "),
            "{arguments:?}"
        );
    }
    for arguments in [&["help", "ask"][..], &["ask", "-h"], &["ask", "help"]] {
        assert!(
            run(arguments).expect_code(0).stdout.starts_with("Usage: mesh-provisioner ask "),
            "{arguments:?}"
        );
    }
    for arguments in [&["-V"][..], &["--version"], &["version"]] {
        assert!(run(arguments).expect_code(0).stdout.starts_with("mesh-provisioner 0."), "{arguments:?}");
    }
}

#[test]
fn the_bare_command_takes_no_seat() {
    let finished = run(&[]).expect_code(64);
    assert_eq!(
        finished.stderr,
        "no command is given: mesh-provisioner serve holds the seat\nsee mesh-provisioner --help\n"
    );
    // On a terminal it shows what there is.
    let script = format!("'{}'", env!("CARGO_BIN_EXE_mesh-provisioner"));
    let output = std::process::Command::new("script")
        .args(["-qec", &script, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .expect("script, of the package bsdutils");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("Commands:"), "{shown}");
}

#[test]
fn an_option_has_many_spellings_and_places() {
    let mesh = mesh();
    let url = mesh.server.client_url();
    let server = format!("--server={url}");
    for arguments in [
        &["ask", "needs", "--node=attic", &server][..],
        &["-s", &url, "ask", "needs", "--node", "attic"],
        &["--server", &url, "--user=reader", "ask", "needs", "--node", "attic"],
        &["--color=never", "ask", "needs", "--node", "attic", "-s", &url],
    ] {
        let program =
            Program::new(arguments).env("NATS_USER", "reader").env("NATS_PASSWORD", &READER.password);
        let stdout = program.run().expect_code(0).stdout;
        assert!(stdout.contains("8080") && !stdout.contains("cellar"), "{arguments:?}: {stdout}");
    }
    for (alias, known) in [("--tlsca", "--tls-ca"), ("--tlscert", "--tls-cert"), ("--tlskey", "--tls-key")] {
        let finished = run(&["ask", &format!("{alias}=/nowhere/x.pem")]).expect_code(78);
        assert!(finished.stderr.starts_with(&format!("{known} ")), "{}", finished.stderr);
    }
}

#[test]
fn what_was_probably_meant_is_said() {
    for (arguments, said) in [
        (&["srve"][..], "there is no command \"srve\": did you mean serve?"),
        (&["ask", "drfit"], "what: \"drfit\" is not a question: did you mean drift?"),
        (&["ask", "--nodes", "x"], "there is no option --nodes: did you mean --node?"),
        (&["ask", "--password", "x"], "there is no option --password: set NATS_PASSWORD"),
        (&["status", "-o", "json"], "there is no option -o"),
        (&["ask", "drift", "--stale-after", "1h"], "--stale-after is for nodes, not for drift"),
        (&["ask", "applied", "--kind", "port"], "--kind is for registry, needs, not for applied"),
        (&["ask", "gaps", "now"], "\"now\" is one word too many: ask takes one, what"),
        (&["ask", "drift", "--state", "curent"], "did you mean current?"),
        (&["permissions", "nod", "x"], "did you mean node?"),
        (&["why", "attic"], "why needs a module"),
        (&["why", "attic", "web", "port"], "write kind:name, such as port:http"),
    ] {
        let finished = run(arguments).expect_code(64);
        assert!(finished.stderr.contains(said), "{arguments:?}: {}", finished.stderr);
    }
}

#[test]
fn no_usage_error_shows_a_password() {
    for arguments in [
        &["serve", "nats://u:hush@h"][..],
        &["ask", "nats://u:hush@h"],
        &["ask", "gaps", "nats://u:hush@h"],
        &["nats://u:hush@h"],
        &["serve", "--every", "nats://u:hush@h"],
        &["--srver=nats://u:hush@h", "ask"],
    ] {
        let finished = run(arguments).expect_code(64);
        assert!(!format!("{finished:?}").contains("hush"), "{arguments:?}: {}", finished.stderr);
    }
}

#[test]
fn a_length_of_time_is_one_kind_everywhere() {
    let mesh = mesh();
    for time in ["3600", "90s", "30m", "1h30m", "1d"] {
        on(&mesh, &["ask", "nodes", "--stale-after", time]).expect_code(0);
    }
    for arguments in [["serve", "--every=1w"], ["ask", "--stale-after=soon"], ["status", "--watch=1y"]] {
        let said = run(&arguments).expect_code(64).stderr;
        assert!(said.contains("write 90s, 30m, 1h30m, 1d, or a number of seconds"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_filter_that_matches_nothing_is_reported_with_the_nearest_names() {
    let mesh = mesh();
    for (arguments, said) in [
        (
            &["ask", "gaps", "--node", "nosuch"][..],
            "the mesh has no node \"nosuch\": there are attic, cellar",
        ),
        (&["ask", "drift", "--node", "Attic"], "the mesh has no node \"Attic\": did you mean attic?"),
        (&["ask", "needs", "--node", "atic"], "the mesh has no node \"atic\": did you mean attic?"),
        (&["ask", "nodes", "--node", "x"], "the mesh has no node \"x\""),
        (
            &["ask", "needs", "--node", "attic", "--module", "wbe"],
            "attic has no module \"wbe\": did you mean web?",
        ),
        (&["ask", "gaps", "--module", "wbe"], "the mesh has no module \"wbe\": did you mean web?"),
        (
            &["ask", "collect", "--collection", "shell:zsh:norml"],
            "the mesh has no collection \"shell:zsh:norml\": did you mean shell:zsh:normal?",
        ),
        (&["ask", "registry", "--kind", "prt"], "the registry has no kind \"prt\": did you mean port?"),
        (&["ask", "needs", "--kind", "secret"], "needs has nothing for kind secret"),
        (&["ask", "applied", "--node", "cellar"], "applied has nothing for node cellar"),
        (&["why", "atic", "web", "port:http"], "the mesh has no node \"atic\": did you mean attic?"),
        (&["why", "attic", "webb"], "attic has no module \"webb\": did you mean web?"),
    ] {
        for json in [&[][..], &["--json"]] {
            let finished = on(&mesh, &[arguments, json].concat()).expect_code(1);
            assert!(finished.stderr.starts_with(said), "{arguments:?}: {}", finished.stderr);
        }
    }
}

#[test]
fn a_good_answer_names_its_scope() {
    let mesh = mesh();
    for (arguments, said) in [
        (&["ask", "gaps"][..], "no gaps: every need has a kind that the registry answers, and none waits\n"),
        (&["ask", "gaps", "--node", "attic"], "no gaps for node attic: every need has"),
        (&["ask", "gaps", "--node", "cellar", "--module", "db"], "no gaps for node cellar, module db: every"),
        (&["ask", "gaps", "--after", "zzzz"], "no gaps after zzzz: every"),
        (&["ask", "needs", "--after", "zzzz"], "needs has no more after zzzz\n"),
    ] {
        let finished = on(&mesh, arguments).expect_code(0);
        assert!(finished.stderr.starts_with(said), "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn malformed_keys_alone_are_not_ok() {
    let mesh = Mesh::start();
    mesh.tester().kv_put(NEEDS, "attic.db.config", "1");
    for what in ["gaps", "drift", "nodes", "collections"] {
        let finished = on(&mesh, &["ask", what, "--node", "attic"]).expect_code(3);
        assert!(finished.stderr.contains("nats kv del mesh-provisioner_needs attic.db.config"), "{what}");
    }
    on(&mesh, &["ask", "drift", "--node", "attic", "--module", "db"]).expect_code(3);
    let gaps = on(&mesh, &["ask", "gaps", "--node", "attic"]).expect_code(3).stderr;
    assert!(gaps.starts_with("0 gaps for node attic\n"), "{gaps}");
    on(&mesh, &["ask", "needs"]).expect_code(0);
}

#[test]
fn a_closed_output_is_an_error() {
    let mesh = mesh();
    for arguments in ["ask registry", "status", "permissions", "ask registry --json", "--help"] {
        let script = format!("exec '{}' {arguments} >&-", env!("CARGO_BIN_EXE_mesh-provisioner"));
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env("NATS_URL", mesh.server.client_url())
            .env("NATS_USER", READER.user.as_ref())
            .env("NATS_PASSWORD", READER.password.as_ref())
            .output()
            .expect("sh");
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("cannot write to the standard output: it is closed"), "{arguments}: {said}");
        // Thrown away on purpose it is none.
        let thrown = script.replace(">&-", ">/dev/null");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &thrown]).env("NATS_URL", mesh.server.client_url());
        command.env("NATS_USER", READER.user.as_ref()).env("NATS_PASSWORD", READER.password.as_ref());
        let code = command.output().expect("sh").status.code();
        assert_eq!(code, Some(if arguments == "status" { 3 } else { 0 }), "{arguments}");
    }
}

#[test]
fn every_form_of_output_has_its_use() {
    let mesh = mesh();
    let out = |arguments: &[&str]| on(&mesh, arguments).stdout;
    assert_eq!(
        out(&["ask", "needs", "-o", "name"]),
        "attic.web.port.http\nattic.web.shell.zsh=3Anormal\ncellar.db.config.x\n"
    );
    assert_eq!(out(&["ask", "drift", "-o", "name"]), "attic\tweb\ncellar\tdb\n");
    assert_eq!(out(&["ask", "drift", "--not-ok", "-o=name"]), "cellar\tdb\n");
    assert_eq!(out(&["ask", "drift", "--state", "current,orphan", "-o", "name"]), "attic\tweb\n");
    let wide = out(&["ask", "needs", "-o", "wide"]);
    assert!(wide.contains("  REVISION  KEY\n") && wide.contains("attic.web.port.http\n"), "{wide}");
    assert!(wide.contains("20") && wide.contains('Z'), "absolute times: {wide}");
    let bare = out(&["ask", "needs", "--no-headers"]);
    assert!(bare.starts_with("attic") && bare.lines().count() == 3, "{bare}");
    assert_eq!(out(&["ask", "needs", "-o", "json"]), out(&["ask", "needs", "--json"]));
    let summary = on(&mesh, &["ask", "drift"]).expect_code(3).stderr;
    assert_eq!(summary, "2 modules: 1 current, 1 never\n");
    for arguments in [
        &["ask", "needs", "--not-ok"][..],
        &["ask", "drift", "--not-ok", "-o", "json"],
        &["ask", "health", "-o", "name"],
        &["ask", "-o", "yaml"],
    ] {
        on(&mesh, arguments).expect_code(64);
    }
}

#[test]
fn a_page_is_one_line_whatever_is_stored() {
    let mesh = Mesh::start();
    mesh.tester().kv_put(NEEDS, "attic.web.port.http", "{\n  \"port\":\r\n 8080\n}");
    let stdout = on(&mesh, &["ask", "needs", "--json"]).expect_code(0).stdout;
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    let page: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(page["entries"][0]["value"]["port"], 8080);
}

#[test]
fn a_question_can_be_watched() {
    let mesh = mesh();
    for arguments in [
        &["ask", "drift", "--json", "--watch=100ms"][..],
        &["status", "--json", "--watch", "100ms"],
        &["why", "attic", "web", "--json", "--watch", "100ms"],
    ] {
        let mut command = Program::new(arguments).server(&mesh.server).account(&READER).command();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let answers: Vec<Value> =
            lines.take(3).map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
        assert_eq!(answers.len(), 3, "{arguments:?}");
        // The reader is gone: it ends quietly.
        let output = child.wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
}

#[test]
fn colour_is_for_terminals_that_have_it_or_for_those_who_ask() {
    let mesh = mesh();
    let painted = |program: Program| program.run().stdout.contains('\u{1b}');
    let ask = |arguments: &[&str]| Program::new(arguments).server(&mesh.server).account(&READER);
    assert!(!painted(ask(&["ask", "drift"])));
    assert!(painted(ask(&["ask", "drift", "--color", "always"])));
    assert!(painted(ask(&["status", "--color=always"]).env("NO_COLOR", "1").env("TERM", "dumb")));
    assert!(!painted(ask(&["ask", "drift", "--color", "never"])));
    ask(&["ask", "drift", "--color", "red"]).run().expect_code(64);
    for (variable, value, expected) in
        [("TERM", "xterm", true), ("TERM", "dumb", false), ("NO_COLOR", "1", false)]
    {
        let script = format!("'{}' ask drift", env!("CARGO_BIN_EXE_mesh-provisioner"));
        let output = std::process::Command::new("script")
            .args(["-qec", &script, "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .env("NATS_URL", mesh.server.client_url())
            .env("NATS_USER", READER.user.as_ref())
            .env("NATS_PASSWORD", READER.password.as_ref())
            .env(variable, value)
            .stdin(Stdio::null())
            .output()
            .expect("script");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("cellar"), "{shown}");
        assert_eq!(shown.contains('\u{1b}'), expected, "{variable}={value}: {shown:?}");
    }
}

#[test]
fn names_of_any_script_stay_within_a_narrow_terminal() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    // 屋根裏, twelve cells of letters, and é written with a combining accent.
    for node in ["=E5=B1=8B=E6=A0=B9=E8=A3=8F", "e=CC=81tage", "a-node-with-a-very-long-name-indeed"] {
        tester.kv_put(NEEDS, format!("{node}.web.port.http"), format!("\"{}\"", "long ".repeat(30)));
        tester.kv_put(NEEDS, format!("{node}.web.port"), "1");
    }
    for (width, what) in
        [(40, "ask needs"), (60, "ask needs"), (60, "status"), (40, "status"), (60, "status --grid")]
    {
        let script = format!("stty cols {width}; '{}' {what}", env!("CARGO_BIN_EXE_mesh-provisioner"));
        let output = std::process::Command::new("script")
            .args(["-qec", &script, "/dev/null"])
            .env("TERM", "dumb")
            .env("NATS_URL", mesh.server.client_url())
            .env("NATS_USER", READER.user.as_ref())
            .env("NATS_PASSWORD", READER.password.as_ref())
            .stdin(Stdio::null())
            .output()
            .expect("script");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let cells = |line: &str| {
            let wide = |c: char| match c {
                '\u{300}'..='\u{36f}' => 0,
                '\u{3000}'..='\u{9fff}' => 2,
                _ => 1,
            };
            line.trim_end().chars().map(wide).sum::<usize>()
        };
        // A command and a single name stay whole, so that they can be copied.
        let is_whole = |line: &str| {
            line.starts_with("  nats ") || line.starts_with("next: ") || !line.trim().contains(' ')
        };
        let wide: Vec<&str> = shown.lines().filter(|line| cells(line) > width && !is_whole(line)).collect();
        assert!(shown.contains("屋根裏") && wide.is_empty(), "{width} {what}: {wide:#?} in\n{shown}");
    }
}

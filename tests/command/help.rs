//! What a person sees who does not know the commands yet, or gets one wrong.

use crate::support::program::{Finished, Program};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const COMMANDS: [&str; 11] = [
    "status",
    "why",
    "ask",
    "report",
    "serve",
    "plan",
    "init",
    "check",
    "permissions",
    "health",
    "completion",
];

fn run(arguments: &[&str]) -> Finished {
    Program::new(arguments).run()
}

#[test]
fn every_help_has_examples_that_begin_as_one_types_them() {
    let overview = run(&["--help"]).expect_code(0);
    assert_eq!(overview.stderr, "");
    for command in COMMANDS {
        assert!(
            overview.stdout.contains(&format!("\n  {command} ")),
            "{command} is not in\n{}",
            overview.stdout
        );
        for arguments in [[command, "--help"], [command, "help"]] {
            let help = run(&arguments).expect_code(0);
            assert_eq!(help.stderr, "");
            let (_, examples) = help.stdout.split_once("\nExamples:\n").expect("examples");
            let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
            let typed = format!("  mesh-provisioner {command}");
            assert!(!examples.is_empty(), "{}", help.stdout);
            assert!(examples.iter().all(|example| example.starts_with(&typed)), "{examples:#?}");
            assert!(!help.stdout.contains("\\n") && !help.stdout.contains('\u{1b}'), "{}", help.stdout);
        }
    }
}

#[test]
fn every_command_that_connects_says_how_and_takes_no_secret_as_an_argument() {
    for command in ["status", "why", "ask", "report", "serve", "plan", "init", "check"] {
        let help = run(&[command, "--help"]).expect_code(0).stdout;
        for option in
            ["--server", "--creds", "--nkey", "--user", "--tls-ca", "--tls-cert", "--tls-key", "--context"]
        {
            assert!(help.contains(&format!("\n  {option} ")), "{command} has no {option}");
        }
        for variable in ["NATS_URL", "NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_CA", "NATS_CONTEXT"] {
            assert!(help.contains(variable), "{command} does not name {variable}");
        }
        for secret in ["--password", "--token"] {
            assert!(!help.contains(secret), "{command} takes {secret}");
            run(&[command, secret, "x"]).expect_code(64);
        }
    }
}

#[test]
fn the_examples_of_the_help_are_understood() {
    for command in COMMANDS {
        let help = run(&[command, "--help"]).stdout;
        let (_, examples) = help.split_once("\nExamples:\n").expect("examples");
        for example in examples.lines().take_while(|line| !line.is_empty()) {
            let words: Vec<&str> =
                example.split_whitespace().skip(1).take_while(|word| *word != ">").collect();
            // No server and no files: a command that is understood gets that far, and no further.
            let mut program = Program::new(&words).env("NATS_URL", "nats://127.0.0.1:9");
            if words.contains(&"--watch") {
                // It would ask again and again; without its credentials it does not begin to.
                program = program.env("NATS_CREDS", "/nonexistent");
            }
            let code = program.run().code();
            assert_ne!(code, 64, "{example}");
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let finished = run(&["--version"]).expect_code(0);
    let version = concat!("mesh-provisioner ", env!("CARGO_PKG_VERSION"));
    let rest = finished.stdout.strip_prefix(version).unwrap_or_else(|| panic!("{}", finished.stdout));
    // A build out of a repository says the commit too.
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(")\n"));
    assert!(rest == "\n" || commit.is_some_and(|commit| commit.len() >= 7), "{}", finished.stdout);
}

#[test]
fn a_wrong_command_line_is_64_with_what_is_wrong_and_nothing_on_stdout() {
    for (arguments, said) in [
        (&["srve"][..], "srve"),
        (&["--evry", "1h"], "--evry"),
        (&["ask", "everything"], "everything"),
        (&["ask", "needs", "extra"], "extra"),
        (&["ask", "needs", "--limit", "0"], "limit"),
        (&["ask", "needs", "--limit", "many"], "--limit: \"many\" is not an integer from 1 to 10000"),
        (&["ask", "registry", "--node", "attic"], "node"),
        (&["ask", "needs", "--node", ""], "node"),
        (&["ask", "needs", "--node", "a\nb"], "node"),
        (&["ask", "--stale-after", "-1", "nodes"], "-1"),
        (&["init", "--replicas", "300"], "\"300\" is not an integer from 1 to 5"),
        (&["serve", "--every", "1w"], "90s, 30m, 1h30m, 1d"),
        (&["serve", "--every", "10ms"], "from 100ms to 366d"),
        (&["serve", "--reply-prefix", "$KV"], "$KV"),
        (&["plan", "--inbox-prefix", ">"], "is not an inbox prefix"),
        (&["check", "--reply-prefix", "*"], "reply prefix"),
        (&["permissions", "everybody"], "everybody"),
    ] {
        let finished = run(arguments).expect_code(64);
        assert_eq!(finished.stdout, "", "{arguments:?}");
        assert!(finished.stderr.contains(said), "{arguments:?} says {}", finished.stderr);
        for debug in ["Err(", "Some(", "panicked", "invalid digit", "target type"] {
            assert!(!finished.stderr.contains(debug), "{arguments:?} says {}", finished.stderr);
        }
    }
}

#[test]
fn a_command_line_that_cannot_be_read_says_where_to_read_on() {
    for (arguments, next) in [
        (&["srve"][..], "see mesh-provisioner --help"),
        (&["--evry", "1h"], "see mesh-provisioner --help"),
        (&["serve", "--evry", "1h"], "see mesh-provisioner serve --help"),
        (&["ask", "everything"], "see mesh-provisioner ask --help"),
        (&["plan", "now"], "see mesh-provisioner plan --help"),
    ] {
        let finished = run(arguments).expect_code(64);
        assert_eq!(finished.stderr.lines().last(), Some(next), "{arguments:?}: {}", finished.stderr);
    }
}

#[test]
fn an_argument_that_is_not_utf_8_is_refused_rather_than_read_as_another_name() {
    let mut command =
        Program::new(&["ask", "needs", "--node"]).env("NATS_URL", "nats://127.0.0.1:9").command();
    let output = command.arg(OsStr::from_bytes(b"a\xffb")).output().expect("the program");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not UTF-8"), "{output:?}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn options_without_a_command_take_no_seat() {
    let finished = Program::new(&["--creds", "/nowhere/seat.creds"]).run().expect_code(64);
    assert!(finished.stderr.starts_with("no command is given"), "{}", finished.stderr);
}

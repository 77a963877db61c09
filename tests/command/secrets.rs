//! A secret goes to the server and nowhere else: not into an output, however the command ends.

use crate::support::accounts::{READER, TESTER};
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::tempdir;

const SECRET: &str = "s3cr3t-hunter2";
const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";

fn commands() -> Vec<Vec<&'static str>> {
    vec![vec!["ask", "--json"], vec!["plan"], vec!["init"], vec!["check"]]
}

#[track_caller]
fn keeps_secrets(program: &Program) {
    let finished = program.clone().env("RUST_LOG", "trace").env("NO_COLOR", "1").run();
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for secret in [SECRET, "s3cr3t%2Dhunter2", SEED, &READER.password, &TESTER.password] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
    assert_ne!(said, "");
}

#[test]
fn no_secret_is_in_any_output() {
    let mesh = Mesh::start();
    let address = mesh.server.address();
    let directory = tempdir().expect("a directory");
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its mode");
        path.to_str().expect("UTF-8").to_owned()
    };
    let creds = format!(
        "-----BEGIN NATS USER JWT-----\n{SECRET}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    );
    let creds = file("a.creds", &creds, 0o644);
    let nkey = file("a.nk", SEED, 0o644);
    let context = file(
        "a.json",
        &format!(r#"{{"url":"nats://{address}","user":"reader","password":"{SECRET}","socks_proxy":"x"}}"#),
        0o600,
    );
    // A URL in the wrong place.
    for command in [
        vec!["ask"],
        vec!["permissions"],
        vec!["permissions", "seat"],
        vec!["completion"],
        vec!["completion", "bash"],
    ] {
        let program = Program::new(&command).args(&[&format!("nats://reader:{SECRET}@{address}")]);
        assert_eq!(program.clone().run().code(), 64, "{command:?}");
        keeps_secrets(&program);
    }
    for command in commands() {
        let program = Program::new(&command);
        for url in [
            format!("nats://reader:{SECRET}@{address}"),
            format!("nats://reader:s3cr3t%2Dhunter2@{address}"),
            format!("nats://{SECRET}@{address}"),
            format!("nats://reader:{SECRET}@127.0.0.1:9"),
            format!("nats://reader:{SECRET}@{address}/path"),
            format!("http://reader:{SECRET}@{address}"),
            format!("nats://reader:{SECRET}@{address},nats://other:{SECRET}x@{address}"),
            format!("nats://reader:{SECRET}@no host"),
        ] {
            keeps_secrets(&program.clone().env("NATS_URL", &url));
            keeps_secrets(&program.clone().args(&["--server", &url]));
        }
        let here = program.clone().server(&mesh.server);
        keeps_secrets(&here.clone().account(&READER));
        keeps_secrets(&here.clone().account(&TESTER));
        keeps_secrets(&here.clone().env("NATS_USER", "reader").env("NATS_PASSWORD", SECRET));
        keeps_secrets(&here.clone().env("NATS_TOKEN", SECRET));
        keeps_secrets(&here.clone().env("NATS_TOKEN", SECRET).env("NATS_USER", "reader"));
        keeps_secrets(&here.clone().env("NATS_PASSWORD", SECRET));
        keeps_secrets(&here.clone().args(&["--creds", &creds]));
        keeps_secrets(&here.clone().args(&["--nkey", &nkey]));
        keeps_secrets(&here.clone().args(&["--creds", &nkey]));
        keeps_secrets(&here.clone().args(&["--nkey", SEED]));
        keeps_secrets(&here.args(&["--context", &context]));
    }
}

//! What is installed beside the binary, against the binary: the manual, the completions, the unit and the versions.
//! `packaging/test --all` installs and runs it all for real.

mod bounds;
mod documents;
mod manual;
mod unit;
mod versions;

use std::fs;
use std::process::Command;

/// A file of the tree.
#[track_caller]
fn file(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What the program prints to these arguments, with which it succeeds.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    output(Command::new(env!("CARGO_BIN_EXE_mesh-provisioner")).args(arguments))
}

/// What a command that succeeds prints.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {command:?}: {error}. packaging/test installs what is missing")
    });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text.into_owned()
}

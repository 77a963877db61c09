//! Tells the programs which commit they are built from, for `--version`.
//!
//! `MESH_PROVISIONER_COMMIT` says it for a build from a package's sources; otherwise git does; without either,
//! `--version` has the version alone. No time and no path goes in, so the same commit always gives the same programs.

use std::env;
use std::path::Path;
use std::process::Command;

/// The top of the sources, from this crate's folder, where Cargo runs this.
const TOP: &str = "../..";

fn main() {
    println!("cargo::rerun-if-env-changed=MESH_PROVISIONER_COMMIT");
    for path in ["src", "crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={TOP}/{path}");
    }
    let said = env::var("MESH_PROVISIONER_COMMIT").ok();
    if let Some(commit) = said.or_else(of_git).filter(|commit| is_plain(commit)) {
        println!("cargo::rustc-env=MESH_PROVISIONER_COMMIT={commit}");
    }
}

/// The commit that is checked out, with `-dirty` behind it if files differ from it.
fn of_git() -> Option<String> {
    // A repository further up is somebody else's, who keeps a copy of these sources.
    if !Path::new(TOP).join(".git").exists() {
        return None;
    }
    // Changes with every commit and checkout, wherever a work tree keeps it.
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&head).exists() {
        println!("cargo::rerun-if-changed={head}");
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}

/// Whether it can stand in a line of `--version`.
fn is_plain(commit: &str) -> bool {
    !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte))
}

//! What ships beside the program, against the program: the manual page, the completions, the unit, the accounts.
//!
//! `MESH_WRITE_PAGES=1 cargo test -p mesh-provisioner-client --test packaging` writes pages and completions again.

use mesh_daemon::exit::Exit;
use mesh_provisioner_client::cli::pages::pages;
use std::fs;
use std::path::{Path, PathBuf};

fn shipped(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/mesh-provisioner-client")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(shipped(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn what_ships_is_what_the_commands_are() {
    for (name, wanted) in [
        ("mesh-provisioner-client.8", pages().manual()),
        ("mesh-provisioner-client.bash", pages().bash()),
        ("_mesh-provisioner-client", pages().zsh()),
        ("mesh-provisioner-client.fish", pages().fish()),
    ] {
        if std::env::var_os("MESH_WRITE_PAGES").is_some() {
            fs::write(shipped(name), &wanted).unwrap();
        }
        let is_new = fs::read_to_string(shipped(name)).is_ok_and(|found| found == wanted);
        assert!(
            is_new,
            "{name} is old: MESH_WRITE_PAGES=1 cargo test -p mesh-provisioner-client --test packaging"
        );
    }
}

#[test]
fn the_unit_runs_serve_as_its_own_user_who_may_ask_the_host() {
    let unit = text("mesh-provisioner-client.service");
    let has = |line: &str| assert!(unit.lines().any(|found| found == line), "{line}");
    has("ExecStart=/usr/bin/mesh-provisioner-client serve $MESH_PROVISIONER_CLIENT_OPTIONS");
    has("Type=notify");
    has("WatchdogSec=30");
    has("User=mesh-provisioner-client");
    has("SupplementaryGroups=mesh");
    has("StateDirectory=mesh-provisioner-client");
    has("StateDirectoryMode=0700");
    has("RuntimeDirectory=mesh-provisioner-client");
    has("LimitCORE=0");
    let stays = [Exit::Usage, Exit::Configuration].map(|exit| exit.code().to_string()).join(" ");
    has(&format!("RestartPreventExitStatus={stays}"));
    assert!(!unit.contains("DynamicUser"), "joining gives the key to a user that there is");
}

/// The same names as in the unit, and as the host's socket and the join know them.
#[test]
fn the_package_makes_the_user_and_the_group() {
    let accounts = text("sysusers");
    let lines: Vec<&str> = accounts.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "g mesh - -",
            "u mesh-provisioner-client - \"Client of a mesh\" /var/lib/mesh-provisioner-client",
            "m mesh-provisioner-client mesh",
        ]
    );
}

/// Each setting of the environment file is one that the program reads.
#[test]
fn the_environment_file_sets_nothing_and_names_what_is_read() {
    for line in text("environment").lines() {
        assert!(line.is_empty() || line.starts_with('#'), "{line}");
        let Some((name, _)) = line.trim_start_matches('#').split_once('=') else { continue };
        if name.contains(' ') {
            continue;
        }
        let known =
            name.starts_with("NATS_") || ["MESH_PROVISIONER_CLIENT_OPTIONS", "RUST_LOG"].contains(&name);
        assert!(known, "{name}");
    }
}

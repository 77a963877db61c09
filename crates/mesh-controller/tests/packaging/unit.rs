//! The unit, against the program.

use mesh_daemon::exit::Exit;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/mesh-controller");

#[test]
fn the_unit_runs_serve_and_does_not_restart_what_a_person_must_change() {
    let unit = std::fs::read_to_string(Path::new(FOLDER).join("mesh-controller.service")).unwrap();
    let has = |line: &str| assert!(unit.lines().any(|found| found == line), "{line}");
    has("ExecStart=/usr/bin/mesh-controller serve $MESH_CONTROLLER_OPTIONS");
    has("Type=notify");
    has("WatchdogSec=30");
    has("StateDirectory=mesh-controller");
    has("StateDirectoryMode=0700");
    has("RuntimeDirectory=mesh-controller");
    has("DynamicUser=yes");
    has(&format!("RestartPreventExitStatus={} {}", Exit::Usage.code(), Exit::Configuration.code()));
    assert!(!unit.contains("vault"), "nothing of another program");
}

#[test]
fn the_file_of_users_lies_where_the_controller_writes_and_the_server_is_told() {
    let read = |name: &str| std::fs::read_to_string(Path::new(FOLDER).join(name)).unwrap();
    let has = |text: &str, line: &str| assert!(text.lines().any(|found| found == line), "{line}");
    let unit = read("mesh-controller.service");
    has(&unit, r#"Environment="MESH_CONTROLLER_OPTIONS=--users-file /var/lib/mesh-users/users.conf""#);
    has(&unit, "SupplementaryGroups=mesh-users");
    has(&unit, "ReadWritePaths=-/var/lib/mesh-users");
    let own = unit.find("Environment=\"MESH_CONTROLLER_OPTIONS").unwrap();
    assert!(own < unit.find("EnvironmentFile=").unwrap(), "the settings win");
    has(&read("sysusers"), "g mesh-users - -");
    has(&read("tmpfiles"), "d /var/lib/mesh-users 0775 root mesh-users -");
    has(&read("mesh-controller-users.path"), "PathChanged=/var/lib/mesh-users/users.conf");
    let reload = read("mesh-controller-users.service");
    has(&reload, "ExecStart=systemctl --no-ask-password reload nats-server.service");
    has(&reload, "StartLimitIntervalSec=0");
}

#[test]
fn every_variable_of_the_settings_is_one_that_the_program_reads() {
    let text = std::fs::read_to_string(Path::new(FOLDER).join("environment")).unwrap();
    let known =
        ["NATS_", "MESH_STORE_INVENTORY", "MESH_STORE_IDENTITY", "MESH_CONTROLLER_OPTIONS", "RUST_LOG"];
    for line in text.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.starts_with(' ')) {
        let Some((name, _)) = line.split_once('=') else { continue };
        assert!(known.iter().any(|known| name.starts_with(known)), "{name}");
    }
}

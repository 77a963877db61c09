//! The systemd unit: well formed, closed to what it does not need, and started again for as long as it takes.

use super::{file, output};
use mesh_daemon::exit::Exit;
use std::fs;
use std::process::Command;

const UNIT: &str = "packaging/mesh-provisioner/mesh-provisioner.service";

#[test]
fn systemd_takes_the_unit_without_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mesh-provisioner.service");
    // The program is not installed where the unit starts it.
    let unit = file(UNIT);
    let installed = "ExecStart=/usr/bin/mesh-provisioner ";
    assert!(unit.contains(installed), "{unit}");
    let built = format!("ExecStart={} ", env!("CARGO_BIN_EXE_mesh-provisioner"));
    fs::write(&path, unit.replace(installed, &built)).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let verify = verify.args(["verify", "--man=no"]).arg(&path).output().expect("systemd-analyze");
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    // What it says of other units of this machine is not ours.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("mesh-provisioner")).collect();
    assert!(verify.status.success() && ours.is_empty(), "{}: {said}", verify.status);
}

#[test]
fn its_exposure_is_at_most_1_2() {
    let path = format!("{}/{UNIT}", env!("CARGO_MANIFEST_DIR"));
    let mut analyze = Command::new("systemd-analyze");
    let report =
        output(analyze.args(["security", "--offline=true", "--threshold=12", "--no-pager"]).arg(path));
    assert!(report.contains("Overall exposure level for mesh-provisioner.service"), "{report}");
}

#[test]
fn it_is_started_again_until_a_person_is_needed() {
    let unit = file(UNIT);
    let (usage, configuration) = (Exit::Usage.code(), Exit::Configuration.code());
    for line in [
        "Type=notify",
        // Neither procps nor util-linux has to be there: the shell's own `kill`.
        "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'",
        "Restart=always",
        "StartLimitIntervalSec=0",
        &format!("RestartPreventExitStatus={usage} {configuration}"),
        "DynamicUser=yes",
        "RuntimeDirectory=mesh-provisioner",
    ] {
        assert!(unit.lines().any(|of_unit| of_unit == line), "{UNIT} lacks {line}");
    }
}

//! The units that start containers again on podman, which has no daemon that would: one for each container.

use crate::managers::command::Command;
use crate::outcome::Failure;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FOLDER: &str = "/etc/systemd/system";

fn unit(name: &str) -> String {
    format!("mesh-container-{name}.service")
}

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(unit(name))
}

fn text(name: &str, within_s: u64) -> String {
    let stop = within_s + 30;
    format!(
        "# Written by mesh-host, which removes it with the container.
[Unit]
Description=Container {name}
Wants=network-online.target
After=network-online.target local-fs.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/env podman start --attach {name}
ExecStop=/usr/bin/env podman stop --ignore --time {within_s} {name}
Restart=always
RestartSec=5
TimeoutStopSec={stop}
SuccessExitStatus=137 143
# The runtime keeps what it says.
StandardOutput=null
StandardError=null

[Install]
WantedBy=multi-user.target
"
    )
}

/// Whether a container has its unit, and that starts with the machine.
pub(super) fn lasts(name: &str) -> bool {
    let linked = Path::new(FOLDER).join("multi-user.target.wants").join(unit(name));
    let begins = text(name, 0);
    let head = begins.lines().take(8).collect::<Vec<_>>().join("\n");
    linked.symlink_metadata().is_ok()
        && fs::read_to_string(path(name)).is_ok_and(|found| found.starts_with(&head))
}

/// Writes the unit of a container that runs, and starts it.
pub(super) fn write(name: &str, within_s: u64) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::Failed(format!("{} cannot be written: {error}", path(name).display()));
    let new = path(name).with_extension("service.new");
    let mut file = fs::File::create(&new).map_err(failed)?;
    file.write_all(text(name, within_s).as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, path(name)).map_err(failed)?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", &unit(name)])
}

/// Stops the unit, if there is one, and with it the container.
pub(super) fn stop(name: &str) -> Result<(), Failure> {
    if path(name).exists() { systemctl(&["stop", &unit(name)]) } else { Ok(()) }
}

/// Stops and removes the unit, if there is one.
pub(super) fn remove(name: &str) -> Result<(), Failure> {
    if !path(name).exists() {
        return Ok(());
    }
    systemctl(&["disable", "--now", &unit(name)])?;
    fs::remove_file(path(name))
        .map_err(|error| Failure::Failed(format!("{} cannot be removed: {error}", path(name).display())))?;
    systemctl(&["daemon-reload"])
}

fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let ran = Command::new("systemctl", Duration::from_secs(120)).args(words).run();
    ran.map_err(|why| why.failure())?.ok().map(drop)
}

//! A port that is closed may be the one through which we are told. So a timer outside of this process opens it again,
//! unless the client says that it has reached the bus anew.

use super::{Found, Opened, nft};
use crate::managers::command::Command;
use crate::outcome::Failure;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long the client has to reach the bus anew, in seconds.
const WITHIN_S: u64 = 120;
const UNIT: &str = "mesh-host-undo";

/// Sets the timer. A timer that is set already goes on: it opens everything that was closed since.
pub(super) fn arm(folder: &Path, found: Found, opened: &Opened) -> Result<(), Failure> {
    let script = folder.join("undo.sh");
    let failed =
        |error: std::io::Error| Failure::Failed(format!("{} cannot be written: {error}", script.display()));
    let first = !script.exists();
    let begin = if first { "#!/bin/sh".to_owned() } else { fs::read_to_string(&script).map_err(failed)? };
    let mut lines = vec![begin];
    match found {
        Found::Nftables => {
            // The whole table as it was before the first change.
            if first {
                let said = nft::list().map_err(Failure::NotAnswered)?;
                let rules = nft::read(&said).map_err(Failure::NotAnswered)?;
                let table = folder.join("undo.nft");
                fs::write(&table, nft::text(rules.ours())).map_err(failed)?;
                lines.push(format!("nft --file {}", table.display()));
            }
        }
        Found::Ufw => {
            for from in opened.sources() {
                let Opened { port, protocol, .. } = opened;
                let from = from.unwrap_or("any");
                lines.push(format!(
                    "ufw allow proto {protocol} from {from} to any port {port} comment mesh-host"
                ));
            }
        }
        Found::Firewalld => {
            for from in opened.sources() {
                let argument = super::firewalld::argument(opened, from, "add");
                lines.push(format!("firewall-cmd '{argument}'\nfirewall-cmd --permanent '{argument}'"));
            }
        }
    }
    fs::write(&script, lines.join("\n") + "\n").map_err(failed)?;
    if !first {
        return Ok(());
    }
    let run = format!("sh {0}; rm -f {0}", script.display());
    let ran = if Path::new("/run/systemd/system").is_dir() {
        let after = format!("--on-active={WITHIN_S}s");
        Command::new("systemd-run", Duration::from_secs(20))
            .args(["--unit", UNIT, &after, "sh", "-c", &run])
            .run()
    } else {
        // In a session of its own, so that it outlives this process and whoever ends it.
        let late = format!(
            "setsid sh -c 'sleep {WITHIN_S}; test -e {0} && {run}' >/dev/null 2>&1 &",
            script.display()
        );
        Command::new("sh", Duration::from_secs(20)).args(["-c", &late]).run()
    };
    ran.map_err(|why| why.failure())?.ok().map(drop)
}

/// The client has reached the bus anew: what was closed stays closed.
pub(crate) fn confirm(folder: &Path) -> Result<(), Failure> {
    let script = folder.join("undo.sh");
    if !script.exists() {
        return Ok(());
    }
    fs::remove_file(&script)
        .map_err(|error| Failure::Failed(format!("{} cannot be removed: {error}", script.display())))?;
    if Path::new("/run/systemd/system").is_dir() {
        let timer = format!("{UNIT}.timer");
        Command::new("systemctl", Duration::from_secs(20))
            .args(["stop", &timer])
            .run()
            .map_err(|why| why.failure())?;
    }
    Ok(())
}

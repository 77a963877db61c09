//! `check`: whether this host can work here.

use super::site;
use crate::managers::Managers;
use crate::report::facts;
use crate::session;
use crate::site::Site;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::escape;
use std::path::PathBuf;
use std::time::SystemTime;

/// The least free space for state and kept originals, in bytes.
const LEAST_FREE: u64 = 64 << 20;

/// check rights, settings, keys, state, disk, clock and managers
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "check")]
pub(super) struct Check {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,
}

impl Check {
    pub(super) fn run(&self) -> Exit {
        let site = site(self.root.as_ref());
        let mut checks: Vec<(&str, Result<String, String>)> = vec![
            ("rights", rights(&site)),
            ("settings", settings(&site)),
            ("key", key(&site)),
            ("state", state(&site)),
            ("disk", disk(&site)),
            ("clock", clock(SystemTime::now())),
        ];
        if site.is_machine() {
            checks.extend(managers(&site));
        }
        let mut text = String::new();
        for (name, result) in &checks {
            let (word, what) = match result {
                Ok(what) => ("ok ", what),
                Err(what) => ("bad", what),
            };
            text.push_str(&escape(&format!("{word}  {name:<9} {what}")));
            text.push('\n');
        }
        let printed = print(&text);
        if checks.iter().any(|(_, result)| result.is_err()) { Exit::Failed } else { printed }
    }
}

/// What the machine is managed by. Only the service manager has to be there: what needs another one says so.
fn managers(site: &Site) -> Vec<(&'static str, Result<String, String>)> {
    let memory = session::memory(site).unwrap_or_default();
    let mut managers = Managers::idle(&site.run());
    let facts = facts(&memory, Some(&mut managers));
    let none = |what: &str| format!("none: {what} cannot be applied here");
    let services = "none that is known: this machine was not booted with systemd".to_owned();
    vec![
        ("services", facts.service_manager.ok_or(services)),
        ("packages", Ok(facts.package_manager.unwrap_or_else(|| none("packages")))),
        ("runtime", Ok(facts.runtime.unwrap_or_else(|| none("containers and networks")))),
        ("firewall", Ok(facts.firewall.unwrap_or_else(|| "none was found".to_owned()))),
    ]
}

/// Secrets, schedules and reports need a clock that is not at its beginning.
fn clock(now: SystemTime) -> Result<String, String> {
    const SECONDS_2025: u64 = 1_735_689_600;
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) if since.as_secs() >= SECONDS_2025 => Ok("set".to_owned()),
        _ => Err("is before 2025: set it".to_owned()),
    }
}

fn rights(site: &Site) -> Result<String, String> {
    match (rustix::process::geteuid().is_root(), site.is_machine()) {
        (true, _) => Ok("root".to_owned()),
        (false, false) => Ok("not root: owners are not managed in this tree".to_owned()),
        (false, true) => Err("not root: the machine cannot be changed; run it as root".to_owned()),
    }
}

fn settings(site: &Site) -> Result<String, String> {
    let settings = site.settings()?;
    Ok(format!("node {} of mesh {}", settings.node, settings.mesh))
}

fn key(site: &Site) -> Result<String, String> {
    match site.sealing_key() {
        Ok(Some(key)) => Ok(key.public_key()),
        Ok(None) => Err("there is no sealing key: make one with mesh-host key make".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn state(site: &Site) -> Result<String, String> {
    match session::memory(site) {
        Ok(memory) => Ok(format!("{} resources, {} held", memory.records.len(), memory.holds.len())),
        Err(session::Trouble::Broken(why) | session::Trouble::Refused(why)) => Err(why),
        Err(session::Trouble::Locked) => Err("another apply is under way".to_owned()),
    }
}

fn disk(site: &Site) -> Result<String, String> {
    let found = rustix::fs::statvfs(site.state()).map_err(|error| format!("cannot be looked at: {error}"))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let shown = format!("{} MiB free for the state", free >> 20);
    if free < LEAST_FREE { Err(format!("{shown}: make room")) } else { Ok(shown) }
}

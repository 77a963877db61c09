//! The two keys of a new machine. Both stay where they were made; what leaves the machine are their public halves.

use super::accounts::Owner;
use super::files;
use crate::host;
use crate::site::Site;
use mesh_model::host_api::{Line, Request};
use mesh_model::keys::SealingKey;
use nkeys::KeyPair;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a running host may take to tell its key.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// How long the host's program may take to make or show it.
const RUN_WITHIN: Duration = Duration::from_secs(20);

/// The host's program.
const HOST: &str = "mesh-host";

/// The node's key on the bus: the one that was made before, else a new one.
pub(super) fn bus(site: &Site, owner: &Owner) -> Result<KeyPair, String> {
    files::make_private_folder(&site.state(), owner)?;
    let path = site.seed_path();
    let shown = path.display();
    let pair = KeyPair::new_user();
    let seed = pair.seed().map_err(|error| format!("a key cannot be made: {error}"))?;
    let text = Zeroizing::new(format!("{}\n", *Zeroizing::new(seed)));
    match files::write_secret(&path, &text, owner) {
        Ok(()) => Ok(pair),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let seed = fs::read_to_string(&path).map(Zeroizing::new);
            let seed = seed.map_err(|error| format!("{shown} cannot be read: {error}"))?;
            let pair = Some(seed.trim()).filter(|seed| seed.starts_with("SU"));
            pair.and_then(|seed| KeyPair::from_seed(seed).ok()).ok_or_else(|| {
                format!("{shown} holds no seed of an account (SU…): move it away, and join again")
            })
        }
        Err(error) => Err(format!("{shown} cannot be written: {error}")),
    }
}

/// The public half of the host's sealing key: of the running host, else of its program, which makes it if there is none.
pub(super) fn sealing(site: &Site, program: Option<&Path>) -> Result<SealingKey, String> {
    if site.socket().exists()
        && let Ok(Line::Key(key)) = host::ask(&site.socket(), &Request::Key, ASK_WITHIN)
    {
        return key.parse().map_err(|why| format!("the host's answer {why}"));
    }
    let program = program.map_or_else(beside_us, Path::to_owned);
    let run = |what: &str| {
        let mut command = Command::new(&program);
        command.args(["key", what]);
        if !site.is_machine() {
            command.arg("--root").arg(site.root());
        }
        output(&mut command).map_err(|why| {
            format!("the host's sealing key cannot be had: {} key {what}: {why}", program.display())
        })
    };
    let key = match run("show") {
        Ok(key) => key,
        Err(_) => run("make")?,
    };
    key.trim().parse().map_err(|why| format!("what {} says {why}", program.display()))
}

fn beside_us() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(HOST));
    beside.filter(|path| path.exists()).unwrap_or_else(|| HOST.into())
}

/// The standard output of a command that ends well in time.
fn output(command: &mut Command) -> Result<String, String> {
    let until = Instant::now() + RUN_WITHIN;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        format!("cannot be started: {error}: install mesh-host, or name it with --host-program")
    })?;
    // What it says is less than a pipe holds, so it ends without being read.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                child.kill().ok();
                child.wait().ok();
                return Err(format!("it has not ended within {} s", RUN_WITHIN.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    };
    let read = |pipe: Option<&mut dyn io::Read>| {
        let mut text = String::new();
        pipe.and_then(|pipe| pipe.take(4096).read_to_string(&mut text).ok());
        text
    };
    if status.success() {
        return Ok(read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn io::Read)));
    }
    let words = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn io::Read));
    Err(words.lines().next().map_or_else(|| status.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const OWNER: Owner = Owner { uid: 0, gid: 0, gives: false };

    #[test]
    fn a_bus_key_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let first = bus(&site, &OWNER).unwrap();
        assert_eq!(bus(&site, &OWNER).unwrap().public_key(), first.public_key());
        let mode = fs::metadata(site.seed_path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let operator = KeyPair::new_operator().seed().unwrap();
        for wrong in ["", "SUAAA", operator.as_str()] {
            fs::write(site.seed_path(), wrong).unwrap();
            let why = bus(&site, &OWNER).err().unwrap();
            assert!(why.contains("holds no seed of an account") && !why.contains(&operator), "{why}");
        }
    }

    #[test]
    fn a_host_program_shows_the_key_or_makes_it_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let program = folder.path().join("host");
        let key = nkeys::XKey::new().public_key();
        let script = |text: &str| {
            // Written elsewhere and renamed: a program that is open for writing cannot be started.
            let new = folder.path().join("new");
            fs::write(&new, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(&new, &program).unwrap();
            sealing(&site, Some(&program))
        };
        let root = folder.path().display();
        let shown = script(&format!(r#"[ "$*" = "key show --root {root}" ] && echo {key}"#));
        assert_eq!(shown.as_ref().map(SealingKey::as_str), Ok(key.as_str()));
        let made = script(&format!("[ $2 = make ] && echo {key}"));
        assert_eq!(made.as_ref().map(SealingKey::as_str), Ok(key.as_str()));
        let why = script("echo the disk is full >&2; exit 1").unwrap_err();
        assert!(why.ends_with("key make: the disk is full"), "{why}");
        assert!(script("echo hello").unwrap_err().contains("is not the public key for sealing"));
        let none = sealing(&site, Some(Path::new("/nonexistent/mesh-host"))).unwrap_err();
        assert!(none.contains("--host-program"), "{none}");
    }
}

//! Which runtime is there: docker first, then podman, each by a question that only a functioning one answers.
//!
//! What was found is kept until the machine boots again, so that an apply which has nothing to do asks nobody for it.

use super::{ASK, Name, Runtime, command};
use crate::managers::command::{NotRun, PATH};
use crate::outcome::Failure;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(super) type Found = Result<Runtime, Failure>;

pub(super) fn find(folder: &Path) -> Found {
    let units = Path::new("/run/systemd/system").is_dir();
    let path = folder.join("runtime");
    let stamp = stamp();
    let known = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    if let Some(known) = known.filter(|known| known["stamp"] == stamp) {
        let name = if known["name"] == "docker" { Name::Docker } else { Name::Podman };
        let version = known["version"].as_str().unwrap_or_default().to_owned();
        return Ok(Runtime { name, version, units: units && name == Name::Podman });
    }
    let mut tried = Vec::new();
    for (name, words) in [
        (Name::Docker, ["version", "--format", "{{.Server.Version}}"]),
        (Name::Podman, ["info", "--format", "{{.Version.Version}}"]),
    ] {
        match command(name, ASK).args(words).run() {
            Ok(ran) if ran.code == 0 => {
                let version = ran.out.text().unwrap_or_default().trim().to_owned();
                let kept = json!({"stamp": stamp, "name": name.as_str(), "version": version}).to_string();
                if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&path, kept)) {
                    log::debug!("{} cannot be written: {error}", path.display());
                }
                return Ok(Runtime { name, version, units: units && name == Name::Podman });
            }
            Ok(ran) => tried.push((true, ran.words())),
            Err(why @ NotRun::Missing { .. }) => tried.push((false, why.to_string())),
            Err(why) => tried.push((true, why.to_string())),
        }
    }
    let words: Vec<_> = tried.iter().map(|(_, words)| words.as_str()).collect();
    let text = format!("no container runtime answers: {}", words.join("; "));
    // One that is there and silent may answer later.
    Err(if tried.iter().any(|(there, _)| *there) {
        Failure::NotAnswered(text)
    } else {
        Failure::Failed(format!("{text}; install one of them"))
    })
}

/// Which programs there are, and where they are told to look: with others, what was found no longer counts.
fn stamp() -> Value {
    let stamp = |name: &str| {
        PATH.split(':').find_map(|folder| {
            let found = fs::metadata(Path::new(folder).join(name)).ok()?;
            Some(format!("{folder} {} {} {}", found.ino(), found.size(), found.mtime()))
        })
    };
    let host = std::env::var("DOCKER_HOST").ok();
    json!([stamp("docker"), stamp("podman"), host])
}

//! Reads what the runtime says of containers: one process for all of them.

use super::{ASK, DIGEST_LABEL, ID_LABEL, Name, Runtime, unit};
use crate::container::{Family, Health, Instance, Status, next_name, prev_name};
use crate::managers::command::ANSWER;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One line of the answer.
#[derive(Deserialize)]
struct Line {
    name: String,
    number: String,
    id: String,
    digest: String,
    status: String,
    exit: i64,
    started: serde_json::Value,
    restarts: u64,
    policy: String,
    health: String,
}

/// The fields that are asked for, as a template that both runtimes take.
fn template() -> String {
    let label = |name| format!("{{{{json (index .Config.Labels \"{name}\")}}}}");
    format!(
        r#"{{"name":{{{{json .Name}}}},"number":{{{{json .ID}}}},"id":{id},"digest":{digest},"status":{{{{json .State.Status}}}},"exit":{{{{json .State.ExitCode}}}},"started":{{{{json .State.StartedAt}}}},"restarts":{{{{json .RestartCount}}}},"policy":{{{{json .HostConfig.RestartPolicy.Name}}}},"health":{{{{if .State.Health}}}}{{{{json .State.Health.Status}}}}{{{{else}}}}""{{{{end}}}}}}"#,
        id = label(ID_LABEL),
        digest = label(DIGEST_LABEL),
    )
}

/// The containers of these names, with those of an exchange.
pub(super) fn families(runtime: &Runtime, names: &[&str]) -> Result<BTreeMap<String, Family>, String> {
    let all = names.iter().flat_map(|name| [(*name).to_owned(), next_name(name), prev_name(name)]);
    let command =
        runtime.command(ASK).args(["container", "inspect", "--format", &template()]).args(all).keep(ANSWER);
    let ran = command.run().map_err(|why| why.to_string())?;
    let out = ran.out.text().ok_or("the answer of the container runtime is too long, or not UTF-8")?;
    let err = ran.err.text().unwrap_or_default();
    // It exits with an error as soon as one name is not there; anything else that it complains of is not an answer.
    if ran.code != 0 && !only_absent(&err) {
        return Err(ran.words());
    }
    let mut found = read(&out, |name, policy| match runtime.name {
        Name::Docker => policy == "unless-stopped",
        Name::Podman if runtime.units => unit::lasts(name),
        Name::Podman => policy == "always",
    })?;
    let mut take = |name: &str| found.remove(name);
    let family = |name: &&str| {
        let family = Family {
            runtime: runtime.name.as_str().to_owned(),
            current: take(name),
            next: take(&next_name(name)),
            prev: take(&prev_name(name)),
        };
        ((*name).to_owned(), family)
    };
    Ok(names.iter().map(family).collect())
}

/// Whether all that was complained of is that names are not there.
fn only_absent(err: &str) -> bool {
    let mut absent = false;
    for line in err.lines().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty()) {
        if line.contains("no such container") {
            absent = true;
        } else if !line.starts_with("warn") && !line.contains("level=warning") {
            return false;
        }
    }
    absent
}

fn read(text: &str, lasts: impl Fn(&str, &str) -> bool) -> Result<BTreeMap<String, Instance>, String> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line: Line = serde_json::from_str(line)
            .map_err(|error| format!("the container runtime says what is not understood: {error}"))?;
        // A number, or the beginning of one, is looked up too: only the exact name counts.
        let name = line.name.trim_start_matches('/').to_owned();
        let lasts = lasts(&name, &line.policy);
        let instance = Instance {
            number: line.number,
            id: Some(line.id).filter(|id| !id.is_empty()),
            digest: line.digest,
            status: match line.status.as_str() {
                "running" | "paused" => Status::Running,
                "restarting" => Status::Restarting,
                "created" | "configured" | "initialized" => Status::Created,
                _ => Status::Exited(line.exit),
            },
            started: line.started.to_string(),
            restarts: line.restarts,
            health: match line.health.as_str() {
                "healthy" => Health::Healthy,
                "unhealthy" => Health::Unhealthy,
                "starting" => Health::Starting,
                _ => Health::Unchecked,
            },
            lasts,
        };
        found.insert(name, instance);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{only_absent, read};
    use crate::container::{Health, Status};

    #[test]
    fn both_runtimes_are_read() {
        let docker = r#"{"name":"/db","number":"99f6","id":"web.db","digest":"v2:aa","status":"exited","exit":3,"started":"2026-11-30T23:57:39Z","restarts":2,"policy":"unless-stopped","health":"unhealthy"}"#;
        let podman = r#"{"name":"db","number":"f4c5","id":"","digest":"","status":"running","exit":0,"started":"2026-11-30 23:57:33 +0000 UTC","restarts":0,"policy":"","health":""}"#;
        let found = read(docker, |_, policy| policy == "unless-stopped").unwrap();
        let db = &found["db"];
        assert_eq!(
            (db.status, db.restarts, db.health, db.lasts),
            (Status::Exited(3), 2, Health::Unhealthy, true)
        );
        assert!(db.is_ours());
        let found = read(&format!("{podman}\n\n"), |_, policy| policy == "always").unwrap();
        let db = &found["db"];
        assert_eq!((db.status, db.lasts, db.is_ours()), (Status::Running, false, false));
        assert!(read("{\"name\":1}", |_, _| true).is_err());
    }

    #[test]
    fn absent_is_told_from_silent() {
        assert!(only_absent("Error: No such container: nope\nError: No such container: other\n"));
        assert!(only_absent("Error: inspecting object: no such container nope\n"));
        assert!(only_absent("WARN[0000] cgroups are old\nError: no such container nope\n"));
        for silent in
            ["", "Cannot connect to the Docker daemon", "no such container a\nError: database is locked\n"]
        {
            assert!(!only_absent(silent), "{silent:?}");
        }
    }
}

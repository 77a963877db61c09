//! A place for one test: a state of its own, and names that no other test has.

use mesh_host::record::Memory;
use mesh_host::session::{self, How, Input, Trouble};
use mesh_host::site::Site;
use mesh_model::bundle::Bundle;
use mesh_model::json::Read as _;
use mesh_model::report::{Outcome, Report, Word};
use std::process::Command;
use tempfile::TempDir;

/// The image that `packaging/mesh-host/runtime` makes.
pub(crate) const IMAGE: &str = "localhost/lab:1";

/// Which runtime the script brought up.
pub(crate) fn runtime() -> String {
    let found = std::env::var("MESH_HOST_RUNTIME").unwrap_or_default();
    assert!(
        ["docker", "podman"].contains(&found.as_str()),
        "these tests need a container runtime: run packaging/mesh-host/runtime, which brings one up"
    );
    found
}

/// Runs a command of the runtime, and returns what it says.
pub(crate) fn say(words: &[&str]) -> (bool, String) {
    let ran = Command::new(runtime()).args(words).output().unwrap();
    let text = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8(text).unwrap().trim().to_owned())
}

/// The same, which has to go well.
pub(crate) fn ask(words: &[&str]) -> String {
    let (well, text) = say(words);
    assert!(well, "{words:?}: {text}");
    text
}

/// One field of a container.
pub(crate) fn field(name: &str, field: &str) -> String {
    ask(&["container", "inspect", "--format", field, name])
}

pub(crate) fn number(name: &str) -> String {
    field(name, "{{.ID}}")
}

pub(crate) fn is_running(name: &str) -> bool {
    field(name, "{{.State.Running}}") == "true"
}

pub(crate) fn exists(name: &str) -> bool {
    let (well, text) = say(&["container", "inspect", "--format", "{{.Name}}", name]);
    assert!(well || text.to_lowercase().contains("no such container"), "{text}");
    well && text.lines().any(|line| line.trim_start_matches('/') == name)
}

/// One state of a host, on this machine. What it made goes with it.
pub(crate) struct Lab {
    folder: TempDir,
    /// Stands before every name of this test.
    pub(crate) tag: String,
}

impl Lab {
    pub(crate) fn new(tag: &str) -> Self {
        let lab =
            Self { folder: tempfile::tempdir().unwrap(), tag: format!("lab-{tag}-{}", std::process::id()) };
        runtime();
        lab
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A name of this test.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.tag)
    }

    fn site(&self) -> Site {
        Site::beside(self.folder.path())
    }

    pub(crate) fn memory(&self) -> Memory {
        session::memory(&self.site()).unwrap()
    }

    pub(crate) fn run(&self, id: &str) -> Result<(), String> {
        session::run_now(&self.site(), id).map_err(|trouble| format!("{trouble:?}"))
    }

    /// Applies the resources as a bundle.
    pub(crate) fn report(&self, resources: &[String], how: How) -> Report {
        self.bundle("foundation", resources, how)
    }

    pub(crate) fn bundle(&self, name: &str, resources: &[String], how: How) -> Report {
        let text = format!(r#"{{"bundle":"{name}","resources":[{}]}}"#, resources.join(","));
        let bundle = Bundle::from_json_bytes(text.as_bytes()).unwrap_or_else(|why| panic!("{why}: {text}"));
        loop {
            let input = Input::Bundle(Box::new(bundle.clone()));
            match session::apply(&self.site(), input, how, &mut |_, _| {}) {
                // A process that another test just forked holds the lock until it has become another program.
                Err(Trouble::Locked) => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        }
    }

    /// Applies, and returns `id word` of each.
    pub(crate) fn apply(&self, resources: &[String]) -> Vec<String> {
        words(&self.report(resources, How::Apply))
    }

    /// Applies one resource, and returns its outcome.
    pub(crate) fn one(&self, resource: &str) -> Outcome {
        let report = self.report(&[resource.to_owned()], How::Apply);
        assert_eq!(report.outcomes.len(), 1, "{:?}", report.outcomes);
        report.outcomes[0].clone()
    }
}

pub(crate) fn words(report: &Report) -> Vec<String> {
    report.outcomes.iter().map(|outcome| format!("{} {}", outcome.id, outcome.word)).collect()
}

/// Asserts that a resource ended so, and shows everything about it if not.
#[track_caller]
pub(crate) fn is(outcome: &Outcome, word: Word, cause: &str) {
    assert_eq!((outcome.word, outcome.cause.as_str()), (word, cause), "{outcome:?}");
}

impl Drop for Lab {
    fn drop(&mut self) {
        let (_, names) = say(&["ps", "--all", "--format", "{{.Names}}"]);
        for name in names.lines().filter(|name| name.starts_with(&self.tag)) {
            say(&["rm", "--force", name]);
        }
        let (_, names) = say(&["network", "ls", "--format", "{{.Name}}"]);
        for name in names.lines().filter(|name| name.starts_with(&self.tag)) {
            say(&["network", "rm", name]);
        }
    }
}

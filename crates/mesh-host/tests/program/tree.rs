//! A tree of files that is not the machine, and the program that works on it.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program under test: the one that was built with the tests, or another one, by hand.
pub(crate) fn program() -> String {
    std::env::var("HOST_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_mesh-host").to_owned())
}

pub(crate) struct Tree {
    folder: TempDir,
}

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The outcome lines of `--json`.
    pub(crate) fn outcomes(&self) -> Vec<Value> {
        let lines = self.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get("outcome").cloned()).collect()
    }

    pub(crate) fn report(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_else(|| panic!("no report: {}", self.err));
        serde_json::from_str::<Value>(last).unwrap()["report"].clone()
    }

    /// `id word` of each resource, in order.
    pub(crate) fn words(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.outcomes().iter().map(|end| format!("{} {}", text(&end["id"]), text(&end["word"]))).collect()
    }

    /// The cause of the resource that failed.
    pub(crate) fn cause(&self, id: &str) -> String {
        let outcomes = self.outcomes();
        let end =
            outcomes.iter().find(|end| end["id"] == id).unwrap_or_else(|| panic!("no {id}: {}", self.err));
        end["cause"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn detail(&self, id: &str) -> String {
        let outcomes = self.outcomes();
        let end =
            outcomes.iter().find(|end| end["id"] == id).unwrap_or_else(|| panic!("no {id}: {}", self.err));
        end["detail"].as_str().unwrap_or_default().to_owned()
    }
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn owner(&self, path: &str) -> (u32, u32) {
        let found = fs::symlink_metadata(self.path(path)).unwrap();
        (found.uid(), found.gid())
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        let (first, rest) = arguments.split_first().unwrap();
        command.arg(first).arg("--root").arg(self.root()).args(rest).env_remove("RUST_LOG");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Applies a bundle of these resources.
    pub(crate) fn apply(&self, resources: &Value) -> Ran {
        self.apply_bundle(&json!({"bundle": "test", "resources": resources}))
    }

    pub(crate) fn apply_bundle(&self, bundle: &Value) -> Ran {
        let file = self.bundle(bundle);
        self.run(&["apply", "--json", &file])
    }

    pub(crate) fn plan(&self, resources: &Value) -> Ran {
        let file = self.bundle(&json!({"bundle": "test", "resources": resources}));
        self.run(&["plan", "--json", &file])
    }

    /// Writes a bundle beside the tree; returns its path.
    pub(crate) fn bundle(&self, bundle: &Value) -> String {
        let path = self.root().join("bundle.json");
        fs::write(&path, bundle.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Everything below the tree but the host's own: path, mode, and content or where a link leads.
    pub(crate) fn seen(&self) -> Vec<(String, u32, Vec<u8>)> {
        let mut seen = Vec::new();
        let mut folders = vec![self.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned();
                if ["bundle.json", "var/lib/mesh-host", "run/mesh-host"].contains(&name.as_str()) {
                    continue;
                }
                let found = fs::symlink_metadata(&path).unwrap();
                let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if found.is_dir() {
                    folders.push(path);
                }
                seen.push((name, found.permissions().mode(), content));
            }
        }
        seen.sort();
        seen
    }

    /// All files of the state, with their content.
    pub(crate) fn state(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("/var/lib/mesh-host"), self.path("/run/mesh-host")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    found.push((path.to_str().unwrap().to_owned(), fs::read(&path).unwrap()));
                }
            }
        }
        found
    }
}

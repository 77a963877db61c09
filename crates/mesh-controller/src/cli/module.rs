//! `module`: manifests, judged without a mesh, and those that the mesh knows.

use super::context::{Doing, Ended, Environment, OrEnd, judged, read_file, store};
use super::show;
use crate::store::{Error, inventory};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::table::Table;
use mesh_model::json::Read;
use mesh_model::manifest::{Manifest, check, look_alikes};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The largest manifest that is read, in bytes.
const MOST: u64 = 4 * 1024 * 1024;

/// check, add, list, show or forget modules
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "module")]
pub(super) struct ModuleCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, for as long as the command runs")]
enum Which {
    Check(Check),
    Add(Add),
    List(List),
    Show(Show),
    Forget(Forget),
    Issue(super::issue::Issue),
}

/// judge manifests without a mesh
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "check",
    note = "Every .json below a folder is read. Exit status: 0 all can work, warnings or not; 1 a problem.",
    example = "{command_name} web.json modules/"
)]
struct Check {
    /// files and folders
    #[argh(positional, arg_name = "file|dir")]
    paths: Vec<String>,
}

/// add a module, or a new version of it; nothing is sent before push
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "add", example = "{command_name} web.json")]
struct Add {
    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the manifest
    #[argh(positional, arg_name = "file")]
    file: String,
}

/// list the modules
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "list")]
struct List {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

/// show a module: its manifest, who runs it, and what the mesh holds of it
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "show")]
struct Show {
    /// print JSON
    #[argh(switch)]
    json: bool,

    /// the module
    #[argh(positional, arg_name = "module")]
    name: String,
}

/// forget a module that nobody runs and that nothing is held of
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "forget")]
struct Forget {
    /// the module
    #[argh(positional, arg_name = "module")]
    name: String,
}

impl ModuleCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Which::Check(check) => check.run(),
            Which::Add(add) => add.run(environment),
            Which::List(list) => list.run(environment),
            Which::Show(show) => show.run(environment),
            Which::Forget(forget) => forget.run(environment),
            Which::Issue(issue) => issue.run(environment),
        }
    }
}

/// Judges one manifest and says what is wrong; the manifest, if it can work.
fn judge(path: &str, bytes: &[u8]) -> Option<Manifest> {
    let manifest = match Manifest::from_json_bytes(bytes) {
        Ok(manifest) => manifest,
        Err(problem) => {
            complain(&format!("{path}: {problem}"));
            return None;
        }
    };
    let judged = check(&manifest);
    for problem in &judged.problems {
        complain(&format!("{path}: {problem}"));
    }
    for warning in &judged.warnings {
        complain(&format!("{path}: warning: {warning}"));
    }
    for finding in look_alikes(&String::from_utf8_lossy(bytes), &manifest) {
        complain(&format!(
            "{path}:{}:{}: warning: looks like a placeholder and is not declared, so it stays as it is",
            finding.line, finding.column
        ));
    }
    judged.problems.is_empty().then_some(manifest)
}

/// The manifests of a folder, or the file itself.
fn manifests(path: &str) -> std::io::Result<Vec<PathBuf>> {
    if !Path::new(path).is_dir() {
        return Ok(vec![PathBuf::from(path)]);
    }
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(path)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Check {
    fn run(self) -> Ended {
        if self.paths.is_empty() {
            complain("which manifests? name files or folders");
            return Err(Exit::Usage);
        }
        let (mut good, mut bad) = (0, 0);
        for path in &self.paths {
            let files = manifests(path).map_err(|error| {
                complain(&format!("{path} cannot be read: {error}"));
                Exit::Failed
            })?;
            if files.is_empty() {
                complain(&format!("{path}: no manifest is there"));
                bad += 1;
            }
            for file in files {
                let shown = file.display().to_string();
                match read_file(&shown, MOST).ok().and_then(|bytes| judge(&shown, &bytes)) {
                    Some(_) => good += 1,
                    None => bad += 1,
                }
            }
        }
        let printed = print(&format!("{good} can work, {bad} cannot\n"));
        Ok(if bad > 0 { Exit::Failed } else { printed })
    }
}

impl Add {
    fn run(self, environment: Environment<'_>) -> Ended {
        let bytes = read_file(&self.file, MOST)?;
        let Some(manifest) = judge(&self.file, &bytes) else { return Err(Exit::Failed) };
        let mut store = store(environment)?;
        let name = &manifest.module;
        let what = format!("{name} {}", manifest.version);
        let doing = Doing::new(environment, "module add", what).because(self.why.as_ref());
        let mut was = None;
        judged(&mut store, &doing, |change| {
            was = inventory::expect_module(change, name).ok();
            if was.as_ref().is_some_and(|was| was.manifest == bytes) {
                return Ok(());
            }
            inventory::put_module(change, name, &manifest.version, &bytes)
        })?;
        Ok(print(&match was {
            Some(was) if was.manifest == bytes => {
                format!("{name} {}: is this manifest already\n", was.version)
            }
            Some(was) => format!("{name}: {} → {}\n", was.version, manifest.version),
            None => format!("{name} {}: added\n", manifest.version),
        }))
    }
}

impl List {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let modules = inventory::modules(store.inventory()).or_end()?;
        let assignments = inventory::assignments(store.inventory()).or_end()?;
        let mut table = Table::new(["MODULE", "VERSION", "NODES", "SINCE"]);
        let mut rows = Vec::new();
        for module in modules {
            let nodes: Vec<&str> = assignments
                .iter()
                .filter(|one| one.module == module.name)
                .map(|one| one.node.as_str())
                .collect();
            rows.push(json!({"module": module.name, "version": module.version, "nodes": nodes, "since": module.since}));
            table.row([module.name.clone(), module.version, nodes.join(" "), show::at(module.since)]);
        }
        if self.json {
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        Ok(print(&show::table(&table)))
    }
}

impl Show {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let module = inventory::expect_module(store.inventory(), &self.name).or_end()?;
        let held = inventory::held(store.inventory(), &self.name).or_end()?;
        let manifest = String::from_utf8_lossy(&module.manifest).into_owned();
        if self.json {
            let parsed: Value = serde_json::from_str(&manifest).unwrap_or(Value::Null);
            let value = json!({"module": module.name, "version": module.version, "since": module.since, "held": held,
                "manifest": parsed});
            return Ok(print(&format!("{value}\n")));
        }
        let mut text = format!("{} {}, since {}\n", module.name, module.version, show::at(module.since));
        for one in held {
            text += &format!("held: {one}\n");
        }
        Ok(print(&format!("{text}\n{}\n", manifest.trim_end())))
    }
}

impl Forget {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "module forget", &self.name);
        judged(&mut store, &doing, |change| {
            inventory::expect_module(change, &self.name)?;
            let held = inventory::held(change, &self.name)?;
            if !held.is_empty() {
                return Err(Error::Refused(format!(
                    "{} is not forgotten, for the mesh holds:\n{}",
                    self.name,
                    held.join("\n")
                )));
            }
            inventory::remove_module(change, &self.name)
        })?;
        Ok(print(&format!("{}: forgotten\n", self.name)))
    }
}

//! `explain` and `status`: what the client that serves says of itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use argh::{ArgsInfo, FromArgs};
use mesh_daemon::arguments::did_you_mean;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use serde::Deserialize;

use super::site;
use crate::machine::{ModuleStatus, NeedStatus};

/// More than any status file has.
const MAX_BYTES: u64 = 16 << 20;

/// for each need of a module that waits: why, who was asked, how often, the last answer
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "explain", example = "{command_name} web")]
pub(super) struct Explain {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the status file of serve [/run/mesh-provisioner-client/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// the module
    #[argh(positional)]
    module: String,
}

/// how every module of this node stands; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "status", example = "{command_name} --json")]
pub(super) struct StatusCommand {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the status file of serve [/run/mesh-provisioner-client/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// print the status file as it is
    #[argh(switch)]
    json: bool,
}

/// What is read of the status file.
#[derive(Debug, Deserialize)]
pub(super) struct Stored {
    pub(super) at: String,
    pub(super) live: bool,
    pub(super) ready: bool,
    pub(super) status: String,
    pub(super) pid: u32,
    #[serde(default)]
    sequence: Option<u64>,
    #[serde(default)]
    modules: BTreeMap<String, ModuleStatus>,
}

pub(super) fn text(path: &Path) -> Result<String, String> {
    let why = |error: std::io::Error| {
        format!("{}: {error}: does the client serve, with this as its --status-file?", path.display())
    };
    let mut text = String::new();
    File::open(path).map_err(why)?.take(MAX_BYTES).read_to_string(&mut text).map_err(why)?;
    Ok(text)
}

pub(super) fn read(path: &Path) -> Result<Stored, String> {
    serde_json::from_str(&text(path)?)
        .map_err(|error| format!("{}: this is not a status file of a client: {error}", path.display()))
}

impl Explain {
    pub(super) fn run(&self) -> Exit {
        let usual = || site(self.root.as_ref()).status_path();
        let path = self.status_file.clone().unwrap_or_else(usual);
        let stored = match read(&path) {
            Ok(stored) => stored,
            Err(why) => {
                complain(&why);
                return Exit::Failed;
            }
        };
        let Some(module) = stored.modules.get(&self.module) else {
            let near = did_you_mean(&self.module, stored.modules.keys().map(String::as_str));
            complain(&format!("this node has no module {:?}{near}", self.module));
            return Exit::Failed;
        };
        print(&explained(&self.module, module))
    }
}

fn explained(name: &str, module: &ModuleStatus) -> String {
    let mut text = format!("{name}: {}, {} needs filled", module.state, module.filled);
    if !module.waiting.is_empty() {
        write!(text, ", {} waiting", module.waiting.len()).ok();
    }
    text.push('\n');
    if let Some(problem) = &module.problem {
        writeln!(text, "  {}", escape(problem)).ok();
    }
    for NeedStatus { need, why, asked_of, tries, last, seconds } in &module.waiting {
        write!(text, "  waiting {}: {}", escape(need), escape(why)).ok();
        if let Some(verb) = asked_of {
            write!(text, ", asked of {}", escape(verb)).ok();
        }
        if let Some(tries) = tries {
            write!(text, ", {tries} tries").ok();
        }
        if let Some(last) = last.as_ref().filter(|last| !last.is_empty()) {
            write!(text, ", last {:?}", escape(last)).ok();
        }
        if let Some(seconds) = seconds {
            write!(text, ", since {seconds} s").ok();
        }
        text.push('\n');
    }
    text
}

impl StatusCommand {
    pub(super) fn run(&self) -> Exit {
        let usual = || site(self.root.as_ref()).status_path();
        let path = self.status_file.clone().unwrap_or_else(usual);
        if self.json {
            return match text(&path) {
                Ok(text) => print(&format!("{}\n", text.trim_end())),
                Err(why) => {
                    complain(&why);
                    Exit::Failed
                }
            };
        }
        let stored = match read(&path) {
            Ok(stored) => stored,
            Err(why) => {
                complain(&why);
                return Exit::Failed;
            }
        };
        let sequence = stored.sequence.map_or_else(|| "none".to_owned(), |sequence| sequence.to_string());
        let mut text =
            format!("{}\ndeclaration {sequence}, at {}\n", escape(&stored.status), escape(&stored.at));
        for (name, module) in &stored.modules {
            write!(text, "{}  {}", escape(name), module.state).ok();
            let names: Vec<&str> = module.waiting.iter().map(|need| need.need.as_str()).collect();
            if !names.is_empty() {
                write!(text, "  waits for {}", escape(&names.join(", "))).ok();
            }
            if let Some(problem) = &module.problem {
                write!(text, "  {}", escape(problem)).ok();
            }
            text.push('\n');
        }
        print(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K18: which value hangs, and who was asked.
    #[test]
    fn k18_explain_names_the_value_that_hangs() {
        let module = ModuleStatus {
            state: "waiting".to_owned(),
            problem: None,
            filled: 39,
            waiting: vec![NeedStatus {
                need: "secret:db".to_owned(),
                why: "no responder".to_owned(),
                asked_of: Some("mesh-vault.secret".to_owned()),
                tries: Some(3),
                last: Some("no responders".to_owned()),
                seconds: Some(12),
            }],
        };
        assert_eq!(
            explained("web", &module),
            "web: waiting, 39 needs filled, 1 waiting\n  waiting secret:db: no responder, asked of mesh-vault.secret, 3 tries, last \"no responders\", since 12 s\n"
        );
    }
}

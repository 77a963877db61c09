//! `apply` and `plan`.

use super::{GATED, site, trouble};
use crate::report::{failure, line};
use crate::session::{self, Change, How, Input};
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print_on};
use mesh_daemon::terminal::escape;
use mesh_model::bundle::Bundle;
use mesh_model::host_api::{Line, MAX_REQUEST_BYTES, Request};
use mesh_model::json::{At, Json, Read as _};
use mesh_model::report::{ModuleState, Outcome, Report, Reported, Word};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// apply a bundle or a declaration once
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "apply")]
pub(super) struct Apply {
    /// a tree that is not the machine: files, directories and archives are applied below it
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// print outcomes and the report as lines of JSON
    #[argh(switch)]
    json: bool,

    /// try at once what failed before in the same form, and not only when its time has come
    #[argh(switch)]
    again: bool,

    /// the file with the bundle or the request; - for the standard input
    #[argh(positional)]
    file: PathBuf,
}

/// say what an apply would do, and do nothing
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "plan")]
pub(super) struct Plan {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// print outcomes and the report as lines of JSON
    #[argh(switch)]
    json: bool,

    /// the file with the bundle or the request; - for the standard input
    #[argh(positional)]
    file: PathBuf,
}

impl Apply {
    pub(super) fn run(&self) -> ExitCode {
        let input = match read(&self.file) {
            Ok(input) => input,
            Err(why) => return wrong(&why).into(),
        };
        let how = if self.again { How::Again } else { How::Apply };
        let report = match session::apply(&site(self.root.as_ref()), input, how, &mut teller(self.json)) {
            Ok(report) => report,
            Err(why) => return trouble(&why).into(),
        };
        finish(&report, self.json);
        if report.gated {
            return ExitCode::from(GATED);
        }
        if is_well(&report) { Exit::Done.into() } else { Exit::NotOk.into() }
    }
}

impl Plan {
    pub(super) fn run(&self) -> Exit {
        let input = match read(&self.file) {
            Ok(input) => input,
            Err(why) => return wrong(&why),
        };
        let planned = session::plan_with_text(&site(self.root.as_ref()), input, &mut teller(self.json));
        let (report, changes) = match planned {
            Ok(planned) => planned,
            Err(why) => return trouble(&why),
        };
        if !self.json {
            changes.iter().for_each(show);
        }
        finish(&report, self.json);
        match report.first_failure {
            Some(_) => Exit::Failed,
            None if report.changed => Exit::Differs,
            None => Exit::Done,
        }
    }
}

/// Prints what becomes of the text of a file.
fn show(change: &Change) {
    let text = match &change.text {
        Ok(text) => {
            let lines = text.lines().map(|line| {
                // A tab is as harmless in a file's text as it is frequent.
                let parts: Vec<_> = line.split('\t').map(escape).collect();
                parts.join("\t") + "\n"
            });
            lines.collect()
        }
        Err(why) => format!("the text of {} is not shown: {why}\n", escape(&change.path)),
    };
    let _ = print_on(&text);
}

fn wrong(why: &str) -> Exit {
    complain(why);
    Exit::Failed
}

/// Whether everything stands as declared.
fn is_well(report: &Report) -> bool {
    let bad = [Word::Failed, Word::NotAnswered, Word::NotAttempted, Word::Waiting];
    bad.iter().all(|word| !report.totals.contains_key(word))
        && report.modules.values().all(|module| module.state == ModuleState::Applied)
}

pub(super) fn teller(json: bool) -> impl FnMut(&Outcome, bool) {
    move |outcome: &Outcome, news: bool| {
        let text = if json {
            to_json(&Line::Outcome(Box::new(outcome.clone())))
        } else {
            match line(outcome, news) {
                Some(line) => format!("{}\n", escape(&line)),
                None => return,
            }
        };
        // A reader that went away does not stop an apply.
        let _ = print_on(&text);
    }
}

/// A line of JSON.
fn to_json(line: &Line) -> String {
    serde_json::to_string(line).map(|text| text + "\n").unwrap_or_default()
}

pub(super) fn finish(report: &Report, json: bool) {
    if json {
        let _ = print_on(&to_json(&Line::Report(Reported::Report(Box::new(report.clone())))));
    } else if !report.totals.is_empty() || report.modules.is_empty() {
        let totals: Vec<_> = report.totals.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let _ = print_on(&format!("{}\n", totals.join(", ")));
    }
    for (name, module) in report
        .modules
        .iter()
        .filter(|(_, module)| [ModuleState::Waiting, ModuleState::Refused].contains(&module.state))
    {
        complain(&format!("{name} is {}: {}", module.state, module.why));
    }
    if let Some(text) = failure(report) {
        complain(&text);
    }
}

/// Reads the input, of at most as many bytes as the socket takes.
fn read(file: &PathBuf) -> Result<Input, String> {
    let shown = file.display();
    let limit = MAX_REQUEST_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("cannot read {shown}: {error}"))?;
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(format!("{shown} has more than {MAX_REQUEST_BYTES} bytes: split it"));
    }
    let json = Json::parse_bytes(&bytes).map_err(|problem| format!("{shown}: {problem}"))?;
    let read = if json.get("bundle").is_some() {
        Bundle::read(&json, &At::Root).map(|bundle| Input::Bundle(Box::new(bundle)))
    } else {
        Request::read(&json, &At::Root).and_then(|request| match request {
            Request::Apply(apply) | Request::Plan(apply) => Ok(Input::Mesh(apply)),
            _ => Err(mesh_model::json::Problem::at_root("is neither a bundle nor an apply")),
        })
    };
    read.map_err(|problem| format!("{shown}: {problem}"))
}

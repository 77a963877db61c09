//! The service manager: systemd, by `systemctl`.

mod links;

use super::command::{ANSWER, Command};
use crate::facts::{Answer, Load, Question, UnitFact};
use crate::outcome::Failure;
use crate::step::{BootStep, OWN_UNIT, ServiceStep};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer may take.
const LOOK: Duration = Duration::from_secs(20);
/// How long a change of boot state may take, or reading all unit files again.
const SET: Duration = Duration::from_secs(60);
/// How long a unit may take to start or stop: the manager's own limit for units that set none, and a little more.
const JOB: Duration = Duration::from_secs(100);

const PROPERTIES: &str = "Id,LoadState,LoadError,ActiveState,SubState,UnitFileState,FragmentPath,NeedDaemonReload,NRestarts,\
Result,ExecMainStatus";

/// The service manager of this machine.
#[derive(Debug)]
pub(super) struct Services {
    found: bool,
    /// The lock that is held for as long as an apply lasts.
    lock: PathBuf,
}

impl Services {
    /// `run`: the folder of what does not outlive a boot.
    pub(super) fn find(run: &Path) -> Self {
        // What sd_booted(3) looks at.
        Self { found: Path::new("/run/systemd/system").is_dir(), lock: run.join("lock") }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.found
    }

    /// How units stand: one process for all of them.
    pub(super) fn look(&self, questions: &[&Question]) -> Vec<Answer> {
        let all = |answer: &Answer| questions.iter().map(|_| answer.clone()).collect();
        if !self.found {
            return all(&Answer::Refused(
                "this machine was not booted with systemd, the only service manager that is known here"
                    .to_owned(),
            ));
        }
        let units: Vec<&str> = questions
            .iter()
            .filter_map(|question| match question {
                Question::Unit(unit) => Some(unit.as_str()),
                _ => None,
            })
            .filter(|unit| !is_template(unit))
            .collect();
        let facts = match show(&units) {
            Ok(facts) => facts,
            Err(failure) => return all(&Answer::NotAnswered(failure.text().to_owned())),
        };
        let mut facts = facts.into_iter();
        questions
            .iter()
            .map(|question| match question {
                Question::Unit(unit) if is_template(unit) => Answer::Refused(format!(
                    "{unit} is a template: declare an instance of it, such as {}",
                    unit.replacen("@.", "@one.", 1)
                )),
                _ => facts.next().map_or_else(
                    || Answer::NotAnswered("systemctl show left out a unit".to_owned()),
                    Answer::Unit,
                ),
            })
            .collect()
    }

    pub(super) fn perform(&self, step: &ServiceStep) -> Result<(), Failure> {
        match step {
            ServiceStep::Restart { unit, .. } if unit == OWN_UNIT => self.afterwards("restart"),
            ServiceStep::Stop { unit } if unit == OWN_UNIT => self.afterwards("stop"),
            ServiceStep::ReadAgain => systemctl("daemon-reload", None, SET),
            ServiceStep::Boot { unit, to, .. } => {
                let verb = match to {
                    BootStep::Enable => "enable",
                    BootStep::Disable => "disable",
                    BootStep::Renew => "reenable",
                };
                systemctl(verb, Some(unit), SET)
            }
            ServiceStep::Start { unit, private } => {
                // A unit that failed too often would be refused; of one that never failed nothing is reset.
                let _ = systemctl("reset-failed", Some(unit), SET);
                systemctl("start", Some(unit), JOB).map_err(|failure| explain(failure, unit, *private))
            }
            ServiceStep::Restart { unit, private } => {
                let _ = systemctl("reset-failed", Some(unit), SET);
                systemctl("restart", Some(unit), JOB).map_err(|failure| explain(failure, unit, *private))
            }
            ServiceStep::Reload { unit, private } => {
                systemctl("reload", Some(unit), JOB).map_err(|failure| explain(failure, unit, *private))
            }
            ServiceStep::Stop { unit } => systemctl("stop", Some(unit), JOB),
        }
    }
}

impl Services {
    /// Has the service manager do this to our own unit once the lock of the apply is free.
    fn afterwards(&self, verb: &str) -> Result<(), Failure> {
        let command = Command::new("systemd-run", SET)
            .args(["--quiet", "--collect", "--", "flock"])
            .arg(self.lock.display().to_string())
            .args(["systemctl", "--no-block", verb, OWN_UNIT]);
        command.run().map_err(|why| why.failure())?.ok().map(drop)
    }
}

/// What each unit wrote last.
pub(super) fn log(questions: &[&Question]) -> Vec<Answer> {
    questions
        .iter()
        .map(|question| match question {
            Question::UnitLog(unit) => Answer::Text(lines(unit)),
            _ => Answer::NotAnswered("the log knows units alone".to_owned()),
        })
        .collect()
}

fn is_template(unit: &str) -> bool {
    unit.contains("@.")
}

fn systemctl(verb: &str, unit: Option<&str>, limit: Duration) -> Result<(), Failure> {
    let command = Command::new("systemctl", limit)
        .arg(verb)
        .args(["--no-ask-password", "--no-pager", "--quiet"])
        .args(unit);
    command.run().map_err(|why| why.failure())?.ok().map(drop)
}

/// A failed job, with what the unit wrote last.
fn explain(failure: Failure, unit: &str, private: bool) -> Failure {
    let Failure::Failed(text) = failure else { return failure };
    let how = show(&[unit]).ok().and_then(|facts| facts.into_iter().next()).map(|fact| ended(&fact));
    let how = how.map_or_else(String::new, |how| format!("; {how}"));
    if private {
        return Failure::Failed(format!("{unit} could not be started{how}; see journalctl -u {unit}"));
    }
    let said = lines(unit);
    let said = if said.is_empty() { String::new() } else { format!("; it wrote: {said}") };
    Failure::Failed(format!("{text}{how}{said}"))
}

/// How a unit last ended.
fn ended(fact: &UnitFact) -> String {
    format!("it is {}, result {}, exit code {}", fact.words(), fact.result, fact.exit)
}

fn lines(unit: &str) -> String {
    let command = Command::new("journalctl", LOOK).args([
        "--no-pager",
        "--quiet",
        "--output=cat",
        "--lines=5",
        "--boot",
        "--unit",
        unit,
    ]);
    command.run().map(|ran| ran.out.last_lines()).unwrap_or_default()
}

fn show(units: &[&str]) -> Result<Vec<UnitFact>, Failure> {
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let command = Command::new("systemctl", LOOK)
        .args(["show", "--no-pager", "--property", PROPERTIES, "--"])
        .args(units)
        .keep(ANSWER);
    let ran = command.run().map_err(|why| why.failure())?;
    if ran.code != 0 {
        return Err(Failure::NotAnswered(ran.words()));
    }
    let text = ran
        .out
        .text()
        .ok_or_else(|| Failure::NotAnswered("systemctl show gave no text that can be read".to_owned()))?;
    let facts = parse(&text);
    if facts.len() != units.len() {
        let count = facts.len();
        return Err(Failure::NotAnswered(format!("systemctl show told of {count} units of {}", units.len())));
    }
    Ok(facts.into_iter().zip(units).map(|(fact, unit)| fact.with_links(unit)).collect())
}

/// What `systemctl show` says of one unit.
struct Shown {
    fact: UnitFact,
    file: String,
}

impl Shown {
    fn with_links(self, unit: &str) -> UnitFact {
        let Self { mut fact, file } = self;
        if fact.boot == "enabled" && !file.is_empty() {
            fact.links_differ = links::differ(Path::new("/etc/systemd/system"), Path::new(&file), unit);
        }
        fact
    }
}

/// The blocks of `systemctl show`, one for each unit, in order.
fn parse(text: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let values: BTreeMap<&str, &str> = block.lines().filter_map(|line| line.split_once('=')).collect();
        let value = |name: &str| values.get(name).copied().unwrap_or_default();
        let load = match value("LoadState") {
            "loaded" => Load::Loaded,
            "not-found" => Load::Absent,
            "masked" => Load::Masked,
            other => Load::Bad(format!("{other}: {}", value("LoadError"))),
        };
        let fact = UnitFact {
            load,
            active: value("ActiveState").to_owned(),
            sub: value("SubState").to_owned(),
            boot: value("UnitFileState").to_owned(),
            stale: value("NeedDaemonReload") == "yes",
            links_differ: false,
            restarts: value("NRestarts").parse().unwrap_or(0),
            result: value("Result").to_owned(),
            exit: value("ExecMainStatus").parse().unwrap_or(0),
        };
        shown.push(Shown { fact, file: value("FragmentPath").to_owned() });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::facts::Load;

    #[test]
    fn each_block_is_one_unit() {
        let text = "Id=a.service\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\nNRestarts=3\n\
                    UnitFileState=enabled\nNeedDaemonReload=yes\nResult=exit-code\nExecMainStatus=1\n\
                    FragmentPath=/etc/systemd/system/a.service\n\nId=b.service\nLoadState=not-found\n\
                    LoadError=org.freedesktop.systemd1.NoSuchUnit \"Unit b.service not found.\"\nActiveState=inactive\n";
        let shown = parse(text);
        assert_eq!(shown.len(), 2);
        let a = &shown[0].fact;
        assert!(!a.runs() && !a.is_stopped() && a.is_enabled() && a.stale);
        assert_eq!((a.restarts, a.exit, a.words()), (3, 1, "activating (auto-restart)".to_owned()));
        assert_eq!(shown[1].fact.load, Load::Absent);
        assert!(shown[1].fact.is_stopped());
    }
}

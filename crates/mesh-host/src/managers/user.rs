//! Accounts: looked up in the files of the machine, and asked of `getent` where they are in no file. On the machine they
//! are made by its own tools; in a tree of files they become lines of its files.

mod lines;

use super::command::{Command, NotRun};
use crate::facts::{AccountFact, Answer, Question};
use crate::outcome::Failure;
use crate::step::UserStep;
use lines::Tables;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer or a change may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The accounts of a machine, or of a tree that is not one.
#[derive(Debug)]
pub struct Users {
    etc: PathBuf,
    is_machine: bool,
}

impl Users {
    /// The accounts below `root`.
    pub fn new(root: &Path, is_machine: bool) -> Self {
        Self { etc: root.join("etc"), is_machine }
    }

    /// How accounts stand: at most one process for all that are in no file.
    pub(crate) fn look(&self, questions: &[&Question]) -> Vec<Answer> {
        let all = |why: &str| questions.iter().map(|_| Answer::NotAnswered(why.to_owned())).collect();
        let mut tables = match Tables::read(&self.etc) {
            Ok(tables) => tables,
            Err(error) => return all(&format!("the accounts cannot be read: {error}")),
        };
        let names = questions.iter().filter_map(|question| match question {
            Question::Account(name) => Some(name.as_str()),
            _ => None,
        });
        let unknown: Vec<&str> = names.filter(|name| tables.user(name).is_none()).collect();
        if self.is_machine && !unknown.is_empty() {
            match getent(&unknown) {
                Ok(text) => tables.add_users(&text),
                Err(why) => return all(&why),
            }
        }
        questions
            .iter()
            .map(|question| match question {
                Question::Account(name) => tables.account(name).map_or(Answer::Absent, Answer::Account),
                _ => Answer::NotAnswered("this is not an account".to_owned()),
            })
            .collect()
    }

    pub(crate) fn perform(&self, step: &UserStep) -> Result<(), Failure> {
        if self.is_machine { self.by_tools(step) } else { self.by_lines(step) }
    }

    fn by_tools(&self, step: &UserStep) -> Result<(), Failure> {
        let tables = Tables::read(&self.etc)
            .map_err(|error| Failure::NotAnswered(format!("the accounts cannot be read: {error}")))?;
        match step {
            UserStep::Add { name, uid, group, groups, home, shell, system } => {
                let primary = group.as_deref().unwrap_or(name);
                if group.is_some() && tables.group(primary).is_none() {
                    let command = Command::new("groupadd", LIMIT).args(system.then_some("--system"));
                    tool(&command.args(["--", primary]))?;
                }
                // A home is a directory that is declared as such.
                let mut command = Command::new("useradd", LIMIT).arg("--no-create-home");
                command = command.args(system.then_some("--system"));
                command = if tables.group(primary).is_some() || group.is_some() {
                    command.args(["--gid", primary])
                } else {
                    command.arg("--user-group")
                };
                if let Some(uid) = uid {
                    command = command.args(["--uid", &uid.to_string()]);
                }
                if !groups.is_empty() {
                    command = command.args(["--groups", &groups.join(",")]);
                }
                for (option, value) in [("--home-dir", home), ("--shell", shell)] {
                    if let Some(value) = value {
                        command = command.args([option, value]);
                    }
                }
                tool(&command.args(["--", name]))
            }
            UserStep::Change { name, home, shell, join } => {
                let mut command = Command::new("usermod", LIMIT);
                if !join.is_empty() {
                    command = command.args(["--append", "--groups", &join.join(",")]);
                }
                for (option, value) in [("--home", home), ("--shell", shell)] {
                    if let Some(value) = value {
                        command = command.args([option, value]);
                    }
                }
                tool(&command.args(["--", name])).map_err(|failure| match failure {
                    Failure::Failed(why) => {
                        let what = [
                            ("home", home.is_some()),
                            ("shell", shell.is_some()),
                            ("groups", !join.is_empty()),
                        ];
                        let what: Vec<_> =
                            what.iter().filter(|(_, set)| *set).map(|(what, _)| *what).collect();
                        Failure::Failed(format!("{} of {name} cannot be changed: {why}", what.join(" and ")))
                    }
                    silent @ Failure::NotAnswered(_) => silent,
                })
            }
        }
    }

    fn by_lines(&self, step: &UserStep) -> Result<(), Failure> {
        let failed = |why: String| Failure::Failed(why);
        let mut tables = Tables::read(&self.etc)
            .map_err(|error| failed(format!("the accounts cannot be read: {error}")))?;
        match step {
            UserStep::Add { name, uid, group, groups, home, shell, system } => {
                let primary = group.as_deref().unwrap_or(name);
                let uid = tables.free(*uid, *system).map_err(failed)?;
                let gid = match tables.group(primary) {
                    Some(gid) => gid,
                    None => tables.add_group(primary, uid, *system).map_err(failed)?,
                };
                let home = home.clone().unwrap_or_else(|| format!("/home/{name}"));
                let shell = shell.clone().unwrap_or_else(|| "/bin/sh".to_owned());
                tables.add_user(name, AccountFact { uid, gid, group: None, groups: Vec::new(), home, shell });
                tables.join(name, groups).map_err(failed)?;
            }
            UserStep::Change { name, home, shell, join } => {
                tables.change(name, home.as_deref(), shell.as_deref());
                tables.join(name, join).map_err(failed)?;
            }
        }
        tables.write(&self.etc).map_err(|error| failed(format!("the accounts cannot be written: {error}")))
    }
}

fn tool(command: &Command) -> Result<(), Failure> {
    match command.run() {
        Ok(ran) => ran.ok().map(drop),
        Err(why @ NotRun::Missing { .. }) => Err(Failure::Failed(why.to_string())),
        Err(why) => Err(why.failure()),
    }
}

/// The lines of accounts that another source of names knows.
fn getent(names: &[&str]) -> Result<String, String> {
    let ran = match Command::new("getent", LIMIT).args(["passwd", "--"]).args(names).run() {
        Ok(ran) => ran,
        // Without it there is no other source.
        Err(NotRun::Missing { .. }) => return Ok(String::new()),
        Err(why) => return Err(why.to_string()),
    };
    // 2: one of the names is not known.
    match (ran.code, ran.out.text()) {
        (0 | 2, Some(text)) => Ok(text),
        _ => Err(ran.words()),
    }
}

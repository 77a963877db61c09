//! Declared commands, and the commands that say whether they are needed.

use super::command::{Command, NotRun, Ran};
use crate::facts::{Answer, Check, Question};
use crate::machine::Contents;
use crate::outcome::Failure;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

pub(super) fn look(question: &Question, contents: &Contents) -> Answer {
    let Question::Holds(check) = question else {
        return Answer::NotAnswered("this is no command".to_owned());
    };
    let said = |ran: &Ran| if check.private { ran.code_words() } else { ran.words() };
    match run(check, contents) {
        Ok(ran) if ran.code == 0 => Answer::Holds { yes: true, said: String::new() },
        Ok(ran) => Answer::Holds { yes: false, said: said(&ran) },
        // What it would need is not there yet, so what it would say is not true.
        Err(NotRun::Missing { program }) => {
            Answer::Holds { yes: false, said: format!("{program} is not on this machine") }
        }
        Err(why) => Answer::NotAnswered(why.to_string()),
    }
}

pub(super) fn perform(check: &Check, contents: &Contents) -> Result<(), Failure> {
    let ran = match run(check, contents) {
        Ok(ran) => ran,
        Err(why @ NotRun::Missing { .. }) => return Err(Failure::Failed(why.to_string())),
        Err(why) => return Err(why.failure()),
    };
    match ran.code {
        0 => Ok(()),
        _ if check.private => Err(Failure::Failed(format!(
            "{}; its module holds secrets, so what it said is not shown: run it by hand",
            ran.code_words()
        ))),
        _ => Err(Failure::Failed(ran.words())),
    }
}

fn run(check: &Check, contents: &Contents) -> Result<Ran, NotRun> {
    let (program, arguments) =
        check.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    if check.within.is_some() {
        let name = program.to_owned();
        return Err(NotRun::NotStarted { name, why: "there is no container runtime yet".to_owned() });
    }
    let mut command = Command::new(program, Duration::from_millis(check.limit_ms)).args(arguments);
    // The environment of the command alone: nobody else's, and no argument.
    for line in contents.get(&check.id).unwrap_or_default().split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else { continue };
        command = command.env(OsStr::from_bytes(&line[..at]), OsStr::from_bytes(&line[at + 1..]));
    }
    command.run()
}

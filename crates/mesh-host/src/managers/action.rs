//! Declared commands, and the commands that say whether they are needed.

use super::Runtimes;
use super::command::{Command, NotRun, Ran};
use crate::facts::{Answer, Check, Question};
use crate::machine::Contents;
use crate::outcome::Failure;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

pub(super) fn look(question: &Question, contents: &Contents, runtimes: &mut Runtimes) -> Answer {
    let Question::Holds(check) = question else {
        return Answer::NotAnswered("this is not a command".to_owned());
    };
    let said = |ran: &Ran| if check.private { ran.code_words() } else { ran.words() };
    match run(check, contents, runtimes) {
        Ok(ran) if ran.code == 0 => Answer::Holds { yes: true, said: String::new() },
        Ok(ran) => Answer::Holds { yes: false, said: said(&ran) },
        // What it would need is not there yet, so what it would say is not true.
        Err(Failure::Failed(why)) => Answer::Holds { yes: false, said: why },
        Err(Failure::NotAnswered(why)) => Answer::NotAnswered(why),
    }
}

pub(super) fn perform(check: &Check, contents: &Contents, runtimes: &mut Runtimes) -> Result<(), Failure> {
    let ran = run(check, contents, runtimes)?;
    match ran.code {
        0 => Ok(()),
        _ if check.private => Err(Failure::Failed(format!(
            "{}; its module holds secrets, so what it said is not shown: run it by hand",
            ran.code_words()
        ))),
        _ => Err(Failure::Failed(ran.words())),
    }
}

fn run(check: &Check, contents: &Contents, runtimes: &mut Runtimes) -> Result<Ran, Failure> {
    let limit = Duration::from_millis(check.limit_ms);
    let env = contents.get(&check.id);
    if let Some(container) = &check.within {
        return runtimes.exec(container, &check.command, env, limit);
    }
    let (program, arguments) =
        check.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut command = Command::new(program, limit).args(arguments);
    // The environment of the command alone: nobody else's, and no argument.
    for line in env.unwrap_or_default().split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else { continue };
        command = command.env(OsStr::from_bytes(&line[..at]), OsStr::from_bytes(&line[at + 1..]));
    }
    command.run().map_err(|why| match why {
        NotRun::Missing { .. } => Failure::Failed(why.to_string()),
        why => why.failure(),
    })
}

//! Drives one apply: the engine says what it wants, the machine does it, the journal remembers it.

use crate::engine::{Ended, Engine, Next};
use crate::machine::{Contents, Machine, Tools};
use crate::record::Entry;
use crate::state::{Disk, Journal};
use std::io;

/// Runs `engine` to its end. `tell` is called with how each resource ended, after that is stored.
///
/// # Errors
/// The journal cannot be written: nothing more is done, since nothing more could be remembered.
pub fn run<D: Disk>(
    engine: &mut Engine,
    machine: &mut impl Machine,
    journal: &mut Journal<D>,
    contents: &Contents,
    tell: &mut dyn FnMut(Ended),
) -> io::Result<()> {
    loop {
        match engine.next(journal.memory()) {
            Next::Look(questions) => {
                let answers = machine.look(&questions);
                engine.learned(questions.into_iter().zip(answers));
            }
            Next::Store(entries) => journal.commit(entries)?,
            Next::Do(mut tasks) => {
                for (seq, task) in (journal.next_seq()..).zip(&mut tasks) {
                    let folder = task.step.temporary_in();
                    let name =
                        folder.map(|folder| format!("{}/{}", folder.trim_end_matches('/'), temporary(seq)));
                    task.intent.temporary = name;
                }
                let first = journal.next_seq();
                journal.commit(tasks.iter().map(|task| Entry::Intent(task.intent.clone())).collect())?;
                machine.ahead(&tasks.iter().map(|task| &task.step).collect::<Vec<_>>());
                let mut results = Vec::with_capacity(tasks.len());
                for (seq, task) in (first..).zip(&tasks) {
                    results
                        .push(machine.perform(&task.step, &Tools { contents, temporary: &temporary(seq) }));
                }
                if let Err(failure) = machine.sync() {
                    results
                        .iter_mut()
                        .filter(|result| result.is_ok())
                        .for_each(|result| *result = Err(failure.clone()));
                }
                for (task, result) in tasks.into_iter().zip(results) {
                    engine.performed(task, result);
                }
            }
            Next::Ended(mut ended) => {
                journal.commit(
                    ended.iter_mut().flat_map(|ended| std::mem::take(&mut ended.entries)).collect(),
                )?;
                ended.into_iter().for_each(&mut *tell);
            }
            Next::Wait { ms } => machine.wait(ms),
            Next::Done => return journal.checkpoint(),
        }
    }
}

/// The name of a temporary file. Its number is that of the intent, so the journal knows it.
fn temporary(seq: u64) -> String {
    format!(".mesh-host-{seq}")
}

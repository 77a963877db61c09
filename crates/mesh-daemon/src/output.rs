//! The output of commands. A closed pipe is not an error: `… | head` ends quietly.

use crate::exit::Exit;
use crate::terminal::escape;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints to stdout.
pub fn print(text: &str) -> Exit {
    print_on(text).err().unwrap_or(Exit::Done)
}

/// Prints to stdout. The error is the exit, if the output cannot be written; for a closed pipe it is success.
pub fn print_on(text: &str) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    if STARTED_CLOSED.load(Ordering::Relaxed) {
        complain("cannot write to the standard output: it is closed");
        return Err(Exit::Failed);
    }
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Exit::Done;
        }
        complain(&format!("cannot write to the standard output: {error}"));
        Exit::Failed
    })
}

/// Whether the program was started without a standard output (`>&-`).
///
/// The standard library opens `/dev/null` in its place before `main`, so that a write goes nowhere and succeeds. So it
/// is looked at earlier still.
static STARTED_CLOSED: AtomicBool = AtomicBool::new(false);

#[ctor::ctor]
fn look_at_stdout() {
    let is_open = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    STARTED_CLOSED.store(!is_open, Ordering::Relaxed);
}

/// Reports an error to a person, on stderr.
pub fn complain(text: &str) {
    for line in text.lines() {
        // If stderr is closed, nobody can be told.
        writeln!(io::stderr(), "{}", escape(line)).ok();
    }
}

//! What commands print. A reader that went away is no error: `ask … | head` ends quietly.

use crate::exit::Exit;
use crate::shell::log::escape;
use std::io::{self, Write};

/// Prints to stdout.
pub(super) fn print(text: &str) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to the standard output: {error}"));
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Says to a person what went wrong, on stderr.
pub(super) fn complain(text: &str) {
    for line in text.lines() {
        // Nobody is left to tell when stderr is gone.
        writeln!(io::stderr(), "{}", escape(line)).ok();
    }
}

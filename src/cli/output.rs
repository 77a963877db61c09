//! What commands print. A reader that went away is no error: `ask … | head` ends quietly.

use crate::exit::Exit;
use crate::shell::log::escape;
use std::io::{self, IsTerminal, Write};

/// Prints to stdout.
pub(super) fn print(text: &str) -> Exit {
    print_on(text).err().unwrap_or(Exit::Done)
}

/// Prints to stdout; the error is how to end, if there is no use in going on. A reader that went away has had enough.
pub(super) fn print_on(text: &str) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Exit::Done;
        }
        complain(&format!("cannot write to the standard output: {error}"));
        Exit::Failed
    })
}

/// One line for stdout, with what would move a terminal escaped, and in `colour` (the number of an escape sequence)
/// if stdout is a terminal. Nothing is said by colour alone.
pub(super) fn style(colour: &str, line: &str) -> String {
    let line = escape(line);
    let plain = colour.is_empty()
        || !io::stdout().is_terminal()
        || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    if plain { line.into_owned() } else { format!("\u{1b}[{colour}m{line}\u{1b}[0m") }
}

/// Says to a person what went wrong, on stderr.
pub(super) fn complain(text: &str) {
    for line in text.lines() {
        // Nobody is left to tell when stderr is gone.
        writeln!(io::stderr(), "{}", escape(line)).ok();
    }
}

//! Asking for a secret on the terminal, without echo.

use mesh_model::secret::Secret;
use std::io::{BufRead, Write};
use zeroize::Zeroizing;

/// Asks on the terminal; the error says why it cannot be asked.
pub(super) fn ask(what: &str) -> Result<Secret, String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal =
        open.map_err(|error| format!("there is no terminal to ask on: {error}: take --from FILE"))?;
    let before =
        tcgetattr(&terminal).map_err(|error| format!("the terminal does not say how it is set: {error}"))?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &quiet)
        .map_err(|error| format!("the terminal would show the value: {error}"))?;
    let mut line = Zeroizing::new(String::with_capacity(4096));
    let read = write!(terminal, "{what}: ")
        .and_then(|()| terminal.flush())
        .and_then(|()| std::io::BufReader::new(&terminal).read_line(&mut line));
    tcsetattr(&terminal, OptionalActions::Flush, &before).ok();
    writeln!(terminal).ok();
    read.map_err(|error| format!("the terminal cannot be read: {error}"))?;
    Ok(Secret::copy(without_ending(line.as_bytes())))
}

/// Takes one line ending off.
pub(super) fn without_ending(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::without_ending;

    #[test]
    fn one_line_ending_is_taken_off_and_no_more() {
        assert_eq!(without_ending(b"a\n"), b"a");
        assert_eq!(without_ending(b"a\r\n"), b"a");
        assert_eq!(without_ending(b"a\n\n"), b"a\n");
        assert_eq!(without_ending(b" a "), b" a ");
        assert_eq!(without_ending(b""), b"");
    }
}

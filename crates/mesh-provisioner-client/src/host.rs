//! The host's socket: one request a connection, lines of JSON as the answer. A thread speaks with it, one request at a
//! time, so that the loop never waits for an apply.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use mesh_model::host_api::{Line, MAX_REQUEST_BYTES};

use crate::machine::Own;

/// How long sending the request may take.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// How long the host may say nothing. It bounds each of its steps by itself, and pulling an image is one of the longest.
const SILENT_AT_MOST: Duration = Duration::from_secs(3600);

/// The longest line of an answer.
const MAX_LINE_BYTES: u64 = MAX_REQUEST_BYTES as u64;

/// How many requests wait at most: an apply, what was refused, and a confirmation.
const MOST: usize = 64;

/// A request with the number that its answer has.
#[derive(Debug)]
pub struct Call {
    /// The number.
    pub number: u64,
    /// One line of JSON, without its end.
    pub request: Vec<u8>,
}

/// Starts the thread. Answers go to `own`.
pub fn start(socket: PathBuf, own: Sender<Own>) -> std::io::Result<Sender<Call>> {
    let (calls, received): (Sender<Call>, Receiver<Call>) = bounded(MOST);
    std::thread::Builder::new().name("host".to_owned()).spawn(move || {
        for Call { number, request } in received {
            let result = ask(&socket, &request, |line| match line {
                Line::Outcome(outcome) => own.send(Own::Outcome(outcome)).is_ok(),
                _ => true,
            });
            if own.send(Own::Ended { call: number, result }).is_err() {
                break;
            }
        }
    })?;
    Ok(calls)
}

/// Asks the host, hands each line before the last to `each`, and returns the last.
pub fn ask(socket: &Path, request: &[u8], mut each: impl FnMut(Line) -> bool) -> Result<Line, String> {
    if request.len() >= MAX_REQUEST_BYTES {
        return Err(format!("the request has more than {MAX_REQUEST_BYTES} bytes, which is too large"));
    }
    let shown = socket.display().to_string();
    let failed = |what: &str| {
        let (shown, what) = (shown.clone(), what.to_owned());
        move |error: std::io::Error| format!("{shown}: {what}: {error}; does mesh-host serve?")
    };
    let stream = UnixStream::connect(socket).map_err(failed("cannot connect"))?;
    stream.set_write_timeout(Some(SEND_WITHIN)).map_err(failed("cannot send"))?;
    stream.set_read_timeout(Some(SILENT_AT_MOST)).map_err(failed("cannot read"))?;
    // A host that refuses early answers before it has read everything: its answer counts.
    let sent = (&stream).write_all(request).and_then(|()| (&stream).write_all(b"\n"));
    let mut lines = BufReader::new(&stream);
    loop {
        let mut text = Vec::new();
        let read =
            (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut text).map_err(failed("no answer"))?;
        if read == 0 {
            sent.map_err(failed("cannot send"))?;
            return Err(format!("{shown}: the host ended before its answer"));
        }
        let line: Line = serde_json::from_slice(&text)
            .map_err(|error| format!("{shown}: the host answers with something else: {error}"))?;
        match line {
            Line::Outcome(_) => {
                if !each(line) {
                    return Err("nobody waits for the answer".to_owned());
                }
            }
            last => return Ok(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn host(answer: &'static [u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (&stream).write_all(answer).unwrap();
        });
        (folder, path)
    }

    #[test]
    fn the_last_line_is_the_answer() {
        let (_folder, path) = host(b"{\"outcome\":{\"module\":\"web\",\"id\":\"web.a\",\"type\":\"file\",\"target\":\"/a\",\"word\":\"created\",\"ms\":1}}\n{\"report\":{\"same\":true}}\n");
        let mut seen = 0;
        let last = ask(&path, b"{}", |_| {
            seen += 1;
            true
        });
        assert_eq!((last, seen), (Ok(Line::Report(mesh_model::report::Reported::Same)), 1));
    }

    #[test]
    fn no_host_an_early_end_and_nonsense_are_told_apart() {
        let none = ask(Path::new("/nonexistent/host.sock"), b"{}", |_| true).unwrap_err();
        assert!(none.contains("does mesh-host serve?"), "{none}");
        let (_folder, path) = host(b"");
        assert!(ask(&path, b"{}", |_| true).unwrap_err().contains("ended before its answer"));
        let (_folder, path) = host(b"hello\n");
        assert!(ask(&path, b"{}", |_| true).unwrap_err().contains("something else"));
    }
}

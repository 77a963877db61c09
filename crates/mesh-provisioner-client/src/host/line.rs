//! One connection: the request goes out, and lines come back, with a bound on the time and the size of each.

use mesh_model::host_api::{Line, MAX_REQUEST_BYTES};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the host may take to take the request. It gives up a client after 10 s itself.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// How long a host that hung up may take to say why.
const REFUSE_WITHIN: Duration = Duration::from_secs(1);

/// The longest line of an answer, in bytes: a report of all resources of a node.
const MAX_LINE_BYTES: usize = 64 << 20;

/// A request that was sent, and what comes back.
#[derive(Debug)]
pub(super) struct Conversation {
    stream: UnixStream,
    /// What came, and is not read yet.
    buffer: Vec<u8>,
    /// How much of it holds no end of a line.
    looked_at: usize,
}

impl Conversation {
    /// Connects, and sends one request: one line of JSON, without its end.
    pub(super) fn open(socket: &Path, request: &[u8]) -> Result<Conversation, String> {
        if request.len() > MAX_REQUEST_BYTES {
            return Err(format!(
                "the request has {} bytes, and the host takes {MAX_REQUEST_BYTES}: assign less to this node",
                request.len()
            ));
        }
        let stream = UnixStream::connect(socket).map_err(|error| {
            let next = match error.kind() {
                io::ErrorKind::PermissionDenied => "this user has to be in the group mesh",
                _ => "is mesh-host serve running?",
            };
            format!("{} cannot be reached: {error}: {next}", socket.display())
        })?;
        let mut conversation = Conversation { stream, buffer: Vec::new(), looked_at: 0 };
        match conversation.send(request) {
            Ok(()) => Ok(conversation),
            // It may have hung up because it refuses: its words say more than "broken pipe".
            Err(error) => match conversation.next(REFUSE_WITHIN) {
                Ok(Line::Error { code, message }) => Err(format!("the host refuses: {code} {message}")),
                _ => Err(format!("the request cannot be sent to the host: {error}")),
            },
        }
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(SEND_WITHIN))?;
        self.stream.write_all(request)?;
        self.stream.write_all(b"\n")
    }

    /// The next line.
    pub(super) fn next(&mut self, within: Duration) -> Result<Line, String> {
        let until = Instant::now() + within;
        loop {
            if let Some(line) = self.take_line() {
                return serde_json::from_slice(&line)
                    .map_err(|error| format!("the host's answer cannot be read: {error}"));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(format!("the host's answer has a line of more than {MAX_LINE_BYTES} bytes"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the host said nothing for {} s: look at its log", within.as_secs()));
            }
            match self.read(left) {
                Ok(0) => return Err("the host hung up without an end of its answer: look at its log".into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {}
                Err(error) => return Err(format!("the host's answer cannot be read: {error}")),
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer[self.looked_at..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|at| self.looked_at + at) else {
            self.looked_at = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.looked_at = 0;
        Some(line)
    }

    fn read(&mut self, within: Duration) -> io::Result<usize> {
        let mut piece = vec![0; 64 << 10];
        self.stream.set_read_timeout(Some(within))?;
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count)
    }
}

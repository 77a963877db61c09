//! The door for the client library: a port on the loopback, open for one connection. The library shows a secret that
//! only it was given; everybody else who finds the port is turned away.

use super::poll::{self, Interest};
use serde::Deserialize;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the library may take to come in.
const OPEN: Duration = Duration::from_secs(10);

/// How many callers may wait at once. Others have to try again; the library is told so and gives up,
/// and another gate is made.
const MAX_CALLERS: usize = 16;

/// How many bytes a caller may say before it is turned away.
const MAX_WORDS: usize = 4096;

/// All that the library needs to know of a server. Nothing of it comes from outside.
const INFO: &[u8] = b"INFO {\"server_id\":\"gate\",\"version\":\"0\",\"go\":\"\",\"host\":\"127.0.0.1\",\"port\":1,\"proto\":1,\"client_id\":1,\"max_payload\":68157440,\"headers\":true}\r\n";

/// A door that is open.
pub(super) struct Door {
    listener: TcpListener,
    secret: String,
}

/// A caller, and what it has sent.
struct Caller {
    socket: TcpStream,
    words: Vec<u8>,
}

#[derive(Deserialize)]
struct Connect {
    auth_token: String,
}

impl Door {
    /// Opens a door for one client that shows `secret`.
    pub(super) fn open(secret: String) -> io::Result<Door> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener, secret })
    }

    /// Where the library is to come in.
    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits for the library, and closes the door. `None`: it did not come, or nobody wants it any more.
    pub(super) fn admit(self, wake: &UnixStream) -> io::Result<Option<(TcpStream, Vec<u8>)>> {
        let until = Instant::now() + OPEN;
        let mut callers: Vec<Caller> = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let is_full = callers.len() == MAX_CALLERS;
            let mut interests = vec![Interest::read(wake), Interest::read(&self.listener).only_if(!is_full)];
            interests.extend(callers.iter().map(|caller| Interest::read(&caller.socket)));
            let ready = poll::wait(&interests, Some(left))?;
            if ready[0] {
                return Ok(None);
            }
            for at in (0..callers.len()).rev().filter(|at| ready[at + 2]) {
                match callers[at].listen(&self.secret) {
                    Some(Words::Unfinished) => {}
                    Some(Words::Right(rest)) => return Ok(Some((callers.swap_remove(at).socket, rest))),
                    None => drop(callers.swap_remove(at)),
                }
            }
            if ready[1]
                && let Ok((socket, _)) = self.listener.accept()
            {
                callers.extend(Caller::greet(socket));
            }
        }
    }
}

/// What a caller has shown.
enum Words {
    /// Not enough yet.
    Unfinished,
    /// The secret; and what came after the first ping, which is answered.
    Right(Vec<u8>),
}

impl Caller {
    fn greet(mut socket: TcpStream) -> Option<Caller> {
        socket.set_nonblocking(true).ok()?;
        socket.set_nodelay(true).ok()?;
        socket.write_all(INFO).ok()?;
        Some(Caller { socket, words: Vec::new() })
    }

    /// `None`: it is to be turned away.
    fn listen(&mut self, secret: &str) -> Option<Words> {
        let mut chunk = [0; 1024];
        match self.socket.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => self.words.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        if self.words.len() > MAX_WORDS {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', &self.words) else { return Some(Words::Unfinished) };
        let json = self.words[..end].strip_prefix(b"CONNECT ")?;
        let connect: Connect = serde_json::from_slice(json).ok()?;
        if connect.auth_token != secret {
            return None;
        }
        let Some(rest) = self.words[end + 1..].strip_prefix(b"PING\r\n") else {
            return Some(Words::Unfinished);
        };
        self.socket.write_all(b"PONG\r\n").ok()?;
        Some(Words::Right(rest.to_vec()))
    }
}

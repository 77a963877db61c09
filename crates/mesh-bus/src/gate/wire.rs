//! The connection to the server, with TLS or without. One thread owns it, in both directions: nobody else takes bytes
//! off the socket into a session that they then do not read.

use super::queue::Queue;
use rustls::ClientConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// How much is read from the socket before it is looked at.
const CHUNK_BYTES: usize = 64 * 1024;

/// How often a TLS session reads from the socket in one go.
const TLS_READS: usize = 16;

/// How much is handed to a TLS session at a time.
const TLS_BYTES: usize = 16 * 1024;

/// A connection that never blocks.
pub(super) struct Wire {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    chunk: Vec<u8>,
}

impl Wire {
    /// Without TLS.
    pub(super) fn new(socket: TcpStream) -> io::Result<Wire> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Wire { socket, tls: None, chunk: vec![0; CHUNK_BYTES] })
    }

    /// From here on with TLS.
    pub(super) fn secure(&mut self, session: ClientConnection) {
        self.tls = Some(Box::new(session));
    }

    /// Whether TLS is set up; true without TLS.
    pub(super) fn is_set_up(&self) -> bool {
        self.tls.as_ref().is_none_or(|session| !session.is_handshaking())
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether there is something to write beyond what is in the queue.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Takes what has come, and gives all of it to `look`: nothing is left in the session, because the socket would
    /// not become ready for it again. `false`: the server has closed the connection.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        mut look: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Wire { socket, tls, chunk } = self;
        let Some(session) = tls else {
            return match retry(|| socket.read(chunk))? {
                Some(0) => Ok(false),
                Some(count) => look(&chunk[..count]).map(|()| true),
                None => Ok(true),
            };
        };
        for _ in 0..TLS_READS {
            let is_open = match retry(|| session.read_tls(socket))? {
                Some(count) => count > 0,
                None => return Ok(true),
            };
            if let Err(error) = session.process_new_packets() {
                // The alert says to the server what was wrong; whether it leaves makes no difference to us.
                session.write_tls(socket).ok();
                return Err(io::Error::new(ErrorKind::InvalidData, error).into());
            }
            loop {
                match session.reader().read(chunk) {
                    Ok(0) => return Ok(false),
                    Ok(count) => look(&chunk[..count])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            if !is_open {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes as much of `queue` as the socket takes now.
    pub(super) fn write(&mut self, queue: &mut Queue) -> io::Result<()> {
        let Some(session) = &mut self.tls else { return queue.write_to(&mut self.socket) };
        loop {
            while session.wants_write() {
                if retry(|| session.write_tls(&mut self.socket))?.is_none() {
                    return Ok(());
                }
            }
            if queue.is_empty() || session.is_handshaking() {
                return Ok(());
            }
            let waiting = queue.waiting();
            let count = session.writer().write(&waiting[..waiting.len().min(TLS_BYTES)])?;
            queue.remove(count);
        }
    }
}

/// `None`: not now.
fn retry(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match operation() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! A proxy between the seat and the server that can break the connection in every way a network does.
//!
//! A stalled proxy looks to both sides like a network that drops every packet: nothing arrives and nothing is
//! closed, and whatever is written fills buffers until they are full.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::Server;
use crate::wait::PATIENCE;

/// How much is forwarded in one piece at most.
const CHUNK: usize = 16 * 1024;

/// Listens on loopback and forwards to one server. Dropping it closes everything.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    keeps_nothing: AtomicBool,
    /// The most that is forwarded in one piece.
    piece: AtomicUsize,
    /// How many bytes of the server are forwarded in a second; 0 is as many as come.
    pace: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// New connections are closed as soon as they are there.
    refuses: bool,
    stalled: bool,
    /// The proxy is dropped.
    over: bool,
    cut: Option<Cut>,
    open: Vec<Link>,
    accepted: usize,
    cuts: usize,
    /// What the seat sent and the server got, over all connections.
    sent: Vec<u8>,
}

/// When to break the connection next.
enum Cut {
    /// As soon as the seat has sent `needle` after the place `from` of what it sent, `then` bytes later.
    WhenSent { needle: Vec<u8>, from: usize, then: usize },
    /// After this many bytes of the server.
    After(usize),
}

/// Both sockets of one connection.
struct Link {
    id: usize,
    seat: TcpStream,
    server: TcpStream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    FromSeat,
    FromServer,
}

impl Proxy {
    /// A proxy in front of this server.
    #[track_caller]
    pub fn start(server: &Server) -> Self {
        Self::to(server.address())
    }

    /// A proxy in front of whatever listens there, or will.
    #[track_caller]
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let shared = Arc::new(Shared {
            target,
            state: Mutex::default(),
            changed: Condvar::new(),
            keeps_nothing: AtomicBool::new(false),
            piece: AtomicUsize::new(CHUNK),
            pace: AtomicUsize::new(0),
        });
        {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.accept_all(&listener));
        }
        Self { shared, address }
    }

    /// Where the seat connects.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the seat connects, as a URL without user information.
    pub fn client_url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Closes every connection now.
    pub fn cut(&self) {
        let mut state = self.shared.lock();
        state.cut_all();
        self.shared.changed.notify_all();
    }

    /// Lets this many more bytes of the server through, over all connections, and then closes every connection,
    /// once. [`Proxy::wait_cut`] waits for it.
    pub fn cut_after(&self, bytes_from_server: usize) {
        self.shared.lock().cut = Some(Cut::After(bytes_from_server));
    }

    /// As [`Proxy::cut_after`], but counts only from when the seat has sent `needle`: a cut within one
    /// answer.
    pub fn cut_after_sent(&self, needle: &str, bytes_from_server: usize) {
        let mut state = self.shared.lock();
        let from = state.sent.len();
        state.cut = Some(Cut::WhenSent { needle: needle.into(), from, then: bytes_from_server });
    }

    /// How often connections were cut so far.
    pub fn cuts(&self) -> usize {
        self.shared.lock().cuts
    }

    /// Waits until connections were cut more often than `before`.
    #[track_caller]
    pub fn wait_cut(&self, before: usize, within: Duration) {
        self.wait("the proxy to cut", within, |state| state.cuts > before);
    }

    /// Stops forwarding, both ways, and closes nothing. New connections are accepted and hear nothing.
    pub fn stall(&self) {
        self.shared.lock().stalled = true;
    }

    /// Forwards again, what was held back first.
    pub fn resume(&self) {
        self.shared.lock().stalled = false;
        self.shared.changed.notify_all();
    }

    /// Closes new connections as soon as they are there, or no longer.
    pub fn refuse(&self, refuses: bool) {
        self.shared.lock().refuses = refuses;
    }

    /// How many connections came in so far, refused ones too.
    pub fn accepted(&self) -> usize {
        self.shared.lock().accepted
    }

    /// Waits until more connections than `before` came in.
    #[track_caller]
    pub fn wait_accepted(&self, before: usize, within: Duration) {
        self.wait("a connection to the proxy", within, |state| state.accepted > before);
    }

    /// Forwards about this many bytes at a time, as a network does.
    pub fn split(&self, piece: usize) {
        self.shared.piece.store(piece, Ordering::Relaxed);
    }

    /// Forwards this many bytes of the server in a second, as a slow line does.
    pub fn pace(&self, bytes: usize) {
        self.shared.pace.store(bytes, Ordering::Relaxed);
    }

    /// Keeps no copy of what the seat sends, for runs that send gigabytes.
    pub fn keep_nothing(&self) {
        self.shared.keeps_nothing.store(true, Ordering::Relaxed);
    }

    /// Every byte that the seat sent and the server got, over all connections.
    pub fn sent(&self) -> Vec<u8> {
        self.shared.lock().sent.clone()
    }

    /// Waits until the seat has sent these bytes after the place `from` of [`Proxy::sent`].
    #[track_caller]
    pub fn wait_sent(&self, from: usize, needle: &str, within: Duration) {
        let awaited = format!("{needle:?} from the seat");
        self.wait(&awaited, within, |state| holds(&state.sent[from..], needle.as_bytes()));
    }

    #[track_caller]
    fn wait(&self, awaited: &str, within: Duration, is_there: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        while !is_there(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let State { stalled, refuses, accepted, cuts, sent, .. } = &*state;
                let seen = format!(
                    "{accepted} connections, {cuts} cuts, stalled {stalled}, refuses {refuses}; the seat sent {}",
                    String::from_utf8_lossy(&sent[sent.len().saturating_sub(2_000)..])
                );
                drop(state);
                panic!("waited {within:?} for {awaited}, and saw: {seen}");
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.over = true;
        state.cut_all();
        drop(state);
        self.shared.changed.notify_all();
        // The listening thread stands in `accept`, and only a connection wakes it.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
    }
}

impl State {
    fn has(&self, id: usize) -> bool {
        self.open.iter().any(|link| link.id == id)
    }

    fn close(&mut self, id: usize) {
        self.open.retain(|link| {
            if link.id == id {
                link.close();
            }
            link.id != id
        });
    }

    fn cut_all(&mut self) {
        self.cuts += 1;
        self.cut = None;
        for link in self.open.drain(..) {
            link.close();
        }
    }

    /// Arms the cut that waited for the seat to send something.
    fn arm(&mut self) {
        if let Some(Cut::WhenSent { needle, from, then }) = &self.cut
            && holds(&self.sent[*from..], needle)
        {
            self.cut = Some(Cut::After(*then));
        }
    }

    /// How many of these bytes of the server may pass, and whether the cut comes after them.
    fn allow(&mut self, bytes: usize) -> (usize, bool) {
        match &mut self.cut {
            Some(Cut::After(left)) => {
                let allowed = bytes.min(*left);
                *left -= allowed;
                (allowed, *left == 0)
            }
            _ => (bytes, false),
        }
    }
}

impl Link {
    fn close(&self) {
        let _ = self.seat.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((seat, _)) = listener.accept() {
            let mut state = self.lock();
            if state.over {
                return;
            }
            state.accepted += 1;
            let id = state.accepted;
            let refuses = state.refuses;
            drop(state);
            // A server that is down closes the connection, which is what dropping `seat` does.
            if !refuses && let Ok(server) = TcpStream::connect_timeout(&self.target, PATIENCE) {
                // A connection that ends at once is the test's to notice, like every other.
                let _ = self.forward(id, seat, server);
            }
            self.changed.notify_all();
        }
    }

    fn forward(self: &Arc<Self>, id: usize, seat: TcpStream, server: TcpStream) -> std::io::Result<()> {
        seat.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let directions = [
            (Direction::FromSeat, seat.try_clone()?, server.try_clone()?),
            (Direction::FromServer, server.try_clone()?, seat.try_clone()?),
        ];
        self.lock().open.push(Link { id, seat, server });
        for (direction, from, to) in directions {
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pump(id, direction, from, to));
        }
        Ok(())
    }

    fn pump(&self, id: usize, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
        let mut chunk = [0; CHUNK];
        for turn in 0_usize.. {
            let piece = match self.piece.load(Ordering::Relaxed) {
                CHUNK => CHUNK,
                // Short and long ones in turn, in an order that does not come again soon.
                piece => 1 + turn.wrapping_mul(7_919) % (2 * piece),
            };
            let read = from.read(&mut chunk[..piece]).unwrap_or(0);
            let mut state = self.lock();
            // A close of one side does not get through a stalled proxy either.
            while state.stalled && !state.over && state.has(id) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if read == 0 || !state.has(id) {
                state.close(id);
                return;
            }
            let (allowed, cut) = match direction {
                Direction::FromServer => state.allow(read),
                Direction::FromSeat => {
                    if !self.keeps_nothing.load(Ordering::Relaxed) {
                        state.sent.extend_from_slice(&chunk[..read]);
                    }
                    state.arm();
                    self.changed.notify_all();
                    (read, false)
                }
            };
            // Not under the lock: a peer that does not read may block here, and the controls still have to
            // work.
            drop(state);
            let pace = self.pace.load(Ordering::Relaxed);
            if pace > 0 && matches!(direction, Direction::FromServer) {
                let micros = allowed.saturating_mul(1_000_000) / pace;
                thread::sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)));
            }
            let written = to.write_all(&chunk[..allowed]);
            if cut {
                self.lock().cut_all();
                self.changed.notify_all();
                return;
            }
            if written.is_err() {
                self.lock().close(id);
                return;
            }
        }
    }
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

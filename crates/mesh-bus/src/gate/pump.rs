//! The loop of the gate's thread: the server on one side, the client library on the other.

use super::from_library::FromLibrary;
use super::from_server::{Broken, FromServer, Note, Op};
use super::info::Info;
use super::poll::{self, Interest};
use super::queue::Queue;
use super::wire::Wire;
use super::{Event, Events, tls};
use crate::config::Tls;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How much is read from the library in one go.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long the library may go on after the connection to the server has ended. It is let go long before.
const WINDING_DOWN: Duration = Duration::from_secs(60);

/// How long ago an error of the server counts as the reason why the connection ended.
const REASON_AGE: Duration = Duration::from_secs(2);

/// What is reported of one kind is reported at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// What the owner of a gate says to its thread, as bytes.
pub(super) const ABANDON: u8 = b'a';
/// See [`ABANDON`].
pub(super) const CUT: u8 = b'c';
/// See [`ABANDON`].
pub(super) const GIVE_UP_OWN: u8 = b'u';
/// See [`ABANDON`].
pub(super) const GIVE_UP_LIBRARYS: u8 = b'l';

/// A connection to a server that has let us in, and what is to be done with it.
pub(super) struct Pump {
    pub(super) wire: Wire,
    pub(super) from_server: FromServer,
    pub(super) wake: UnixStream,
    pub(super) events: Events,
    pub(super) tls: Tls,
    pub(super) info: Info,
    /// Whether the connection is secured by TLS.
    pub(super) is_secure: bool,
    /// The numbers of the gate's own subscriptions.
    pub(super) own: Vec<u64>,
}

/// How serving ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// By itself: why.
    Broke(String),
    /// The owner has had enough. The library is still to be let go in peace.
    Abandoned,
    /// The owner has had enough, and the library is gone or of no use.
    Cut,
}

/// What fails while bytes are taken.
enum Fault {
    Io(io::Error),
    Words(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl From<Broken> for Fault {
    fn from(Broken(why): Broken) -> Self {
        Fault::Words(why)
    }
}

/// What goes between the two sides.
struct Flow {
    from_library: FromLibrary,
    to_server: Queue,
    to_library: Queue,
    /// How many pings of the library were answered.
    pongs: u64,
    last_error: Option<(Instant, String)>,
    reports: [Report; 4],
}

/// Reports of one kind.
#[derive(Clone, Copy, Default)]
struct Report {
    last: Option<Instant>,
    since: u64,
}

impl Pump {
    /// Serves until either side ends; then lets the library go.
    pub(super) fn run(mut self, mut library: TcpStream, said: &[u8]) {
        let mut flow = Flow {
            from_library: FromLibrary::default(),
            to_server: Queue::default(),
            to_library: Queue::default(),
            pongs: 0,
            last_error: None,
            reports: [Report::default(); 4],
        };
        // It may have said so while it let us in.
        if self.info.lame_duck {
            (self.events)(Event::LameDuck);
        }
        let end = match flow.from_library.feed(said, flow.to_server.end()) {
            Ok(()) => {
                self.serve(&mut library, &mut flow).unwrap_or_else(|fault| End::Broke(self.explain(&fault)))
            }
            Err(_) => End::Broke("the client library sent a line of no known kind".to_owned()),
        };
        let Pump { wire, events, .. } = self;
        // The server sees the end at once, whatever the library still does.
        drop(wire);
        match end {
            End::Cut => return,
            End::Abandoned => {}
            End::Broke(why) => events(Event::Ended(flow.reason().unwrap_or(why))),
        }
        // Whoever waits for a pong in the library is released by one, and by hardly anything else.
        flow.wind_down(&mut library).ok();
    }

    fn serve(&mut self, library: &mut TcpStream, flow: &mut Flow) -> Result<End, Fault> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            self.wire.write(&mut flow.to_server)?;
            flow.to_library.write_to(&mut *library)?;
            let wants_write = !flow.to_server.is_empty() || self.wire.wants_write();
            let ready = poll::wait(
                &[
                    Interest::read(&self.wake),
                    Interest::none(library)
                        .or_read_if(!flow.to_server.is_full())
                        .or_write_if(!flow.to_library.is_empty()),
                    Interest::none(self.wire.socket())
                        .or_read_if(!flow.to_library.is_full())
                        .or_write_if(wants_write),
                ],
                None,
            )?;
            if ready[0]
                && let Some(end) = self.told(flow)?
            {
                return Ok(end);
            }
            if ready[1] && !flow.to_server.is_full() {
                match library.read(&mut chunk) {
                    Ok(0) => return Ok(End::Broke("the client library has ended the connection".to_owned())),
                    Ok(count) => {
                        flow.from_library.feed(&chunk[..count], flow.to_server.end()).map_err(|_| {
                            Fault::Words("the client library sent a line of no known kind".to_owned())
                        })?;
                    }
                    Err(error) if is_for_later(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if ready[2] && !flow.to_library.is_full() {
                let Pump { wire, from_server, events, info, is_secure, .. } = self;
                from_server.expect_pongs(flow.from_library.pings() - flow.pongs);
                let is_open = wire.read(|bytes| -> Result<(), Fault> {
                    let Flow { from_library, to_server, to_library, pongs, last_error, reports } = flow;
                    from_server.feed(bytes, to_library.end(), &mut |op| match op {
                        // A server that pings and takes nothing gets no answers: they would fill the memory.
                        Op::Ping if to_server.is_full() => {}
                        Op::Ping => from_library.say(b"PONG\r\n", to_server.end()),
                        Op::Pong => *pongs += 1,
                        Op::Taken(message) => events(Event::Message(message)),
                        Op::Large { bytes, drop } => events(Event::Large { bytes, drop }),
                        Op::Error(words) => {
                            *last_error = Some((Instant::now(), words.clone()));
                            events(Event::Protest(words));
                        }
                        Op::Info(json) => match Info::parse(json) {
                            Ok(new) => {
                                let old = std::mem::replace(info, new);
                                tell_changes(&old, info, *is_secure, events);
                            }
                            Err(why) => reports[3].tell(&why, events),
                        },
                        Op::Note(note) => {
                            let (kind, words) = words_of(note);
                            reports[kind].tell(words, events);
                        }
                    })?;
                    Ok(())
                })?;
                if !is_open {
                    return Ok(End::Broke("the connection broke".to_owned()));
                }
            }
        }
    }

    /// What the owner says.
    fn told(&mut self, flow: &mut Flow) -> io::Result<Option<End>> {
        let mut words = [0; 16];
        let count = match self.wake.read(&mut words) {
            Ok(0) => return Ok(Some(End::Abandoned)),
            Ok(count) => count,
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        for word in &words[..count] {
            match *word {
                CUT => return Ok(Some(End::Cut)),
                GIVE_UP_OWN => {
                    for sid in self.own.drain(..) {
                        flow.from_library.say(format!("UNSUB {sid}\r\n").as_bytes(), flow.to_server.end());
                    }
                }
                GIVE_UP_LIBRARYS => {
                    for sid in flow.from_library.take_sids() {
                        flow.from_library.say(format!("UNSUB {sid}\r\n").as_bytes(), flow.to_server.end());
                    }
                }
                _ => return Ok(Some(End::Abandoned)),
            }
        }
        Ok(None)
    }

    fn explain(&self, fault: &Fault) -> String {
        match fault {
            Fault::Words(words) => words.clone(),
            Fault::Io(error) => match tls_error(error) {
                Some(error) => tls::explain(error, &self.tls),
                None => format!("the connection broke: {error}"),
            },
        }
    }
}

/// The error of TLS in an error of the connection.
pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Tells what a new INFO changes.
fn tell_changes(old: &Info, new: &Info, is_secure: bool, events: &Events) {
    if new.max_payload != old.max_payload {
        events(Event::MaxPayload(new.max_payload));
    }
    if new.lame_duck && !old.lame_duck {
        events(Event::LameDuck);
    }
    if new.connect_urls != old.connect_urls {
        events(Event::Cluster(new.cluster(is_secure)));
    }
}

const fn words_of(note: Note) -> (usize, &'static str) {
    match note {
        Note::Subject => (
            0,
            "a message came with a subject that is too long, or holds white space or bytes that are not UTF-8: it is shown with escapes",
        ),
        Note::Headers => (1, "a message came with headers that cannot be read: they were left out"),
        Note::Line => (2, "the server sent a line of no known kind: it was left out"),
    }
}

impl Report {
    fn tell(&mut self, words: &str, events: &Events) {
        if self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            self.since += 1;
            return;
        }
        let more = match self.since {
            0 => String::new(),
            more => format!(" ({more} more of these since the last time)"),
        };
        *self = Report { last: Some(Instant::now()), since: 0 };
        events(Event::Report(format!("{words}{more}")));
    }
}

impl Flow {
    /// The server's own reason for the end, if it has just sent one.
    fn reason(&mut self) -> Option<String> {
        let (_, words) = self.last_error.take().filter(|(at, _)| at.elapsed() < REASON_AGE)?;
        Some(format!("the server closed the connection: {words:?}"))
    }

    /// Answers every ping of the library, those that the server owes too, until the library ends.
    fn wind_down(&mut self, library: &mut TcpStream) -> io::Result<()> {
        let until = Instant::now() + WINDING_DOWN;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut nowhere = Vec::new();
        loop {
            while self.pongs < self.from_library.pings() {
                self.pongs += 1;
                self.to_library.end().extend_from_slice(b"PONG\r\n");
            }
            self.to_library.write_to(&mut *library)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let interest = Interest::read(library).or_write_if(!self.to_library.is_empty());
            poll::wait(&[interest], Some(left))?;
            match library.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let said = self.from_library.feed(&chunk[..count], &mut nowhere);
                    nowhere.clear();
                    if said.is_err() {
                        return Ok(());
                    }
                }
                Err(error) if is_for_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

//! Coming in: from an address to a server that has let us in, with a bound on every step.

use super::from_server::{Broken, FIRST_OWN_SID, FromServer, Op};
use super::info::Info;
use super::poll::{self, Interest};
use super::pump::tls_error;
use super::queue::Queue;
use super::wire::Wire;
use super::{Entered, REFUSES_CREDENTIALS, dial, login, tls};
use crate::config::BusConfig;
use crate::config::address::Address;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a name may take to be looked up, and a server to greet.
const GREETING: Duration = Duration::from_secs(3);

/// How long a server that has greeted us may take to let us in.
const LOGIN: Duration = Duration::from_secs(5);

/// Dials `server`, sets up TLS where it is wanted, and logs in as `client`, with a subscription of the gate's own to each
/// of `own`. `doing` is told what it waits for. The error is words for the operator, without the address.
pub fn enter(
    server: &Address,
    settings: &Arc<BusConfig>,
    client: &str,
    own: &[String],
    doing: &dyn Fn(String),
) -> Result<Entered, String> {
    let (socket, info, said) = dial::dial(server, GREETING, doing)?;
    if info.lame_duck {
        return Err("the server is about to shut down".to_owned());
    }
    if !info.headers {
        return Err("the server has no message headers: use nats-server 2.9 or newer".to_owned());
    }
    let tls = &settings.tls;
    let wants_tls = server.tls || tls.ca.is_some() || tls.cert.is_some() || tls.pin.is_some();
    if wants_tls && !info.tls_required && !info.tls_available {
        return Err("the server does not speak TLS: set it up there, or name the server with nats:// and without a CA or a client certificate".to_owned());
    }
    let is_secure = wants_tls || info.tls_required;
    let wire = Wire::new(socket).map_err(|error| format!("the socket cannot be set up: {error}"))?;
    let until = Instant::now() + LOGIN;
    let mut login = Login { wire, said: Said::new(info) };
    if is_secure {
        if !said.is_empty() {
            return Err("TLS: the server continued without TLS: the connection may be intercepted".to_owned());
        }
        doing(format!("setting up TLS with {server}"));
        login.wire.secure(tls::session(&server.host, tls)?);
        login
            .exchange(&mut Queue::default(), until, |login| login.wire.is_set_up())
            .map_err(|fault| login.explain(fault, settings))?;
        // Anybody in between may have written what came before TLS. A server that it names would get the credentials if
        // its certificate is good, and by the system's roots anybody's is good for a name of his own.
        if tls.ca.is_none() && tls.pin.is_none() {
            login.said.info.connect_urls.clear();
        }
    }
    doing(format!("waiting for {server} to let us in"));
    let own: Vec<(&String, u64)> = own.iter().zip(FIRST_OWN_SID..).collect();
    let mut queue = Queue::default();
    let introduction = login::line(client, is_secure, &settings.auth, &login.said.info.nonce)?;
    queue.end().extend_from_slice(introduction.as_bytes());
    for (subject, sid) in &own {
        queue.end().extend_from_slice(format!("SUB {subject} {sid}\r\n").as_bytes());
    }
    queue.end().extend_from_slice(b"PING\r\n");
    let is_in =
        login.said.take(&said).and_then(|()| login.exchange(&mut queue, until, |login| login.said.is_in));
    is_in.map_err(|fault| login.explain(fault, settings))?;
    let Login { wire, said: Said { from_server, info, protests, .. } } = login;
    let own = own.into_iter().map(|(_, sid)| sid).collect();
    Ok(Entered { wire, from_server, settings: Arc::clone(settings), info, is_secure, own, protests })
}

/// A server that has greeted us and has not let us in yet.
struct Login {
    wire: Wire,
    said: Said,
}

/// What the server has sent.
struct Said {
    from_server: FromServer,
    info: Info,
    protests: Vec<String>,
    /// Why it does not let us in.
    refusal: Option<String>,
    is_in: bool,
}

/// Why a step did not end well.
enum Fault {
    Broken(String),
    Io(io::Error),
    Closed,
    OutOfTime,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl From<Broken> for Fault {
    fn from(Broken(why): Broken) -> Self {
        Fault::Broken(why)
    }
}

impl Login {
    /// Writes `queue` and reads until it `is_done`.
    fn exchange(
        &mut self,
        queue: &mut Queue,
        until: Instant,
        is_done: impl Fn(&Login) -> bool,
    ) -> Result<(), Fault> {
        loop {
            self.wire.write(queue)?;
            if is_done(self) && queue.is_empty() && !self.wire.wants_write() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::OutOfTime);
            }
            let writes = !queue.is_empty() || self.wire.wants_write();
            poll::wait(&[Interest::read(self.wire.socket()).or_write_if(writes)], Some(left))?;
            let Login { wire, said } = self;
            let is_open = wire.read(|bytes| said.take(bytes))?;
            if self.said.refusal.is_some() || !is_open && !is_done(self) {
                return Err(Fault::Closed);
            }
        }
    }

    fn explain(&mut self, fault: Fault, settings: &BusConfig) -> String {
        if let Some(words) = self.said.refusal.take() {
            return words;
        }
        let may_want_certificate = self.said.info.tls_required && settings.tls.cert.is_none();
        let hint = if may_want_certificate {
            ": it may want a client certificate (--tls-cert, --tls-key)"
        } else {
            ": its log may say why"
        };
        match fault {
            Fault::Broken(why) => why,
            Fault::Io(error) => match tls_error(&error) {
                Some(error) => tls::explain(error, &settings.tls),
                None => format!("the connection broke before the server let us in ({error}){hint}"),
            },
            Fault::Closed => format!("the server closed the connection before it let us in{hint}"),
            Fault::OutOfTime => {
                format!("the server greeted us and did not let us in within {}", dial::seconds(LOGIN))
            }
        }
    }
}

impl Said {
    fn new(info: Info) -> Said {
        let mut from_server = FromServer::default();
        from_server.expect_pongs(1);
        Said { from_server, info, protests: Vec::new(), refusal: None, is_in: false }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Said { from_server, info, protests, refusal, is_in } = self;
        // The library is not there yet, and nothing is meant for it.
        from_server.feed(bytes, &mut Vec::new(), &mut |op| match op {
            Op::Pong => *is_in = true,
            Op::Info(json) => {
                if let Ok(new) = Info::parse(json) {
                    let old = std::mem::replace(info, new);
                    // Several may come at once. One that names no other servers does not say that there are none.
                    info.lame_duck |= old.lame_duck;
                    if info.connect_urls.is_empty() {
                        info.connect_urls = old.connect_urls;
                    }
                }
            }
            Op::Error(words) if words.starts_with("Permissions Violation") => protests.push(words),
            Op::Error(words) => {
                let is_denial = words.starts_with("Authorization") || words.contains("Authentication");
                refusal.get_or_insert(if is_denial {
                    format!("{REFUSES_CREDENTIALS} ({words}): check user, password, creds or nkey")
                } else {
                    format!("the server does not let us in: {words}")
                });
            }
            Op::Ping | Op::Taken(_) | Op::Note(_) | Op::Large { .. } => {}
        })?;
        Ok(())
    }
}

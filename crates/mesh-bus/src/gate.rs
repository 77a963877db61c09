//! The gate between the client library and the server: the library never sees a byte of a server that was not looked at
//! here first.
//!
//! A gate dials the server, sets up TLS, reads INFO and logs in ([`enter()`]); every step has a bound. Then a thread of its
//! own ([`Entered::start`]) passes on what may pass, in both directions. The library is given a port on the loopback that
//! is open for one connection, and a secret to show there. When the connection to the server ends, the gate answers the
//! library's pings itself until the library has ended too: so no thread is left waiting for an answer that cannot come.
//!
//! The gate also makes subscriptions of its own. Their messages never reach the library, and cost none of its dozen
//! allocations for each.

mod dial;
mod door;
mod enter;
mod from_library;
pub mod from_server;
pub mod headers;
mod info;
mod login;
mod poll;
mod pump;
mod queue;
pub mod spelling;
mod tls;
mod wire;

pub use self::enter::enter;
pub use self::from_server::{FIRST_OWN_SID, Taken};
pub use self::info::{Cluster, Info};

use self::door::Door;
use self::from_server::FromServer;
use self::pump::Pump;
use self::wire::Wire;
use crate::config::BusConfig;
use data_encoding::HEXLOWER;
use rustls::crypto;
use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

/// The stack of the gate's thread, in bytes.
const STACK_BYTES: usize = 512 * 1024;

/// How the reason starts if the server rejects our authentication.
pub const REFUSES_CREDENTIALS: &str = "the server refuses the credentials";

/// What a gate tells its owner, on its own thread: the listener must only pass it on.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message of one of the gate's own subscriptions.
    Message(Taken<'a>),
    /// A large message is about to be passed to the library.
    Large {
        /// Its headers and body, in bytes.
        bytes: usize,
        /// Set it, and the message is left out.
        drop: &'a Cell<bool>,
    },
    /// The server protests (`-ERR`), in its own words.
    Protest(String),
    /// Something was changed on its way to the library, or left out, in words for people.
    Report(String),
    /// From now on the server takes messages of at most this many bytes.
    MaxPayload(usize),
    /// The server is about to shut down.
    LameDuck,
    /// Other servers of the cluster.
    Cluster(Cluster),
    /// The connection to the server ended: why.
    Ended(String),
}

/// Who is told what happens.
pub type Events = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// A server that has let us in.
pub struct Entered {
    wire: Wire,
    from_server: FromServer,
    settings: Arc<BusConfig>,
    info: Info,
    is_secure: bool,
    own: Vec<u64>,
    protests: Vec<String>,
}

impl Entered {
    /// What the server says of itself.
    pub const fn info(&self) -> &Info {
        &self.info
    }

    /// Other servers of the cluster, as this one says.
    pub fn cluster(&self) -> Cluster {
        self.info.cluster(self.is_secure)
    }

    /// What the server denied of the gate's own subscriptions, in its own words.
    pub fn take_protests(&mut self) -> Vec<String> {
        std::mem::take(&mut self.protests)
    }

    /// Starts the gate's thread, and opens the door for the library.
    pub fn start(self, events: Events) -> Result<Gate, String> {
        let fails = |what: &str, error: &dyn fmt::Display| format!("{what}: {error}");
        let secret = secret().ok_or("no random numbers can be had")?;
        let door = Door::open(secret.clone())
            .map_err(|error| fails("no port on the loopback can be opened", &error))?;
        let port = door.port().map_err(|error| fails("no port on the loopback can be opened", &error))?;
        let (owner, wake) = UnixStream::pair().map_err(|error| fails("no socket can be made", &error))?;
        let blocks = owner.set_nonblocking(true).and_then(|()| wake.set_nonblocking(true));
        blocks.map_err(|error| fails("no socket can be made", &error))?;
        let Entered { wire, from_server, settings, info, is_secure, own, .. } = self;
        let tls = settings.tls.clone();
        let pump = Pump { wire, from_server, wake, events, tls, info, is_secure, own };
        let thread =
            thread::Builder::new().name("gate".to_owned()).stack_size(STACK_BYTES).spawn(move || match door
                .admit(&pump.wake)
            {
                Ok(Some((library, said))) => pump.run(library, &said),
                Ok(None) => {}
                Err(error) => (pump.events)(Event::Ended(format!("the gate cannot be used: {error}"))),
            });
        thread.map_err(|error| fails("no thread can be started", &error))?;
        Ok(Gate { owner, port, secret })
    }
}

/// A gate that is open. Dropping it ends it.
#[derive(Debug)]
pub struct Gate {
    owner: UnixStream,
    port: u16,
    secret: String,
}

impl Gate {
    /// Where the library is to connect.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The token that it is to show there.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Ends the connection to the server. The library's pings are answered until it has ended too.
    pub fn abandon(&self) {
        self.tell(pump::ABANDON);
    }

    /// Ends both connections.
    pub fn cut(&self) {
        self.tell(pump::CUT);
    }

    /// Gives up the gate's own subscriptions.
    pub fn give_up_own(&self) {
        self.tell(pump::GIVE_UP_OWN);
    }

    /// Gives up the subscriptions that the library has made by now, at the server alone: the library still takes what is
    /// on its way to them.
    pub fn give_up_librarys(&self) {
        self.tell(pump::GIVE_UP_LIBRARYS);
    }

    fn tell(&self, word: u8) {
        // A gate that has ended reads nothing, and need not.
        (&self.owner).write_all(&[word]).ok();
    }
}

/// A secret that nobody can guess.
fn secret() -> Option<String> {
    let mut bytes = [0; 16];
    crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(HEXLOWER.encode(&bytes))
}

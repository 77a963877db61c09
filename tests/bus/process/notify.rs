//! What the supervisor is told: that the seat serves, how it is, and that its loop turns.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{END, IDLE_END};
use crate::support::mesh;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::wait::PATIENCE;

/// How often the supervisor wants to hear that the loop turns.
const WATCHDOG: Duration = Duration::from_secs(2);

/// A supervisor with its socket, as systemd has one.
struct Supervisor {
    socket: UnixDatagram,
    directory: TempDir,
}

impl Supervisor {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = UnixDatagram::bind(directory.path().join("notify")).expect("a socket");
        Self { socket, directory }
    }

    /// Starts a seat that reports here.
    fn start(&self, server: &Server) -> Seat {
        let path = self.directory.path().join("notify");
        let program = Seat::program(&server.client_url())
            .env("NOTIFY_SOCKET", path.to_str().expect("a path in UTF-8"))
            .env("WATCHDOG_USEC", &WATCHDOG.as_micros().to_string());
        Seat::spawn(&program, server)
    }

    /// The next notice, if one comes in time.
    fn hear(&self, within: Duration) -> Option<String> {
        let mut buffer = [0; 4096];
        self.socket.set_read_timeout(Some(within)).expect("a time-out");
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).expect("a notice in UTF-8"))
    }

    /// All notices up to one that begins with `last`.
    #[track_caller]
    fn hear_until(&self, last: &str, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        let mut heard = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let Some(notice) = self.hear(left) else {
                panic!("waited {within:?} for {last}, and heard {heard:?}")
            };
            let is_last = notice.starts_with(last);
            heard.push(notice);
            if is_last {
                return heard;
            }
        }
    }

    /// Waits for this many beats, and gives all that arrived meanwhile.
    #[track_caller]
    fn hear_beats(&self, count: usize) -> Vec<String> {
        (0..count).flat_map(|_| self.hear_until("WATCHDOG=1", PATIENCE)).collect()
    }
}

#[test]
fn ready_is_reported_once_the_seat_serves() {
    let mut server = Server::start();
    mesh::init(&server);
    server.kill();
    let supervisor = Supervisor::new();
    let mut seat = supervisor.start(&server);
    seat.wait_for_log("cannot connect", PATIENCE);
    let heard = supervisor.hear_beats(4);
    assert!(!heard.iter().any(|notice| notice.contains("READY")), "{heard:?}");
    let status = heard.iter().find(|notice| notice.starts_with("STATUS=")).expect("a status line");
    assert!(status.contains("not connected to the bus") && !status.contains('\n'), "{status:?}");
    server.restart();
    supervisor.hear_until("READY=1", PATIENCE);
    seat.wait_ready();
    seat.signal("TERM");
    supervisor.hear_until("STOPPING=1", PATIENCE);
    assert_eq!(seat.wait_exit(IDLE_END).code(), Some(0));
}

#[test]
fn the_watchdog_beats_while_the_loop_turns_and_only_then() {
    let server = Server::start();
    mesh::init(&server);
    let supervisor = Supervisor::new();
    let mut seat = supervisor.start(&server);
    supervisor.hear_until("READY=1", PATIENCE);
    // A pass that waits for a server which says nothing does not hold up the loop.
    server.freeze();
    seat.signal("HUP");
    seat.wait_for_log("registry pass requested", PATIENCE);
    supervisor.hear_beats(5);
    seat.freeze();
    while supervisor.hear(Duration::from_millis(1)).is_some() {}
    assert_eq!(supervisor.hear(WATCHDOG * 2), None);
    seat.thaw();
    supervisor.hear_beats(1);
    assert_eq!(seat.terminate(END).code(), Some(0));
    server.thaw();
}

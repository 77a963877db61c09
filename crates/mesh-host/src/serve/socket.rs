//! The socket: who may connect, and who is turned away.

use super::Event;
use crate::files::Accounts;
use crate::site::Site;
use crossbeam_channel::Sender;
use mesh_model::host_api::Line;
use rustix::fs::{Gid, Mode, chmod, chown};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long writing an answer may take.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// The group that may connect.
const GROUP: &str = "mesh";

/// The thread that takes connections.
pub(super) struct Listening {
    stop: Arc<AtomicBool>,
    path: PathBuf,
}

impl Listening {
    /// Takes no more connections, and removes the socket.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread.
        let _ = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens, and hands on the connections of those who may ask.
pub(super) fn listen(site: &Site, events: Sender<Event>) -> io::Result<(PathBuf, Listening)> {
    let path = site.run().join("host.sock");
    if UnixStream::connect(&path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("another mesh-host listens on {}", path.display()),
        ));
    }
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let group = Accounts::new(site.root()).group(GROUP);
    match group {
        Some(gid) if rustix::process::geteuid().is_root() => {
            chown(&path, None, Some(Gid::from_raw(gid)))?;
        }
        _ => log::warn!("there is no group {GROUP}: only root can connect"),
    }
    chmod(&path, Mode::from_raw_mode(0o660))?;
    let stop = Arc::new(AtomicBool::new(false));
    let listening = Listening { stop: Arc::clone(&stop), path: path.clone() };
    let settings_of = site.clone();
    std::thread::Builder::new().name("socket".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            match stream {
                Ok(stream) if may_ask(&stream, &settings_of) => {
                    if events.send(Event::Connection(stream)).is_err() {
                        break;
                    }
                }
                Ok(stream) => refuse(&stream, 403, "this user may not ask: root and the client may"),
                Err(error) => {
                    log::warn!("a connection cannot be taken: {error}");
                    // As when there are no more file descriptors: it would fail again at once.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    })?;
    Ok((path, listening))
}

/// Root, and the user of the client, by the kernel's word.
fn may_ask(stream: &UnixStream, site: &Site) -> bool {
    let Ok(peer) = socket_peercred(stream) else { return false };
    let uid = peer.uid.as_raw();
    uid == 0
        || uid == rustix::process::geteuid().as_raw()
        || site.settings().is_ok_and(|settings| settings.client_uid == uid)
}

/// Answers an error in one line, and hangs up.
pub(super) fn refuse(stream: &UnixStream, code: u16, message: &str) {
    let line = Line::Error { code, message: message.to_owned() };
    let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
    let _ = stream.set_write_timeout(Some(WRITE_WITHIN));
    // Who does not wait for it has no need of it.
    if (&mut &*stream).write_all(text.as_bytes()).is_ok() {
        drain(stream, Duration::from_millis(100));
    }
}

/// Reads what is still coming: a socket that is closed with something unread takes the answer with it.
pub(super) fn drain(stream: &UnixStream, within: Duration) {
    let until = Instant::now() + within;
    let _ = stream.shutdown(Shutdown::Write);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&mut &*stream).read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

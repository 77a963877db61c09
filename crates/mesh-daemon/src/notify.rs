//! Notifications to systemd: one datagram each, in the format of `sd_notify(3)`.
//!
//! Without `NOTIFY_SOCKET`, as in a container, nothing is sent and nothing fails.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket of the service manager, if there is one. A notification never blocks.
#[derive(Debug)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog_interval: Option<Duration>,
}

impl Notify {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. A socket that is neither a path nor an abstract
    /// name is an error; a watchdog for another process is ignored.
    pub fn from_environment(environment: &dyn Fn(&str) -> Option<String>) -> io::Result<Self> {
        let set = |name| environment(name).filter(|value| !value.is_empty());
        let manager = match set("NOTIFY_SOCKET") {
            Some(name) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                Some((socket, address(&name)?))
            }
            None => None,
        };
        let ours = set("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let limit = set("WATCHDOG_USEC").and_then(|text| text.parse().ok()).filter(|&limit| limit > 0);
        let watchdog_interval =
            limit.filter(|_| ours && manager.is_some()).map(|limit| Duration::from_micros(limit) / 2);
        Ok(Self { manager, watchdog_interval })
    }

    /// How often to call [`Notify::watchdog`]: half of systemd's limit, as its manual advises.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog_interval
    }

    /// Reports that the service is up. Returns whether systemd got the notification, or there is no systemd; if not,
    /// report it again later.
    #[must_use = "a service that is not known to be ready is killed in the end"]
    pub fn ready(&self) -> bool {
        self.tell("READY=1")
    }

    /// Sets the line that `systemctl status` shows.
    pub fn status(&self, line: &str) {
        // A line end would begin another assignment.
        let line = line.replace(char::is_control, " ");
        self.tell(&format!("STATUS={line}"));
    }

    /// Reports that the loop turns.
    pub fn watchdog(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Reports that the service is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Returns whether the notification was accepted. A full socket or a missing manager changes nothing else.
    fn tell(&self, notice: &str) -> bool {
        match &self.manager {
            Some((socket, manager)) => socket.send_to_addr(notice.as_bytes(), manager).is_ok(),
            None => true,
        }
    }
}

/// A path, or an abstract name after an `@`.
fn address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        None => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("NOTIFY_SOCKET {name:?} is neither a path nor an abstract name"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(variables: &[(&str, &str)]) -> io::Result<Notify> {
        Notify::from_environment(&|name| {
            variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn heard(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn the_manager_hears_each_notice() {
        let path = std::env::temp_dir().join(format!("mesh-notify-{}", std::process::id()));
        let abstract_name = format!("mesh-notify-{}", std::process::id());
        let of_name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (name, manager) in [
            (path.to_str().unwrap().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{abstract_name}"), UnixDatagram::bind_addr(&of_name).unwrap()),
        ] {
            let notify = notify(&[("NOTIFY_SOCKET", &name)]).unwrap();
            assert!(notify.ready());
            notify.status("serving\nMAINPID=1\u{1b}");
            notify.watchdog();
            notify.stopping();
            let notices = [(); 4].map(|()| heard(&manager));
            assert_eq!(notices, ["READY=1", "STATUS=serving MAINPID=1 ", "WATCHDOG=1", "STOPPING=1"]);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_manager_that_does_not_listen_blocks_nobody() {
        let path = std::env::temp_dir().join(format!("mesh-notify-full-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = notify(&[("NOTIFY_SOCKET", path.to_str().unwrap())]).unwrap();
        while notify.ready() {}
        heard(&manager);
        assert!(notify.ready());
        drop(manager);
        assert!(!notify.ready());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn without_a_manager_there_is_nothing_to_tell() {
        let alone = notify(&[("NOTIFY_SOCKET", ""), ("WATCHDOG_USEC", "1000")]).unwrap();
        assert!(alone.ready());
        assert_eq!(alone.watchdog_interval(), None);
        let error = notify(&[("NOTIFY_SOCKET", "vsock:2:1234")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "NOTIFY_SOCKET \"vsock:2:1234\" is neither a path nor an abstract name"
        );
    }

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time() {
        let pid = std::process::id().to_string();
        let interval = |more: &[(&str, &str)]| {
            let variables = [&[("NOTIFY_SOCKET", "@nobody")], more].concat();
            notify(&variables).unwrap().watchdog_interval()
        };
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[("WATCHDOG_USEC", "30000000")]), Some(Duration::from_secs(15)));
        assert_eq!(
            interval(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", &pid)]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(interval(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "0")]), None);
        assert_eq!(interval(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(interval(&[("WATCHDOG_USEC", "soon")]), None);
    }
}

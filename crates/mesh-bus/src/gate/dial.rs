//! Finding a server and reading its greeting, with a bound on every step.

use super::info::{self, Info};
use crate::config::address::Address;
use crossbeam_channel::bounded;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many addresses of one name are tried: each has to have a fair share of the time.
const MAX_SOCKETS: usize = 8;

/// The longest greeting. It lists every server of the cluster.
const MAX_GREETING: usize = super::from_server::MAX_LINE_BYTES;

/// How many names may be looked up at once. The system's look-up has no bound of its own that we could set, so each has
/// a thread, which ends when the system gives up.
const MAX_LOOKUPS: usize = 4;

/// The stack of such a thread, in bytes: the C library's look-up takes some.
const STACK_BYTES: usize = 512 * 1024;

static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// Resolves the name, dials its addresses and reads the greeting. Returns the socket and what came after the line.
///
/// Each of the two steps takes at most `within`, also against a server that sends a byte at a time; of several addresses
/// each gets its share. The error is words for the operator, without the address, which the caller knows.
pub(super) fn dial(
    address: &Address,
    within: Duration,
    doing: &dyn Fn(String),
) -> Result<(TcpStream, Info, Vec<u8>), String> {
    doing(format!("looking up the name {:?}", address.host));
    let sockets = look_up(&address.host, address.port, within)?;
    doing(format!("waiting for {address} to greet"));
    let until = Instant::now() + within;
    let mut failures = Vec::new();
    for (tried, socket) in sockets.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(sockets.len() - tried).unwrap_or(u32::MAX);
        if share.is_zero() {
            failures.push(format!("{socket}: no time was left to try it"));
            continue;
        }
        match greet(*socket, share) {
            Ok(greeted) => return Ok(greeted),
            Err(why) if sockets.len() == 1 => return Err(why),
            Err(why) => failures.push(format!("{socket}: {why}")),
        }
    }
    Err(failures.join("; "))
}

/// At least one address.
fn look_up(host: &str, port: u16, within: Duration) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let name = host.to_owned();
    look_up_by(host, within, move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter))
}

/// The addresses that `resolve` finds. It runs in a thread of its own, and is left behind when the time is up.
fn look_up_by(
    host: &str,
    within: Duration,
    resolve: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, String> {
    if LOOKUPS.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKUPS {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        return Err(format!(
            "the name {host:?} was not looked up: the name servers have not answered others"
        ));
    }
    let (sender, found) = bounded(1);
    let spawned =
        thread::Builder::new().name("look-up".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            sender.try_send(resolve()).ok();
            LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        });
    if let Err(error) = spawned {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        return Err(format!("no thread can be started to look up the name {host:?}: {error}"));
    }
    let found = found
        .recv_timeout(within)
        .map_err(|_| {
            format!(
                "the name {host:?} could not be looked up in {}: the name servers do not answer",
                seconds(within)
            )
        })?
        .map_err(|error| format!("the name {host:?} cannot be looked up: {error}"))?;
    let mut sockets = Vec::new();
    for socket in found {
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }
    sockets.truncate(MAX_SOCKETS);
    if sockets.is_empty() { Err(format!("the name {host:?} has no address")) } else { Ok(sockets) }
}

fn greet(socket: SocketAddr, within: Duration) -> Result<(TcpStream, Info, Vec<u8>), String> {
    let until = Instant::now() + within;
    let stream = TcpStream::connect_timeout(&socket, within).map_err(|error| refusal(&error, within))?;
    let mut line = Vec::new();
    let ended = read_line(&stream, &mut line, until).map_err(|error| refusal(&error, within))?;
    match ended {
        Ended::Whole(end) => {
            let rest = line.split_off(end);
            Ok((stream, Info::greeting(&line)?, rest))
        }
        Ended::Closed if line.is_empty() => {
            Err(format!("the server closed the connection without a word ({SILENT})"))
        }
        Ended::OutOfTime if line.is_empty() => Err(format!(
            "the server accepted the connection and sent nothing in {} ({SILENT})",
            seconds(within)
        )),
        Ended::Closed if line.starts_with(b"INFO") => {
            Err("the server closed the connection in the middle of its greeting".to_owned())
        }
        Ended::OutOfTime if line.starts_with(b"INFO") => {
            Err(format!("the server did not finish its greeting in {}", seconds(within)))
        }
        Ended::Closed | Ended::OutOfTime | Ended::Full => Err(info::stranger(&line)),
    }
}

/// What a silent server may be.
const SILENT: &str =
    "it hangs, or speaks TLS first (handshake_first), which is not supported, or is not a NATS server";

/// How the reading of a line ended.
enum Ended {
    /// With its line end; the rest begins after it.
    Whole(usize),
    /// [`MAX_GREETING`] bytes came without one.
    Full,
    /// The server closed the connection.
    Closed,
    /// The time was up.
    OutOfTime,
}

fn read_line(mut stream: &TcpStream, line: &mut Vec<u8>, until: Instant) -> io::Result<Ended> {
    let mut buffer = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Ended::OutOfTime);
        }
        stream.set_read_timeout(Some(left))?;
        let before = line.len();
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Ended::Closed),
            Ok(count) => line.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Ended::OutOfTime);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if let Some(end) = memchr::memchr(b'\n', &line[before..]) {
            return Ok(Ended::Whole(before + end + 1));
        }
        if line.len() >= MAX_GREETING {
            return Ok(Ended::Full);
        }
    }
}

fn refusal(error: &io::Error, within: Duration) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            "refused: nothing listens there: look whether its nats-server runs".to_owned()
        }
        ErrorKind::TimedOut => format!("no answer within {}: wrong address, or a firewall", seconds(within)),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "there is no route to it".to_owned(),
        ErrorKind::ConnectionReset => "the server reset the connection before it greeted".to_owned(),
        _ => error.to_string(),
    }
}

/// `3 s`, `1.5 s`.
pub(super) fn seconds(duration: Duration) -> String {
    let tenths = (duration.as_millis() + 50) / 100;
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        tenth => format!("{}.{tenth} s", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::Mutex;

    const INFO: &str = r#"INFO {"server_id":"NA","version":"2.10.7","max_payload":1048576,"client_id":5} "#;

    /// Serves one client, and says how the dialling ended and how long it took.
    fn look(
        within: Duration,
        serve: impl FnOnce(TcpStream) + Send + 'static,
    ) -> (Result<(Info, Vec<u8>), String>, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0));
        let start = Instant::now();
        let result = dial(&Address { tls: false, host: "127.0.0.1".to_owned(), port }, within, &|_| {});
        let took = start.elapsed();
        let result = result.map(|(_, info, rest)| (info, rest));
        server.join().unwrap();
        (result, took)
    }

    fn said(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<(Info, Vec<u8>), String> {
        look(Duration::from_secs(3), move |mut stream| stream.write_all(bytes.as_ref()).unwrap()).0
    }

    #[test]
    fn a_greeting_is_read() {
        let (info, rest) = said(format!("{INFO}\r\nPING\r\n")).unwrap();
        assert_eq!((info.version.as_str(), &rest[..]), ("2.10.7", &b"PING\r\n"[..]));
    }

    #[test]
    fn a_greeting_may_list_hundreds_of_servers() {
        let urls: Vec<String> = (0..200).map(|n| format!("\"10.0.{n}.1:4222\"")).collect();
        let (info, _) =
            said(format!("{}\r\n", INFO.replace('}', &format!(r#","connect_urls":[{}]}}"#, urls.join(",")))))
                .unwrap();
        assert_eq!(info.cluster(false).servers.len(), 200);
    }

    #[test]
    fn a_silent_server_is_given_up_in_time() {
        let (result, took) = look(Duration::from_millis(300), |mut stream| {
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(
            result,
            Err(format!("the server accepted the connection and sent nothing in 0.3 s ({SILENT})"))
        );
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn a_server_that_drips_is_given_up_in_time() {
        let (result, took) = look(Duration::from_millis(300), |mut stream| {
            for byte in INFO.bytes() {
                if stream.write_all(&[byte]).is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(result, Err("the server did not finish its greeting in 0.3 s".to_owned()));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn what_does_not_greet_is_said() {
        assert_eq!(said(""), Err(format!("the server closed the connection without a word ({SILENT})")));
        assert_eq!(
            said("INFO {"),
            Err("the server closed the connection in the middle of its greeting".to_owned())
        );
    }

    /// Look-ups are counted for the whole process.
    static LOOKING_UP: Mutex<()> = Mutex::new(());

    /// As the system's look-up does while no name server answers.
    #[test]
    fn g11_silent_name_servers_are_given_up_in_time_and_named_and_hold_few_threads() {
        let _turn = LOOKING_UP.lock().unwrap();
        let (answered, answer) = bounded::<()>(0);
        let silent = |host: &str| {
            let answer = answer.clone();
            look_up_by(host, Duration::from_millis(100), move || {
                answer.recv().ok();
                Ok(vec![([127, 0, 0, 1], 4222).into()])
            })
        };
        let words =
            "the name \"bus.example\" could not be looked up in 0.1 s: the name servers do not answer"
                .to_owned();
        for _ in 0..MAX_LOOKUPS {
            assert_eq!(silent("bus.example"), Err(words.clone()));
        }
        let words = "the name \"other.example\" was not looked up: the name servers have not answered others";
        assert_eq!(silent("other.example"), Err(words.to_owned()));
        // They answer again, and so do we.
        drop(answered);
        let until = Instant::now() + Duration::from_secs(5);
        while LOOKUPS.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            thread::yield_now();
        }
        assert_eq!(silent("bus.example"), Ok(vec![([127, 0, 0, 1], 4222).into()]));
    }

    #[test]
    fn each_address_of_a_name_gets_its_share() {
        let _turn = LOOKING_UP.lock().unwrap();
        assert!(look_up("localhost", 4222, Duration::from_secs(5)).is_ok());
        let error = look_up("no.such.host.invalid", 4222, Duration::from_secs(5)).unwrap_err();
        assert!(error.contains("no.such.host.invalid"), "{error}");
    }
}

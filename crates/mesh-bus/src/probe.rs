//! A bounded look at a server before the client library is let near it.
//!
//! The library's first connect waits for the server's greeting without any limit, and says little when there
//! is none. So we dial first, on a connection of our own, read the greeting, and say in plain words what is
//! there if it is no server that the library can talk to.
//!
//! The look costs the server a connection that closes after its greeting. A server that requires TLS writes
//! that into its own log as a failed handshake.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::config::address::Address;

/// The longest greeting line that the client library can read, its line end included.
const MAX_LINE: usize = 4096;

/// How many addresses of one name are tried: each has to have a fair share of the time.
const MAX_SOCKETS: usize = 8;

/// How much of what a stranger said is quoted, in bytes.
const MAX_QUOTE: usize = 60;

/// What a server says of itself in its INFO line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "so the protocol has it")]
pub struct Greeting {
    /// The server's id, new at each of its starts.
    pub server_id: String,
    /// The server's name; its id when nobody gave it one. Empty from a server that sends none.
    pub name: String,
    /// The server's version, such as `2.10.7`.
    pub version: String,
    /// The largest message that the server takes, in bytes, headers included.
    pub max_payload: usize,
    /// Whether a client has to authenticate.
    pub auth_required: bool,
    /// Whether a client has to speak TLS from here on.
    pub tls_required: bool,
    /// Whether a client may speak TLS from here on.
    pub speaks_tls: bool,
    /// Whether messages may have headers. Without them this program cannot work.
    pub headers: bool,
    /// Whether `JetStream` is on, as far as the server says it.
    pub jetstream: bool,
    /// Whether the server is about to stop and wants no new clients.
    pub lame_duck: bool,
    /// The other ways into the cluster; one that cannot be read is left out.
    pub connect_urls: Vec<Address>,
    /// The cluster's name, where there is one.
    pub cluster: Option<String>,
    /// The `JetStream` domain, where there is one.
    pub domain: Option<String>,
}

/// INFO as the server sends it. What has no default here is what the library refuses to do without, wanted or
/// not.
#[derive(Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "so the protocol has it")]
struct Info {
    server_id: String,
    #[serde(default)]
    server_name: String,
    version: String,
    #[serde(rename = "host")]
    _host: String,
    #[serde(rename = "port")]
    _port: u16,
    #[serde(rename = "proto")]
    _proto: i8,
    #[serde(rename = "client_id")]
    _client_id: u64,
    #[serde(rename = "go")]
    _go: String,
    max_payload: usize,
    #[serde(default)]
    auth_required: bool,
    #[serde(default)]
    tls_required: bool,
    #[serde(default)]
    tls_available: bool,
    #[serde(default)]
    headers: bool,
    #[serde(default)]
    jetstream: bool,
    #[serde(default)]
    ldm: bool,
    #[serde(default)]
    connect_urls: Vec<String>,
    cluster: Option<String>,
    domain: Option<String>,
}

/// Looks the name up, dials what it stands for and reads the greeting: which of its addresses answered, and
/// how.
///
/// All of it together takes at most `within`, also against a server that sends a byte at a time; of several
/// addresses each gets its share. The one exception is the look-up of the name, which the standard library
/// does not bound: call this on a thread that may be given up.
///
/// The error is words for the operator, without the address, which the caller knows.
pub fn probe(address: &Address, within: Duration) -> Result<(SocketAddr, Greeting), String> {
    let until = Instant::now() + within;
    let sockets = look_up(address)?;
    first_greeting(&sockets, until)
}

fn first_greeting(sockets: &[SocketAddr], until: Instant) -> Result<(SocketAddr, Greeting), String> {
    let mut failures = Vec::new();
    for (tried, socket) in sockets.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(sockets.len() - tried).unwrap_or(u32::MAX);
        if share.is_zero() {
            failures.push((socket, "no time was left to try it".to_owned()));
            continue;
        }
        match greet(*socket, share) {
            Ok(greeting) => return Ok((*socket, greeting)),
            Err(why) => failures.push((socket, why)),
        }
    }
    Err(match &failures[..] {
        [(_, why)] => why.clone(),
        several => {
            let each: Vec<String> = several.iter().map(|(socket, why)| format!("{socket}: {why}")).collect();
            each.join("; ")
        }
    })
}

/// At least one address.
fn look_up(address: &Address) -> Result<Vec<SocketAddr>, String> {
    let found = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|error| format!("the name {:?} cannot be looked up: {error}", address.host))?;
    let mut sockets = Vec::new();
    for socket in found {
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }
    sockets.truncate(MAX_SOCKETS);
    if sockets.is_empty() {
        return Err(format!("the name {:?} has no address", address.host));
    }
    Ok(sockets)
}

fn greet(socket: SocketAddr, within: Duration) -> Result<Greeting, String> {
    let until = Instant::now() + within;
    let stream = TcpStream::connect_timeout(&socket, within).map_err(|error| refusal(&error, within))?;
    let mut line = Vec::new();
    let ended = read_line(&stream, &mut line, until).map_err(|error| refusal(&error, within))?;
    match ended {
        Ended::Whole => parse_info(&line),
        Ended::Full if is_info(&line) => Err(format!(
            "its INFO line is longer than the {MAX_LINE} bytes that the client library can read; \
             it lists every server of the cluster: set no_advertise there"
        )),
        Ended::Closed if line.is_empty() => {
            Err(format!("the server closed the connection without a word ({SILENT})"))
        }
        Ended::OutOfTime if line.is_empty() => Err(format!(
            "the server accepted the connection and said nothing in {} ({SILENT})",
            seconds(within)
        )),
        Ended::Closed if is_info(&line) => {
            Err("the server closed the connection in the middle of its greeting".to_owned())
        }
        Ended::OutOfTime if is_info(&line) => {
            Err(format!("the server did not finish its greeting in {}", seconds(within)))
        }
        Ended::Full | Ended::Closed | Ended::OutOfTime => Err(stranger(&line)),
    }
}

/// What a silent server may be.
const SILENT: &str =
    "it hangs, or speaks TLS first (handshake_first), which is not supported, or is no NATS server";

/// How the reading of a line ended.
enum Ended {
    /// With its line end, which is not kept.
    Whole,
    /// [`MAX_LINE`] bytes came without one.
    Full,
    /// The server closed the connection.
    Closed,
    /// The time was up.
    OutOfTime,
}

fn read_line(mut stream: &TcpStream, line: &mut Vec<u8>, until: Instant) -> io::Result<Ended> {
    let mut buffer = [0; MAX_LINE];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Ended::OutOfTime);
        }
        stream.set_read_timeout(Some(left))?;
        let room = MAX_LINE - line.len();
        match stream.read(&mut buffer[..room]) {
            Ok(0) => return Ok(Ended::Closed),
            Ok(count) => line.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Ended::OutOfTime);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if let Some(end) = line.windows(2).position(|two| two == b"\r\n") {
            line.truncate(end);
            return Ok(Ended::Whole);
        }
        if line.len() == MAX_LINE {
            return Ok(Ended::Full);
        }
    }
}

fn refusal(error: &io::Error, within: Duration) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "refused: nothing listens there".to_owned(),
        ErrorKind::TimedOut => format!("no answer within {}: wrong address, or a firewall", seconds(within)),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "there is no route to it".to_owned(),
        ErrorKind::ConnectionReset => "the server reset the connection before it greeted".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads a server's first line, with or without its line end. The error is words for the operator; what the
/// server said is in them only with its control bytes escaped.
pub fn parse_info(line: &[u8]) -> Result<Greeting, String> {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    if let Some(reason) = line.strip_prefix(b"-ERR") {
        return Err(format!("the server turns clients away: {}", quote(reason.trim_ascii())));
    }
    if !is_info(line) {
        return Err(stranger(line));
    }
    let info: Info = serde_json::from_slice(&line[b"INFO".len()..]).map_err(|error| {
        // The ports for the cluster and for leaf nodes greet too, without a `client_id`.
        format!(
            "its INFO is not one that the client library can read (is this its port for clients?): {error}"
        )
    })?;
    Ok(Greeting {
        server_id: info.server_id,
        name: info.server_name,
        version: info.version,
        max_payload: info.max_payload,
        auth_required: info.auth_required,
        tls_required: info.tls_required,
        speaks_tls: info.tls_required || info.tls_available,
        headers: info.headers,
        jetstream: info.jetstream,
        lame_duck: info.ldm,
        connect_urls: info.connect_urls.iter().filter_map(|url| url.parse().ok()).collect(),
        cluster: info.cluster,
        domain: info.domain,
    })
}

fn is_info(line: &[u8]) -> bool {
    line.strip_prefix(b"INFO").is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'\t')))
}

fn stranger(line: &[u8]) -> String {
    format!("this is not a NATS server: it said {}", quote(line))
}

fn quote(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(MAX_QUOTE)];
    format!("\"{}\"{}", shown.escape_ascii(), if shown.len() < bytes.len() { " …" } else { "" })
}

/// `3 s`, `1.5 s`.
fn seconds(duration: Duration) -> String {
    let tenths = (duration.as_millis() + 50) / 100;
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        tenth => format!("{}.{tenth} s", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const INFO: &str = concat!(
        r#"INFO {"server_id":"NA","server_name":"n1","version":"2.10.7","proto":1,"go":"go1.21","#,
        r#""host":"0.0.0.0","port":4222,"headers":true,"max_payload":1048576,"client_id":5,"#,
        r#""jetstream":true,"auth_required":true,"ldm":true,"nonce":"x","cluster":"c","domain":"hub","#,
        r#""connect_urls":["10.0.0.1:4222","[::1]:4333","what is this"],"of_tomorrow":1} "#,
    );

    fn n1() -> Greeting {
        Greeting {
            server_id: "NA".to_owned(),
            name: "n1".to_owned(),
            version: "2.10.7".to_owned(),
            max_payload: 1_048_576,
            auth_required: true,
            tls_required: false,
            speaks_tls: false,
            headers: true,
            jetstream: true,
            lame_duck: true,
            connect_urls: vec!["10.0.0.1:4222".parse().unwrap(), "[::1]:4333".parse().unwrap()],
            cluster: Some("c".to_owned()),
            domain: Some("hub".to_owned()),
        }
    }

    /// Serves one client, and says how the look at it ended and how long it took.
    fn look(
        within: Duration,
        serve: impl FnOnce(TcpStream) + Send + 'static,
    ) -> (Result<Greeting, String>, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0));
        let start = Instant::now();
        let result = probe(&Address { tls: false, host: "127.0.0.1".to_owned(), port }, within);
        let took = start.elapsed();
        server.join().unwrap();
        (result.map(|(_, greeting)| greeting), took)
    }

    fn said(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Greeting, String> {
        look(Duration::from_secs(3), move |mut stream| stream.write_all(bytes.as_ref()).unwrap()).0
    }

    #[test]
    fn a_server_that_greets() {
        assert_eq!(said(format!("{INFO}\r\n")), Ok(n1()));
        assert_eq!(said(format!("{INFO}\r\nPING\r\n")), Ok(n1()));
    }

    #[test]
    fn a_silent_server_is_given_up_in_time() {
        let (result, took) = look(Duration::from_millis(300), |mut stream| {
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(
            result,
            Err(format!("the server accepted the connection and said nothing in 0.3 s ({SILENT})"))
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
    fn what_is_no_server_is_said() {
        assert_eq!(said(""), Err(format!("the server closed the connection without a word ({SILENT})")));
        assert_eq!(
            said("INFO {"),
            Err("the server closed the connection in the middle of its greeting".to_owned())
        );
        assert_eq!(
            said("SSH-2.0-OpenSSH_9.2\r\n"),
            Err(r#"this is not a NATS server: it said "SSH-2.0-OpenSSH_9.2""#.to_owned())
        );
        assert_eq!(
            said([b'\x1b', b'[', 0xff, b'"', b'\n']),
            Err(r#"this is not a NATS server: it said "\x1b[\xff\"\n""#.to_owned())
        );
        assert_eq!(
            said("-ERR 'maximum connections exceeded'\r\n"),
            Err(r#"the server turns clients away: "\'maximum connections exceeded\'""#.to_owned())
        );
        assert_eq!(
            said("x".repeat(5000)),
            Err(format!("this is not a NATS server: it said \"{}\" …", "x".repeat(60)))
        );
    }

    #[test]
    fn a_greeting_as_long_as_the_library_can_read() {
        let pad = |length: usize| {
            let end = "\"}\r\n";
            let start = INFO.trim_end().strip_suffix('}').unwrap().to_owned() + ",\"pad\":\"";
            let fill = "x".repeat(length - start.len() - end.len());
            start + &fill + end
        };
        assert_eq!(said(pad(4096)), Ok(n1()));
        assert_eq!(
            said(pad(4097)),
            Err("its INFO line is longer than the 4096 bytes that the client library can read; \
                 it lists every server of the cluster: set no_advertise there"
                .to_owned())
        );
    }

    #[test]
    fn nobody_there() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nobody = Address { tls: false, host: "127.0.0.1".to_owned(), port };
        assert_eq!(probe(&nobody, Duration::from_secs(3)), Err("refused: nothing listens there".to_owned()));
        // A label of 64 bytes is no name: no resolver is asked.
        let host = "x".repeat(64);
        let words = probe(&Address { host: host.clone(), ..nobody }, Duration::from_secs(3)).unwrap_err();
        assert!(words.starts_with(&format!("the name {host:?} cannot be looked up: ")), "{words}");
    }

    #[test]
    fn each_address_has_its_share_of_the_time() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let [first, second] = [&silent, &good].map(|listener| listener.local_addr().unwrap());
        let server =
            thread::spawn(move || good.accept().unwrap().0.write_all(format!("{INFO}\r\n").as_bytes()));
        let soon = || Instant::now() + Duration::from_secs(1);
        assert_eq!(first_greeting(&[first, second], soon()), Ok((second, n1())));
        server.join().unwrap().unwrap();
        assert_eq!(
            first_greeting(&[second, first, first], Instant::now() + Duration::from_millis(400)),
            Err(format!(
                "{second}: refused: nothing listens there; \
                 {first}: the server accepted the connection and said nothing in 0.2 s ({SILENT}); \
                 {first}: the server accepted the connection and said nothing in 0.2 s ({SILENT})"
            ))
        );
        assert_eq!(first_greeting(&[first], Instant::now()), Err("no time was left to try it".to_owned()));
    }

    #[test]
    fn an_info_that_the_library_cannot_read() {
        assert_eq!(
            parse_info(b"INFO {\"server_id\":\"NA\"}\r\n"),
            Err("its INFO is not one that the client library can read \
                 (is this its port for clients?): missing field `version` at line 1 column 19"
                .to_owned())
        );
        assert_eq!(
            parse_info(b"INFO nonsense"),
            Err("its INFO is not one that the client library can read \
                 (is this its port for clients?): expected ident at line 1 column 3"
                .to_owned())
        );
    }

    #[test]
    fn no_line_upsets_the_reading() {
        for line in
            [&b""[..], b"\r\n", b"INFO", b"INFO ", b"INFO \xff", b"INFO {}", b"INFO []", b"-ERR", b"\0"]
        {
            assert!(parse_info(line).is_err(), "{line:?}");
        }
        for end in 0..INFO.trim_end().len() {
            assert!(parse_info(&INFO.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn durations_in_words() {
        assert_eq!(seconds(Duration::from_secs(3)), "3 s");
        assert_eq!(seconds(Duration::from_millis(1_499)), "1.5 s");
        assert_eq!(seconds(Duration::from_millis(2_980)), "3 s");
    }
}

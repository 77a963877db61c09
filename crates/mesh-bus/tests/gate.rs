//! The real client library behind the gate, with a server that says whatever bytes it likes.

#![expect(deprecated, reason = "upstream deprecates the whole synchronous client")]

use mesh_bus::config::address::Address;
use mesh_bus::config::{Auth, BusConfig, Tls};
use mesh_bus::gate::{self, Event, Events, Gate};
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// A server for one client, which lets everybody in, answers pings, and says what it is told to.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    fn start() -> (u16, Receiver<Peer>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, peers) = channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            stream
                .write_all(b"INFO {\"server_id\":\"S\",\"version\":\"2.15.1\",\"headers\":true,\"max_payload\":1048576,\"client_id\":1}\r\n")
                .unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while !line.starts_with("PING") {
                line.clear();
                if lines.read_line(&mut line).unwrap() == 0 {
                    return;
                }
            }
            stream.write_all(b"PONG\r\n").unwrap();
            sender.send(Peer { stream: stream.try_clone().unwrap() }).unwrap();
            // What the tests send has no bodies with a ping in them.
            while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
                if line.starts_with("PING") && stream.write_all(b"PONG\r\n").is_err() {
                    return;
                }
                line.clear();
            }
        });
        (port, peers)
    }
}

/// The library, connected through a gate.
struct Behind {
    gate: Gate,
    connection: nats::Connection,
    peer: Peer,
    disconnects: Arc<AtomicUsize>,
    told: Arc<Mutex<Vec<String>>>,
}

fn behind() -> Behind {
    let (port, peers) = Peer::start();
    let servers = vec![Address { tls: false, host: "127.0.0.1".to_owned(), port }];
    let settings = Arc::new(BusConfig { servers, auth: Auth::None, tls: Tls::default(), inbox_prefix: None });
    let entered =
        gate::enter(&settings.servers[0], &settings, "test", &["inbox.*".to_owned()], &|_| {}).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let events: Events = {
        let told = Arc::clone(&told);
        Arc::new(move |event: Event<'_>| told.lock().unwrap().push(format!("{event:?}")))
    };
    let gate = entered.start(events).unwrap();
    let disconnects = Arc::new(AtomicUsize::new(0));
    let connection = {
        let disconnects = Arc::clone(&disconnects);
        nats::Options::with_token(gate.secret())
            .max_reconnects(1)
            .add_root_certificate("/dev/null")
            .disconnect_callback(move || {
                disconnects.fetch_add(1, Ordering::Relaxed);
            })
            .connect(gate.url())
            .unwrap()
    };
    Behind { gate, connection, peer: peers.recv_timeout(PATIENCE).unwrap(), disconnects, told }
}

impl Behind {
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    #[track_caller]
    fn wait_told(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.told().iter().any(|told| told.contains(words)) {
            assert!(Instant::now() < until, "waited for {words:?}, and was told {:?}", self.told());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the library, which has to be quick, whatever state the connection is in.
    #[track_caller]
    fn close(self) {
        let (sender, closed): (Sender<()>, _) = channel();
        self.gate.abandon();
        let connection = self.connection;
        thread::spawn(move || {
            connection.close();
            sender.send(()).ok();
        });
        closed.recv_timeout(Duration::from_secs(2)).expect("the library to let go");
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    let odd = |byte: &u8| !b" \t\r\n".contains(byte);
    prop_oneof![
        2 => Just(b"a".to_vec()),
        2 => proptest::collection::vec(any::<u8>().prop_filter("no blank", odd), 1..20),
        1 => prop_oneof![Just("\u{a0}"), Just("\u{2028}x"), Just("\u{1}\u{85}")].prop_map(Into::into),
        1 => (1000_usize..9000).prop_map(|length| vec![b'"'; length]),
    ]
}

/// Something a server may say, as hostile as its clients can make it.
fn op() -> impl Strategy<Value = Vec<u8>> {
    let sid = prop_oneof![4 => Just(1_u64), 1 => Just(1 << 32), 1 => any::<u64>()];
    let block = prop_oneof![
        bytes(60),
        bytes(60).prop_map(|bytes| [b"NATS/1.0\r\nno colon\r\n", &bytes[..], b"\r\n\r\n"].concat()),
        Just(b"NATS/1.0 503\r\n\r\n".to_vec()),
    ];
    prop_oneof![
        4 => (word(), sid.clone(), proptest::option::of(word()), bytes(3000)).prop_map(|(subject, sid, reply, body)| {
            let reply = reply.map(|reply| [&reply[..], b" "].concat()).unwrap_or_default();
            [b"MSG ", &subject[..], format!(" {sid} ").as_bytes(), &reply, format!("{}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat()
        }),
        4 => (word(), sid, word(), block, bytes(300)).prop_map(|(subject, sid, reply, block, body)| {
            let sizes = format!(" {} {}\r\n", block.len(), block.len() + body.len());
            [b"HMSG ", &subject[..], format!(" {sid} ").as_bytes(), &reply, sizes.as_bytes(), &block, &body, b"\r\n"].concat()
        }),
        1 => Just(b"PONG\r\n".to_vec()),
        1 => Just(b"PING\r\n".to_vec()),
        1 => word().prop_map(|words| [b"-ERR '", &words[..], b"'\r\n"].concat()),
        1 => word().prop_map(|words| [b"INFO ", &words[..], b"\r\n"].concat()),
        1 => word().prop_map(|words| [&words[..], b"\r\n"].concat()).prop_filter("no message", |line| {
            !line.to_ascii_uppercase().starts_with(b"MSG") && !line.to_ascii_uppercase().starts_with(b"HMSG")
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn hostile_bytes_in_any_segments_never_cost_the_library_its_connection(
        ops in proptest::collection::vec(op(), 1..30),
        cuts in proptest::collection::vec(1_usize..3000, 1..20),
    ) {
        let mut behind = behind();
        let subscription = behind.connection.subscribe("a").unwrap();
        behind.connection.flush().unwrap();
        let said = [&ops.concat()[..], b"MSG end 1 2\r\nok\r\n"].concat();
        let mut rest = &said[..];
        for cut in cuts.iter().cycle() {
            let (segment, after) = rest.split_at((*cut).min(rest.len()));
            behind.peer.stream.write_all(segment).unwrap();
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        loop {
            let message = subscription.next_timeout(PATIENCE).expect("the last message to come through");
            if message.subject == "end" && message.data == b"ok" {
                break;
            }
        }
        behind.connection.flush().unwrap();
        prop_assert_eq!(behind.disconnects.load(Ordering::Relaxed), 0);
        behind.close();
    }
}

#[test]
fn messages_of_the_gates_own_subscriptions_never_reach_the_library() {
    let mut behind = behind();
    let all = behind.connection.subscribe(">").unwrap();
    behind.connection.flush().unwrap();
    behind.peer.stream.write_all(b"MSG inbox.7 4294967296 2\r\nhi\r\nMSG x 1 2\r\nok\r\n").unwrap();
    assert_eq!(all.next_timeout(PATIENCE).unwrap().data, b"ok");
    behind.wait_told("inbox.7");
    behind.close();
}

#[test]
fn the_library_is_let_go_at_once_when_the_server_has_gone_or_says_nothing() {
    for gone in [true, false] {
        let behind = behind();
        // From here on nobody answers its pings.
        let silent = behind.peer.stream.try_clone().unwrap();
        silent.shutdown(std::net::Shutdown::Read).unwrap();
        if gone {
            silent.shutdown(std::net::Shutdown::Both).unwrap();
            behind.wait_told("Ended");
            let start = Instant::now();
            behind.connection.flush().unwrap();
            assert!(
                start.elapsed() < Duration::from_secs(1),
                "a flush does not wait for a server that is gone"
            );
        }
        behind.close();
    }
}

#[test]
fn a_flush_that_waits_is_released_by_the_end_of_the_server() {
    let behind = behind();
    let connection = behind.connection.clone();
    // The server says what ends the link, and whether the ping leaves before or after makes no difference.
    let (sender, flushed) = channel();
    (&behind.peer.stream).write_all(b"MSG a 1 x\r\n").unwrap();
    thread::spawn(move || {
        connection.flush().ok();
        sender.send(()).unwrap();
    });
    flushed.recv_timeout(PATIENCE).expect("the flush to be released");
    behind.close();
}

#[test]
fn a_stranger_at_the_door_is_turned_away() {
    let (port, _peers) = Peer::start();
    let servers = vec![Address { tls: false, host: "127.0.0.1".to_owned(), port }];
    let settings = Arc::new(BusConfig { servers, auth: Auth::None, tls: Tls::default(), inbox_prefix: None });
    let entered = gate::enter(&settings.servers[0], &settings, "test", &[], &|_| {}).unwrap();
    let gate = entered.start(Arc::new(|_| {})).unwrap();
    let door = gate.url().trim_start_matches("nats://").to_owned();
    let mut strangers = Vec::new();
    for words in
        ["CONNECT {\"auth_token\":\"guess\"}\r\nPING\r\n", "CONNECT {}\r\n", "GET / HTTP/1.0\r\n\r\n"]
    {
        let mut stranger = TcpStream::connect(&door).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.write_all(words.as_bytes()).unwrap();
        let mut heard = String::new();
        // The end of the connection, or its reset.
        stranger.read_to_string(&mut heard).ok();
        assert!(heard.starts_with("INFO ") && !heard.contains("PONG"), "{heard}");
    }
    // One who says nothing keeps nobody out.
    strangers.push(TcpStream::connect(&door).unwrap());
    let connection = nats::Options::with_token(gate.secret())
        .add_root_certificate("/dev/null")
        .connect(gate.url())
        .unwrap();
    connection.flush().unwrap();
    assert!(TcpStream::connect(&door).is_err(), "the door is closed behind the library");
    gate.abandon();
    connection.close();
}

#[test]
fn a_server_that_pings_and_takes_no_answer_fills_no_memory() {
    const PINGS: usize = 8_000_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(b"INFO {\"server_id\":\"S\",\"version\":\"2.15.1\",\"headers\":true,\"max_payload\":1048576,\"client_id\":1}\r\n")
            .unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"PING\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        stream.write_all(b"PONG\r\n").unwrap();
        let pings = b"PING\r\n".repeat(PINGS / 100);
        for _ in 0..100 {
            stream.write_all(&pings).unwrap();
        }
        // What waited for it until now.
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let (mut taken, mut chunk) = (0, vec![0; 64 * 1024]);
        while let Ok(count) = stream.read(&mut chunk) {
            taken += count;
        }
        taken
    });
    let servers = vec![Address { tls: false, host: "127.0.0.1".to_owned(), port }];
    let settings = Arc::new(BusConfig { servers, auth: Auth::None, tls: Tls::default(), inbox_prefix: None });
    let entered = gate::enter(&settings.servers[0], &settings, "test", &[], &|_| {}).unwrap();
    let gate = entered.start(Arc::new(|_| {})).unwrap();
    let connection = nats::Options::with_token(gate.secret())
        .add_root_certificate("/dev/null")
        .connect(gate.url())
        .unwrap();
    let taken = server.join().unwrap();
    let all = PINGS * b"PONG\r\n".len();
    assert!(taken < all * 2 / 3, "{taken} of {all} bytes waited, most of them in the gate");
    gate.abandon();
    connection.close();
}

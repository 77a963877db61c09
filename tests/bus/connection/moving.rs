//! Moving to another server, and coming back after many restarts: without a loss, without a leak.

use crate::support::health::SeesHealth;
use crate::support::verb::AsksTheSeat;
use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::accounts::READER;
use crate::support::client::{Client, Inbox, Unanswered};
use crate::support::mesh::Mesh;
use crate::support::proxy::Proxy;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::wait::{self, PATIENCE};

/// How many asks are on their way at once.
const WINDOW: usize = 32;

/// A server of a cluster, which joins the others by their routes. It says for ten seconds that it is about to
/// shut down, and then closes.
fn clustered(name: &str, routes: &[String]) -> Server {
    let routes: Vec<String> = routes.iter().map(|route| format!("\"{route}\"")).collect();
    Setup::shipped()
        .replace("    jetstream: enabled\n", "")
        .append(&format!(
            "jetstream: disabled\nserver_name: {name}\nlame_duck_grace_period: \"10s\"\nlame_duck_duration: \"30s\"\ncluster {{ name: mesh, listen: \"127.0.0.1:-1\", routes: [{}] }}",
            routes.join(", ")
        ))
        .start()
}

/// How the asks of one client went.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// Without an answer on a connection that still stood: when they were asked, and what became of them.
    lost: Vec<(Instant, Unanswered)>,
    /// With more than one.
    repeated: usize,
}

/// Asks through the server at `address` until `over`, or until that server closes the connection.
fn ask_on(address: SocketAddr, over: &AtomicBool) -> Asked {
    let client = Client::connect(address, &READER);
    client.wait_for_health("the seat to answer throughout the cluster", PATIENCE, |_| true);
    let mut asked = Asked::default();
    let mut under_way: VecDeque<(Instant, Inbox)> = VecDeque::new();
    let settle = |(at, inbox): (Instant, Inbox), asked: &mut Asked| match inbox.next(Duration::from_secs(5)) {
        Ok(_) => {
            asked.answered += 1;
            asked.repeated += inbox.take_all().len();
        }
        Err(Unanswered::Closed { .. }) => {}
        Err(other) => asked.lost.push((at, other)),
    };
    while !over.load(Ordering::Relaxed) && !client.is_closed() {
        under_way.push_back((Instant::now(), client.ask_later(&json!({"what": "health"}))));
        if under_way.len() >= WINDOW
            && let Some(oldest) = under_way.pop_front()
        {
            settle(oldest, &mut asked);
        }
    }
    for left in under_way {
        settle(left, &mut asked);
    }
    asked
}

#[test]
fn a_server_in_lame_duck_mode_is_left_in_time() {
    let first = clustered("first", &[]);
    let second = clustered("second", &[first.cluster_url()]);
    // Servers since 2.10 make three routes and one for their own account. Until all are there, a message may go by
    // one on which the interest of the other side is not known yet.
    let wanted = if first.version() >= (2, 10, 0) { 4 } else { 1 };
    for server in [&first, &second] {
        wait::until("the two servers to find each other", PATIENCE, || {
            let routes = server.monitor("/routez")["num_routes"].as_u64().unwrap_or_default();
            if routes >= wanted { Ok(()) } else { Err(format!("{routes} routes")) }
        });
    }
    // Told of one server only, it learns of the other from that one.
    let mut seat = Seat::start(&first, &[]);
    seat.wait_for_log("connected to", PATIENCE);
    let over = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = [&first, &second]
        .map(|server| {
            let (address, over) = (server.address(), Arc::clone(&over));
            thread::spawn(move || ask_on(address, &over))
        })
        .into_iter()
        .collect();
    // All is well before the server is told.
    for server in [&first, &second] {
        server.client(&READER).wait_for_health("an answer", PATIENCE, |_| true);
    }
    first.signal("USR2");
    // In time: the first server still lets its clients stay for ten seconds.
    wait::until("the seat on the second server", Duration::from_secs(8), || {
        let there = second.connections_of("seat").len();
        if there == 1 { Ok(()) } else { Err(format!("{there} connections")) }
    });
    // Asked there until there is no first server any more.
    first.wait_for_log("Initiating Shutdown", Duration::from_secs(60));
    let reader = second.client(&READER);
    for _ in 0..20 {
        reader.try_health().expect("an answer on the second server");
    }
    over.store(true, Ordering::Relaxed);
    for asker in askers {
        let asked = asker.join().expect("an asker");
        assert!(asked.answered > 100, "{asked:?}");
        assert_eq!(asked.repeated, 0, "{asked:?}");
        // The interest of the new connection takes a moment to be known throughout the cluster.
        let at: Vec<Instant> = asked.lost.iter().map(|(at, _)| *at).collect();
        let moment =
            at.iter().max().zip(at.iter().min()).map_or(Duration::ZERO, |(last, first)| *last - *first);
        assert!(moment < Duration::from_millis(500), "{asked:?}");
    }
    assert!(!seat.log().contains("disconnected"), "{}", seat.log());
    assert_eq!(seat.terminate(super::END).code(), Some(0));
}

#[test]
fn every_request_that_arrived_on_the_connection_before_gets_an_answer_at_term() {
    const ASKED: usize = 1_500;
    let first = clustered("first", &[]);
    let second = clustered("second", &[first.cluster_url()]);
    let proxy = Proxy::start(&first);
    let mut seat = Seat::start_through(&proxy, &first, &[]);
    seat.wait_for_log("connected to", PATIENCE);
    let reader = first.client(&READER);
    reader.wait_for_health("an answer", PATIENCE, |_| true);
    first.signal("USR2");
    second.client(&READER).wait_for_health("an answer on the second server", PATIENCE, |_| true);
    seat.wait_for_log(&format!("connected to {}", second.client_url()), PATIENCE);
    let answers = reader.subscribe("_INBOX.term.*", None);
    reader.flush();
    let ask = |at: usize| {
        format!("PUB mesh-provisioner.provisioning _INBOX.term.{at} 17\r\n{{\"what\":\"health\"}}\r\n")
    };
    // None of them has come when it is told to end.
    proxy.stall();
    reader.send((0..ASKED).map(ask).collect::<String>().as_bytes());
    // The first server has them all, and sends them to the connection there.
    reader.flush();
    seat.signal("TERM");
    wait::until("the new connection to be given up", PATIENCE, || {
        let connections = second.connections_of("seat");
        let listens = format!("{connections:?}").contains("mesh-provisioner.provisioning");
        if listens { Err(format!("{connections:?}")) } else { Ok(()) }
    });
    proxy.resume();
    assert_eq!(seat.wait_exit(super::END).code(), Some(0));
    let mut answered = 0;
    wait::until("an answer to each", PATIENCE, || {
        answered += answers.take_all().len();
        if answered == ASKED { Ok(()) } else { Err(format!("{answered} of {ASKED}")) }
    });
}

/// A process's threads and open files.
fn threads_and_files(id: u32) -> (usize, usize) {
    let count = |directory: &str| fs::read_dir(format!("/proc/{id}/{directory}")).expect("a process").count();
    (count("task"), count("fd"))
}

#[test]
fn restarts_of_the_server_leave_no_thread_and_no_file_behind() {
    // The loop, the one for signals, the link's own, the gate's, the library's reader and its flusher.
    const THREADS: usize = 6;
    let mut mesh = Mesh::start();
    let id = mesh.seat.id();
    let (threads, files) = threads_and_files(id);
    assert!(threads <= THREADS, "{threads} threads when idle");
    for _ in 0..10 {
        mesh.server.restart();
        wait::until("an answer of the seat", PATIENCE, || {
            Client::try_connect(mesh.server.address(), &READER)?.try_health()
        });
    }
    // A thread that lingered until the library's own look at its connection would take two minutes.
    wait::until("threads and files as before", Duration::from_secs(10), || {
        let now = threads_and_files(id);
        if now == (threads, files) { Ok(()) } else { Err(format!("{now:?} (threads, files)")) }
    });
}

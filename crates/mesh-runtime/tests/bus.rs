//! The loop with a small machine, on a real server.

use crossbeam_channel::{Receiver, Sender, unbounded};
use mesh_bus::config::{self, Flags};
use mesh_bus::nats::{Link, LinkEvent, Subscribe};
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::signals::Signal;
use mesh_jetstream::message::Outgoing;
use mesh_runtime::{Action, Delivery, Event, Machine, Settings, Started, Subscription};
use mesh_testing::accounts::Account;
use mesh_testing::client::Client;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::wait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

/// Echoes requests, and tells what happens to it.
struct Echo {
    told: Sender<String>,
    is_up: bool,
    retry: Option<Duration>,
}

impl Echo {
    fn tell(&self, what: impl Into<String>) {
        self.told.send(what.into()).ok();
    }
}

/// What may come of a task, and what the test sends.
enum Own {
    Stored(String),
    Call(Outgoing),
}

impl Machine for Echo {
    type Own = Own;
    type Task = String;
    type Status = Value;

    fn handle(&mut self, event: Event<Own>, now: Duration) -> Vec<Action<String>> {
        match event {
            Event::Up { max_payload, .. } => {
                self.is_up = true;
                self.tell(format!("up {max_payload}"));
                Vec::new()
            }
            Event::Down { .. } => {
                self.is_up = false;
                self.tell("down");
                self.retry = Some(now + Duration::from_millis(50));
                Vec::new()
            }
            Event::Due if !self.is_up && self.retry.is_none_or(|due| due <= now) => {
                self.retry = Some(now + Duration::from_secs(3600));
                vec![Action::Connect]
            }
            Event::Request { place, reply: Some(reply), body, .. } => {
                let headers = vec![("Nats-Service-Error-Code", "418".to_owned())];
                let body = [format!("{place} ").as_bytes(), &body].concat().into();
                vec![Action::Send(Outgoing { subject: reply, reply: None, headers, body })]
            }
            Event::Reply { call, no_responders, error, body } => {
                let body = String::from_utf8_lossy(&body).into_owned();
                self.tell(format!("reply {call} {no_responders} {error:?} {body}"));
                vec![Action::Do(body)]
            }
            Event::Delivery(Delivery { place, subject, reply, body, .. }) => {
                let body = String::from_utf8_lossy(&body).into_owned();
                self.tell(format!("delivery {place} {subject} {} {body}", reply.unwrap_or_default()));
                Vec::new()
            }
            Event::Own(Own::Stored(what)) => {
                self.tell(format!("stored {what}"));
                Vec::new()
            }
            Event::Own(Own::Call(call)) => vec![Action::Send(call)],
            Event::Stop => vec![Action::Exit(Exit::NotOk)],
            _ => Vec::new(),
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        if self.is_up { None } else { Some(self.retry.unwrap_or_default()) }
    }

    fn inbox(&self) -> String {
        "_INBOX.echo".to_owned()
    }

    fn deliveries(&self) -> usize {
        2
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let subscription =
            |subject: &str, queue| Subscription { subject: subject.to_owned(), queue, limit: 16 };
        vec![subscription("echo.one", Some("q")), subscription("echo.two", None)]
    }

    fn is_serving(&self) -> bool {
        self.is_up
    }

    fn is_ready(&self, _: Duration) -> bool {
        self.is_up
    }

    fn status_line(&self, _: Duration) -> String {
        "echoing".to_owned()
    }

    fn status(&self, _: Duration) -> Value {
        json!({"up": self.is_up})
    }

    fn ended(&self, _: Duration, exit: Exit) -> Value {
        json!({"up": false, "exit": exit.code()})
    }
}

struct Running {
    told: Receiver<String>,
    own: Sender<Own>,
    signals: Sender<Signal>,
    status: tempfile::NamedTempFile,
    thread: JoinHandle<Exit>,
}

impl Running {
    fn start(server: &Server) -> Self {
        let (tell, told) = unbounded();
        let (own, own_receiver) = unbounded();
        let (signals, signal_receiver) = unbounded();
        let flags = Flags { server: Some(server.client_url()), ..Flags::default() };
        let connection = config::load(&flags, &|_| None).unwrap();
        let notify = Notify::from_environment(&|_| None).unwrap();
        let status = tempfile::NamedTempFile::new().unwrap();
        let settings = Settings {
            started: Started { connection, signals: signal_receiver, notify },
            client: "echo".to_owned(),
            status_file: Some(status.path().to_owned()),
        };
        let thread = std::thread::spawn(move || {
            let machine = Echo { told: tell, is_up: false, retry: None };
            mesh_runtime::serve(machine, settings, own_receiver, |task| vec![Own::Stored(task)])
        });
        Running { told, own, signals, status, thread }
    }

    #[track_caller]
    fn tells(&self, what: &str) {
        let told =
            self.told.recv_timeout(WAIT).unwrap_or_else(|error| panic!("waiting for {what:?}: {error}"));
        assert_eq!(told, what);
    }

    fn status(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.status.path()).unwrap()).unwrap_or_default()
    }
}

fn server() -> Server {
    Setup::custom("jetstream { store_dir: $MESH_STORE_DIR }").start()
}

fn client(server: &Server) -> Client {
    server.client(&Account::new("anybody", ""))
}

#[test]
fn requests_replies_deliveries_and_tasks_reach_the_machine() {
    let server = server();
    let client = client(&server);
    client.create_bucket("things", &json!({}));
    client.kv_put("things", "a", "first");
    let running = Running::start(&server);
    running.tells("up 1048576");

    let answer = client.request("echo.two", "hello", WAIT).unwrap();
    assert_eq!(answer.body, b"1 hello");

    // The replies that the machine gets to its own calls: of a service, and of nobody.
    let call = |subject: &str, number: u64, body: &str| {
        let reply = Some(format!("_INBOX.echo.{number}"));
        let body = body.as_bytes().to_vec().into();
        running
            .own
            .send(Own::Call(Outgoing { subject: subject.to_owned(), reply, headers: vec![], body }))
            .unwrap();
    };
    call("echo.one", 7, "x");
    running.tells(r#"reply 7 false Some(("418", "")) 0 x"#);
    running.tells("stored 0 x");
    call("nobody", 8, "");
    running.tells("reply 8 true None ");
    running.tells("stored ");

    // What a consumer delivers, with the stored message's subject and numbers.
    let consumer = json!({"stream_name": "KV_things", "config": {
        "name": "c", "deliver_subject": "_INBOX.echo.c.1", "deliver_policy": "last_per_subject", "ack_policy": "none",
        "filter_subject": "$KV.things.>",
    }});
    client.api("CONSUMER.CREATE.KV_things.c.$KV.things.>", &consumer);
    let told = running.told.recv_timeout(WAIT).unwrap();
    assert!(told.starts_with("delivery 1 $KV.things.a $JS.ACK.KV_things.c.1.1.1."), "{told}");
    assert!(told.ends_with(" first"), "{told}");

    running.signals.send(Signal::Stop).unwrap();
    assert_eq!(running.thread.join().unwrap(), Exit::NotOk);
    let status: Value =
        serde_json::from_str(&std::fs::read_to_string(running.status.path()).unwrap()).unwrap();
    assert_eq!((&status["up"], &status["exit"]), (&json!(false), &json!(3)));
    assert_eq!(status["pid"], std::process::id());
}

#[test]
fn a_bus_that_restarts_is_connected_to_again() {
    let mut server = server();
    let running = Running::start(&server);
    running.tells("up 1048576");
    wait::until("the status says up", WAIT, || {
        if running.status()["up"] == true { Ok(()) } else { Err(running.status().to_string()) }
    });
    server.kill();
    running.tells("down");
    server.restart();
    let up = wait::until("the loop is up again", WAIT, || match running.told.recv_timeout(WAIT) {
        Ok(told) if told == "down" => Err(told),
        told => Ok(told),
    });
    assert_eq!(up.unwrap(), "up 1048576");
    assert_eq!(client(&server).request("echo.one", "again", WAIT).unwrap().body, b"0 again");
    running.signals.send(Signal::StopNow).unwrap();
    assert_eq!(running.thread.join().unwrap(), Exit::Interrupted);
}

#[test]
fn own_events_may_end_and_the_loop_goes_on() {
    let server = server();
    let Running { told, own, signals, thread, .. } = Running::start(&server);
    assert_eq!(told.recv_timeout(WAIT).unwrap(), "up 1048576");
    drop(own);
    assert_eq!(client(&server).request("echo.one", "on", WAIT).unwrap().body, b"0 on");
    signals.send(Signal::Stop).unwrap();
    assert_eq!(thread.join().unwrap(), Exit::NotOk);
}

#[test]
fn requests_that_nobody_takes_are_bounded_in_bytes() {
    const SENT: usize = 40;
    let server = server();
    let flags = Flags { server: Some(server.client_url()), ..Flags::default() };
    let connection = config::load(&flags, &|_| None).unwrap();
    let subscribe = Subscribe { subject: "large".to_owned(), queue: None, limit: 2048, listens: true };
    let servers = connection.servers.clone();
    let link = Link::open(Arc::new(connection), servers, "test".to_owned(), None, vec![subscribe]).unwrap();
    let Ok(LinkEvent::Up(up)) = link.life().recv_timeout(WAIT) else { panic!("no connection") };
    let client = client(&server);
    for _ in 0..SENT {
        client.publish("large", vec![b'x'; 1024 * 1024]);
    }
    client.publish("large", "the last one");
    let mut lost = 0;
    wait::until("everything has come or was dropped", WAIT, || {
        lost += usize::try_from(link.take_overrun()).unwrap();
        let come = up.messages[0].len();
        if come + lost == SENT + 1 { Ok(()) } else { Err(format!("{come} came, {lost} were dropped")) }
    });
    // 16 MiB, and what was on its way to the library meanwhile; the short one always comes.
    let come = up.messages[0].len();
    assert!((17..=33).contains(&come), "{come} came, {lost} were dropped");
}

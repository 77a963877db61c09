//! The machine of `serve` by its events: connections that are replaced, leases that are lost, reports in great numbers.

use mesh_controller::serve::machine::{Controller, Settings};
use mesh_controller::serve::reports::MAX_WAITING;
use mesh_controller::serve::task::{Failed, Lease, Own, Picture, Task, UsersFile};
use mesh_controller::store::sent::Bucket;
use mesh_jetstream::message::Outgoing;
use mesh_model::digest::Digest;
use mesh_model::report::MAX_BYTES;
use mesh_runtime::{Action, Delivery, Event, Machine as _};
use mesh_service::identity::Identity;
use std::collections::BTreeSet;
use std::time::Duration;

type Actions = Vec<Action<Task>>;

const REPORTS: usize = Bucket::ALL.len();

const fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn settings() -> Settings {
    Settings {
        identity: Identity { id: "id".into(), version: "0".into() },
        started: String::new(),
        secret: "secret".into(),
        mesh: nkeys::KeyPair::new_operator().public_key().parse().unwrap(),
        jitter: 0.5,
        reply_prefixes: Vec::new(),
    }
}

fn up() -> Event<Own> {
    Event::Up { server: "s".into(), max_payload: 1 << 20 }
}

fn lost() -> Event<Own> {
    Event::Own(Own::Lease(Lease::Lost("another has it".into())))
}

fn picture(nodes: usize) -> Event<Own> {
    let users = UsersFile {
        generation: 1,
        digest: Digest::of(b""),
        text: "users: []".into(),
        users: 1,
        missing: Vec::new(),
        gone: BTreeSet::new(),
    };
    let nodes = (0..nodes).map(|number| format!("n{number}")).collect();
    Event::Own(Own::Picture(Picture {
        only: None,
        values: Vec::new(),
        users: Some(users),
        nodes,
        leaving: BTreeSet::new(),
    }))
}

fn request(place: usize) -> Event<Own> {
    Event::Request {
        place,
        subject: "mesh-controller.status".into(),
        reply: Some("_INBOX.asker.1".into()),
        body: Vec::new(),
    }
}

fn connects(actions: &Actions) -> bool {
    actions.iter().any(|action| matches!(action, Action::Connect))
}

fn sent(actions: &Actions) -> Vec<&Outgoing> {
    let mut sent = Vec::new();
    for action in actions {
        if let Action::Send(message) = action {
            sent.push(message);
        }
    }
    sent
}

/// Whether the consumers that were asked for deliver below that inbox, and the answers come there too.
fn listens_at(actions: &Actions, inbox: &str) -> bool {
    let creates = sent(actions).into_iter().filter(|message| message.subject.contains("CONSUMER.CREATE"));
    let at = |message: &Outgoing| {
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        let deliver = body["config"]["deliver_subject"].as_str().unwrap().to_owned();
        [deliver, message.reply.clone().unwrap()].iter().all(|there| there.starts_with(&format!("{inbox}.")))
    };
    let all: Vec<bool> = creates.map(at).collect();
    all.len() == REPORTS + 1 && all.into_iter().all(|at| at)
}

fn error(actions: &Actions) -> Option<String> {
    let messages = sent(actions);
    let header = messages.first()?.headers.iter().find(|(name, _)| *name == "Nats-Service-Error-Code")?;
    let body: serde_json::Value = serde_json::from_slice(&messages[0].body).unwrap();
    Some(format!("{} {}", header.1, body["error"]["reason"].as_str().unwrap_or_default()))
}

/// One that holds the lease, is connected and has read the store.
fn serving(nodes: usize) -> Controller {
    let mut machine = Controller::new(settings());
    let _ = machine.handle(Event::Due, at(0));
    assert!(connects(&machine.handle(Event::Own(Own::Lease(Lease::Ours(1))), at(1))));
    let inbox = machine.inbox();
    assert!(listens_at(&machine.handle(up(), at(2)), &inbox));
    let loads = machine.handle(picture(nodes), at(3));
    assert!(loads.iter().any(|action| matches!(action, Action::Do(Task::Users(_)))));
    let _ = machine.handle(Event::Own(Own::Users(1, Ok(()))), at(4));
    machine
}

#[test]
fn a_server_that_shuts_down_never_leaves_it_deaf() {
    let mut machine = serving(0);
    assert!(connects(&machine.handle(Event::LameDuck, at(10))));
    let asked = machine.inbox();
    // The attempt takes long, or fails: nobody tells of that while the old connection is there. It is asked for again,
    // which changes nothing where one is being made.
    assert!(connects(&machine.handle(Event::Due, at(2_011))));
    let _ = machine.handle(Event::LameDuck, at(2_012));
    let _ = machine.handle(Event::Down { why: "closed".into() }, at(2_020));
    assert!(connects(&machine.handle(Event::Due, at(40_000))));
    let renewed = Event::Own(Own::Lease(Lease::Ours(1)));
    let _ = machine.handle(renewed, at(40_001));
    assert!(listens_at(&machine.handle(up(), at(40_002)), &asked));
    assert_ne!(machine.inbox(), asked);
}

#[test]
fn while_it_moves_the_old_connection_serves() {
    let mut machine = serving(0);
    let (old, _) = (machine.inbox(), machine.handle(Event::LameDuck, at(10)));
    // A bucket that is listed again meanwhile is listed over the connection that is there.
    let again = machine.handle(Event::Overrun(1), at(11));
    let replies: Vec<&str> = sent(&again).iter().filter_map(|message| message.reply.as_deref()).collect();
    assert!(!replies.is_empty() && replies.iter().all(|reply| !reply.starts_with(&old)), "{replies:?}");
    assert!(machine.next_deadline().is_some_and(|due| due <= at(2_010)), "and it tries again");
}

#[test]
fn without_the_lease_nothing_is_answered_and_no_server_makes_it_connect() {
    let mut machine = serving(0);
    assert!(error(&machine.handle(request(1), at(10))).is_none(), "it reads for it");
    let gone = machine.handle(lost(), at(20));
    assert_eq!(error(&gone).as_deref(), Some("503 standing_by"), "who waits is told");
    assert!(gone.iter().any(|action| matches!(action, Action::StopListening)));
    assert!(!connects(&machine.handle(Event::LameDuck, at(30))));
    assert!(!connects(&machine.handle(Event::Due, at(2_100))));
    for place in 0..3 {
        let told = machine.handle(request(place), at(2_200));
        assert_eq!(error(&told).as_deref(), Some("503 standing_by"));
        assert!(!told.iter().any(|action| matches!(action, Action::Do(Task::Read { .. } | Task::Join(_)))));
    }
    assert!(sent(&machine.handle(request(3), at(2_300))).is_empty(), "it is not found as a service");
}

#[test]
fn a_connection_that_comes_up_after_the_lease_was_lost_does_not_serve() {
    let mut machine = serving(0);
    assert!(connects(&machine.handle(Event::LameDuck, at(10))));
    let _ = machine.handle(lost(), at(20));
    let _ = machine.handle(picture(3), at(25));
    let came = machine.handle(up(), at(30));
    assert!(came.iter().any(|action| matches!(action, Action::StopListening)));
    assert!(sent(&came).is_empty() && machine.status(at(30)).server.is_none());
    // The lease again: another connection, with an inbox of its own.
    let asked = machine.inbox();
    assert!(connects(&machine.handle(Event::Own(Own::Lease(Lease::Ours(3))), at(40))));
    assert!(listens_at(&machine.handle(up(), at(50)), &asked));
}

#[test]
fn a_question_waits_until_the_lease_is_known_to_be_held() {
    let mut machine = serving(0);
    let frozen = at(12_000);
    let asks = machine.handle(request(1), frozen);
    assert!(!asks.iter().any(|action| matches!(action, Action::Do(Task::Read { .. }))));
    let renewed = machine.handle(Event::Own(Own::Lease(Lease::Ours(1))), frozen + at(1));
    assert!(renewed.iter().any(|action| matches!(action, Action::Do(Task::Read { .. }))));
}

#[test]
fn after_a_new_connection_the_accounts_are_proven_again() {
    let loads = |actions: &Actions| actions.iter().any(|action| matches!(action, Action::Do(Task::Users(_))));
    let mut machine = serving(0);
    assert!(machine.status(at(5)).users_loaded);
    let _ = machine.handle(Event::Down { why: "gone".into() }, at(6));
    let _ = machine.handle(Event::Due, at(1_000));
    let came = machine.handle(up(), at(1_010));
    assert!(loads(&came) && !machine.status(at(1_010)).users_loaded);
    // What was proven of the server before says nothing of the one that is there now.
    let _ = machine.handle(Event::Down { why: "gone".into() }, at(1_020));
    let _ = machine.handle(Event::Due, at(2_000));
    assert!(!loads(&machine.handle(up(), at(2_010))), "one at a time");
    let again = machine.handle(Event::Own(Own::Users(1, Ok(()))), at(2_020));
    assert!(loads(&again) && !machine.status(at(2_020)).users_loaded);
    let _ = machine.handle(Event::Own(Own::Users(1, Ok(()))), at(2_030));
    assert!(machine.status(at(2_030)).users_loaded);
}

/// The report of a node as its bucket's consumer brings it.
fn report(consumer: &str, number: u64, node: usize, bytes: usize) -> Event<Own> {
    Event::Delivery(Delivery {
        place: REPORTS,
        subject: format!("$KV.mesh-controller_reports.n{node}"),
        reply: Some(format!("$JS.ACK.KV_mesh-controller_reports.{consumer}.1.{number}.{number}.1.9")),
        headers: Vec::new(),
        body: vec![b' '; bytes],
    })
}

/// The number of the call that creates the consumer of reports, and the consumer's name.
fn listing(actions: &Actions) -> Option<(u64, String)> {
    sent(actions).into_iter().find_map(|message| {
        let rest = message.subject.strip_prefix("$JS.API.CONSUMER.CREATE.KV_mesh-controller_reports.")?;
        let call = message.reply.as_ref()?.rsplit('.').next()?.parse().ok()?;
        Some((call, rest.split('.').next()?.to_owned()))
    })
}

#[test]
fn reports_take_a_bounded_room_and_what_did_not_fit_is_heard_again() {
    let mut machine = Controller::new(settings());
    let _ = machine.handle(Event::Due, at(0));
    let _ = machine.handle(Event::Own(Own::Lease(Lease::Ours(1))), at(1));
    let (call, consumer) = listing(&machine.handle(up(), at(2))).unwrap();
    let body = format!(r#"{{"name":"{consumer}","num_pending":400}}"#).into_bytes();
    let _ = machine.handle(Event::Reply { call, no_responders: false, error: None, body }, at(3));
    let _ = machine.handle(picture(100), at(4));
    let mut given = BTreeSet::new();
    let mut note = |actions: &Actions| {
        let reports = actions.iter().find_map(|action| match action {
            Action::Do(Task::Reports(reports)) => Some(reports),
            _ => None,
        });
        let reports = reports.map_or(&[][..], Vec::as_slice);
        assert!(reports.iter().map(|report| report.body.len()).sum::<usize>() <= MAX_WAITING);
        given.extend(reports.iter().map(|report| report.node.clone()));
        reports.len()
    };
    // Each node reports four times, as large as it may; the store takes its time.
    for number in 0..400 {
        let of = usize::try_from(number % 100).unwrap();
        note(&machine.handle(report(&consumer, number + 1, of, MAX_BYTES), at(5)));
    }
    let took = machine.handle(Event::Own(Own::Reported(1)), at(6));
    let waited = note(&took);
    assert!(waited == MAX_WAITING / MAX_BYTES && listing(&took).is_some(), "{waited}");
    // A store that failed is not asked at once.
    let failed = Event::Own(Own::Failed(Failed::Reports, "busy".into()));
    assert!(listing(&machine.handle(failed, at(7))).is_none());
    assert!(given.len() < 100);
}

#[test]
fn the_log_shows_no_secret_part_of_the_inbox() {
    let mut controller = Controller::new(Settings { secret: "HARD-TO-GUESS".into(), ..settings() });
    let mut actions = controller.handle(up(), at(0));
    for subject in
        ["_INBOX_mesh.controller.HARD-TO-GUESS-1.*", "$JS.API.CONSUMER.CREATE.KV_b.HARD-TO-GUESS-0"]
    {
        let words = format!("Permissions Violation for Subscription to \"{subject}\"");
        actions.extend(controller.handle(Event::ServerError(words), at(1)));
    }
    let said = |action: &Action<Task>| match action {
        Action::Say(_, line) => Some(line.clone()),
        _ => None,
    };
    let lines: Vec<String> = actions.iter().filter_map(said).collect();
    assert!(lines.iter().any(|line| line.contains("_INBOX_mesh.controller.<secret>-1.*")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("HARD-TO-GUESS")), "{lines:?}");
}

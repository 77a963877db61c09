//! When a vault serves: not before it has asked who else does, and not beside another.

use mesh_model::keys::SealingKey;
use mesh_runtime::{Action, Event};
use mesh_service::identity::Identity;
use mesh_vault::holdings::Holdings;
use mesh_vault::machine::{Settings, Vault};
use mesh_vault::task::Task;
use mesh_vault::wire::VAULT;
use nkeys::{KeyPair, XKey};
use std::time::Duration;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn vault(id: &str) -> Vault {
    let settings = Settings {
        identity: identity(id),
        started: "2026-12-01T00:00:00Z".to_owned(),
        inbox: "HARD-TO-GUESS".to_owned(),
        names: "HARD-TOO".to_owned(),
        jitter_seed: 1,
        mesh: KeyPair::new_operator().public_key().parse().unwrap(),
        own: SealingKey::of(&XKey::new()),
        recovery: None,
        no_recovery: false,
        remake: false,
        reply_prefixes: Vec::new(),
    };
    Vault::new(settings, Holdings::default())
}

fn identity(id: &str) -> Identity {
    Identity { id: id.to_owned(), version: "0".to_owned() }
}

fn up() -> Event<mesh_vault::task::Done> {
    Event::Up { server: "s".to_owned(), max_payload: 1 << 20 }
}

/// The number of the call that asks who else is a vault.
fn ping(actions: &[Action<Task>]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        Action::Send(message) if message.subject == VAULT.ping_subject() => {
            message.reply.as_ref()?.rsplit('.').next()?.parse().ok()
        }
        _ => None,
    })
}

fn connects(actions: &[Action<Task>]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Connect))
}

fn nobody(call: u64) -> Event<mesh_vault::task::Done> {
    Event::Reply { call, no_responders: true, error: None, body: Vec::new() }
}

fn pong(call: u64, id: &str) -> Event<mesh_vault::task::Done> {
    let body = VAULT.ping(&identity(id)).into_bytes();
    Event::Reply { call, no_responders: false, error: None, body }
}

/// A vault that has found nobody, with its connection.
fn serving(id: &str) -> Vault {
    let mut vault = vault(id);
    assert!(connects(&vault.handle(Event::Due, at(0))));
    let asked = vault.handle(up(), at(0));
    assert!(vault.subscriptions().is_empty() && !vault.is_serving());
    let actions = vault.handle(nobody(ping(&asked).expect("a question")), at(0));
    assert!(connects(&actions));
    assert_eq!(vault.subscriptions().len(), 14, "five verbs and the nine subjects of the services API");
    let _ = vault.handle(up(), at(0));
    assert!(vault.is_serving());
    vault
}

#[test]
fn a_vault_stands_by_where_another_answers_and_looks_again() {
    let mut vault = vault("B");
    let _ = vault.handle(Event::Due, at(0));
    let call = ping(&vault.handle(up(), at(0))).unwrap();
    // Its own answer is none.
    let _ = vault.handle(pong(call, "B"), at(0));
    let _ = vault.handle(pong(call, "A"), at(0));
    assert!(vault.subscriptions().is_empty());
    assert!(vault.is_serving() && !vault.is_ready(), "the unit is up, and the status says that it stands by");
    assert_eq!(ping(&vault.handle(Event::Due, at(4))), None);
    let call = ping(&vault.handle(Event::Due, at(5))).expect("it looks again");
    assert!(connects(&vault.handle(nobody(call), at(5))));
    assert_eq!(vault.subscriptions().len(), 14);
}

#[test]
fn silence_where_somebody_listens_is_no_other_vault() {
    let mut vault = vault("B");
    let _ = vault.handle(Event::Due, at(0));
    assert!(ping(&vault.handle(up(), at(0))).is_some());
    assert!(!connects(&vault.handle(Event::Due, at(1))));
    assert!(connects(&vault.handle(Event::Due, at(2))));
}

#[test]
fn of_two_that_began_at_once_the_one_with_the_higher_id_steps_back() {
    for (own, other, stays) in [("A", "B", true), ("B", "A", false)] {
        let mut vault = serving(own);
        let call = ping(&vault.handle(Event::Due, at(1))).expect("it asks again soon");
        let actions = vault.handle(pong(call, other), at(1));
        let stops = actions.iter().any(|action| matches!(action, Action::StopListening));
        assert_eq!((stops, connects(&actions)), (!stays, !stays), "{own}");
        assert_eq!(vault.subscriptions().is_empty(), !stays);
    }
}

#[test]
fn after_a_lost_connection_it_asks_before_it_subscribes() {
    let mut vault = serving("A");
    let _ = vault.handle(Event::Down { why: "gone".to_owned() }, at(60));
    assert!(vault.subscriptions().is_empty() && !vault.is_serving());
    let asked = vault.handle(up(), at(61));
    assert!(ping(&asked).is_some());
}

#[test]
fn no_deadline_is_left_behind() {
    let mut vault = serving("B");
    for second in 1..200 {
        let now = at(second);
        let _ = vault.handle(Event::Due, now);
        let due = vault.next_deadline();
        assert!(due.is_none_or(|due| due > now), "{second}: {due:?}");
    }
    let _ = vault.handle(Event::Stop, at(200));
    assert!(vault.has_ended());
}

/// Whoever may read the log may not write on the bus: it does not learn the inbox, nor how the consumers are called.
#[test]
fn log_and_status_show_no_secret_part_of_a_name() {
    let mut vault = serving("A");
    let mut actions = Vec::new();
    for (kind, subject) in [
        ("Subscription to", "_INBOX_mesh.vault.HARD-TO-GUESS-1.*"),
        (
            "Publish to",
            "$JS.API.CONSUMER.CREATE.KV_mesh-controller_nodes.HARD-TOO2-1.$KV.mesh-controller_nodes.>",
        ),
    ] {
        let words = format!("Permissions Violation for {kind} \"{subject}\"");
        actions.extend(vault.handle(Event::ServerError(words), at(1)));
    }
    let said = |action: &Action<Task>| match action {
        Action::Say(_, line) => Some(line.clone()),
        _ => None,
    };
    let lines: Vec<String> = actions.iter().filter_map(said).collect();
    assert!(lines.iter().any(|line| line.contains("_INBOX_mesh.vault.<secret>-1.*")), "{lines:?}");
    let status = serde_json::to_string(&vault.status()).unwrap();
    let shown = format!("{lines:?}{status}");
    assert!(!shown.contains("HARD-TO"), "{shown}");
}

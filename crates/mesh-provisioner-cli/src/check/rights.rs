//! The rights of the seat, tried one by one.

use super::Line;
use mesh_bus::config::BusConfig;
use mesh_bus::message::Incoming;
use mesh_bus::rights_probe::RightsProbe;
use mesh_jetstream::api;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv;
use mesh_jetstream::message::Request;
use mesh_jetstream::message::{Body, Headers, Outgoing};
use mesh_model::bucket::Bucket;
use mesh_model::provisioner::{INBOX, QUEUE, VERB};
use mesh_model::registry;
use mesh_model::rights::{Rights, quote};
use mesh_provisioner_api::PROVISIONING;
use mesh_service::identity::Identity;
use std::time::Duration;

/// A sequence that no bucket reaches: a write that expects it is refused, so nothing is stored.
const UNREACHED: u64 = (1 << 53) - 1;

/// How long a seat may take to say that it is there.
const PRESENCE: Duration = Duration::from_secs(1);

/// What to subscribe so that each right is tried, but for the one that would take requests from a seat that runs.
pub(super) fn subscriptions(rights: &Rights, id: &str) -> Vec<(String, Option<&'static str>)> {
    let rights = rights.subscribe.iter().flat_map(|group| &group.subjects);
    rights.filter(|right| !takes_requests(right)).map(|right| (subject(right, id), None)).collect()
}

/// A line for each right that can be tried while a seat runs.
pub(super) fn tried(trial: &RightsProbe, rights: &Rights, id: &str) -> Vec<Line> {
    let subscribed = rights.subscribe.iter().flat_map(|group| &group.subjects);
    let subscribed = subscribed.filter(|right| !takes_requests(right)).map(|right| {
        let denied = trial.denied_subscription(&subject(right, id));
        line("subscribe", right, denied.map(str::to_owned))
    });
    let published = rights.publish.iter().flat_map(|group| &group.subjects).map(|right| {
        let denied = messages(right, id).into_iter().find_map(|message| trial.publish(message).err());
        line("publish", right, denied)
    });
    subscribed.chain(published).collect()
}

/// The line of the right to take requests. It is tried only where no seat runs: a request that came to the trial in
/// its place would be lost, since the client library drops what is on its way when a subscription ends.
pub(super) fn tried_verb(settings: BusConfig, trial: &RightsProbe, id: &str) -> Line {
    let right = format!("{VERB} {QUEUE}");
    let what = format!("subscribe {right}");
    match presence(trial, id) {
        Presence::Held(seat) => Line::unknown(
            what,
            format!(
                "the seat {} runs, and a request could be lost: mesh-provisioner ask health tells",
                seat.id
            ),
        ),
        Presence::Unknown => Line::unknown(what, "whether a seat runs cannot be told, see above"),
        Presence::Free => {
            match RightsProbe::open(settings, super::CLIENT, [(VERB.to_owned(), Some(QUEUE))]) {
                Ok(trial) => {
                    let denied = trial.denied_subscription(VERB).map(str::to_owned);
                    trial.close();
                    line("subscribe", &right, denied)
                }
                Err(why) => Line::wrong("connection", why),
            }
        }
    }
}

enum Presence {
    Held(Identity),
    Free,
    Unknown,
}

/// Whether a seat runs: asked as any client of the services API asks, with the answer in the trial's own inbox.
fn presence(trial: &RightsProbe, id: &str) -> Presence {
    let inbox = format!("{INBOX}.{id}");
    let question = Outgoing {
        subject: PROVISIONING.ping_subject(),
        reply: Some(inbox.clone()),
        headers: Headers::new(),
        body: Body::default(),
    };
    if trial.denied_subscription(&inbox).is_some() || trial.publish(question).is_err() {
        return Presence::Unknown;
    }
    let seat =
        |heard: Incoming| (heard.subject == inbox).then(|| PROVISIONING.parse_ping(&heard.body)).flatten();
    trial.hear(PRESENCE, seat).map_or(Presence::Free, Presence::Held)
}

fn takes_requests(right: &str) -> bool {
    right.contains(' ')
}

fn line(list: &str, right: &str, denied: Option<String>) -> Line {
    let what = format!("{list} {right}");
    match denied {
        None => Line::ok(what, ""),
        Some(words) => {
            let mend = format!("add the line {} to {list} of the seat's permissions", quote(right));
            if right.starts_with(api::DIRECT_GET) {
                Line::unknown(what, format!("the seat does without, but reads slowly: {mend}"))
            } else {
                Line::wrong(what, format!("the bus says: {words}: {mend}"))
            }
        }
    }
}

/// A subject that needs the right.
fn subject(right: &str, id: &str) -> String {
    match right.strip_suffix(['*', '>']) {
        Some(prefix) => format!("{prefix}{id}"),
        None => right.to_owned(),
    }
}

/// Messages that need the right and do no harm.
fn messages(right: &str, id: &str) -> Vec<Outgoing> {
    if right.starts_with(&Kv::new(Bucket::Registry.name()).subject_prefix()) {
        return registry::ENTRIES.iter().map(|entry| refused_write(entry).into()).collect();
    }
    // A seat that is asked without a subject to answer to counts that and says so.
    let reply = (right == PROVISIONING.ping_subject()).then(|| format!("_INBOX.{id}"));
    vec![Outgoing { subject: subject(right, id), reply, headers: Headers::new(), body: Body::default() }]
}

/// A write of the registry that the bus must refuse. Even one that did not would find the right value in it.
pub(super) fn refused_write(entry: &registry::Entry<'_>) -> Request {
    let key = mesh_model::name::encode(entry.kind);
    kv::put(Kv::new(Bucket::Registry.name()), &key, &entry.to_json(), UNREACHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_is_tried_by_a_subject_that_needs_it() {
        assert_eq!(subject("_INBOX.>", "ID"), "_INBOX.ID");
        assert_eq!(subject("$SRV.PING.mesh-provisioner.*", "ID"), "$SRV.PING.mesh-provisioner.ID");
        assert_eq!(subject("$SRV.PING", "ID"), "$SRV.PING");
        let subscriptions = subscriptions(&Rights::of_seat(&[]), "ID");
        assert_eq!(subscriptions.len(), 10);
        let harmless = |(subject, queue): &(String, Option<_>)| subject != VERB && queue.is_none();
        assert!(subscriptions.iter().all(harmless), "no request comes to a check");
    }

    #[test]
    fn no_trial_changes_anything() {
        let publish = Rights::of_seat(&["_MY.inbox".to_owned()]).publish;
        let rights = publish.iter().flat_map(|group| &group.subjects);
        let messages: Vec<Outgoing> = rights.flat_map(|right| messages(right, "ID")).collect();
        assert_eq!(messages.len(), 13 + 8 + 3 + 1 + 4);
        for message in messages {
            let expected =
                message.headers.iter().find(|(name, _)| *name == "Nats-Expected-Last-Subject-Sequence");
            let reads = ["STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET"]
                .into_iter()
                .any(|verb| message.subject.starts_with(&format!("$JS.API.{verb}.KV_mesh-provisioner_")));
            let nowhere = message.subject.rsplit('.').next() == Some("ID");
            let asks = message.subject == "$SRV.PING.mesh-provisioner"
                && message.reply.as_deref() == Some("_INBOX.ID");
            let refused = expected.is_some_and(|(_, sequence)| sequence == "9007199254740991");
            assert!(reads || nowhere || asks || refused, "{message:?}");
        }
    }
}

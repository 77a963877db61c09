//! The rights of the seat, tried one by one.

use super::Line;
use crate::bucket::Bucket;
use crate::bus::trial::Trial;
use crate::permissions::{Rights, quote};
use crate::registry;
use crate::seat;
use crate::wire::jetstream::{self, Request};
use crate::wire::{Body, Headers, Outgoing, QUEUE, VERB, answer, service};

/// A sequence that no bucket reaches: a write that expects it is refused, so nothing is stored.
const UNREACHED: u64 = (1 << 53) - 1;

/// What to subscribe so that each right is tried. The verb comes last, so that it is subscribed for the shortest time.
pub(super) fn subscriptions(rights: &Rights, id: &str) -> Vec<(String, Option<&'static str>)> {
    let rights = rights.subscribe.iter().flat_map(|group| &group.subjects);
    let mut subjects: Vec<_> = rights.map(|right| (subject(right, id), queue(right))).collect();
    subjects.sort_by_key(|(_, queue)| queue.is_some());
    subjects
}

/// A line for each right.
pub(super) fn tried(trial: &Trial, rights: &Rights, id: &str) -> Vec<Line> {
    let subscribed = rights.subscribe.iter().flat_map(|group| &group.subjects).map(|right| {
        let denied = trial.denied_subscription(&subject(right, id));
        line("subscribe", right, denied.map(str::to_owned))
    });
    let published = rights.publish.iter().flat_map(|group| &group.subjects).map(|right| {
        let denied = messages(right, id).into_iter().find_map(|message| trial.publish(message).err());
        line("publish", right, denied)
    });
    subscribed.chain(published).collect()
}

fn line(list: &str, right: &str, denied: Option<String>) -> Line {
    let what = format!("{list} {right}");
    match denied {
        None => Line::ok(what, ""),
        Some(words) => {
            let mend = format!(
                "the bus says {words:?}: add the line {} to {list} of the seat's permissions",
                quote(right)
            );
            Line::wrong(what, mend)
        }
    }
}

/// A subject that needs the right.
fn subject(right: &str, id: &str) -> String {
    let subject = right.split(' ').next().unwrap_or(right);
    match subject.strip_suffix(['*', '>']) {
        Some(prefix) => format!("{prefix}{id}"),
        None => subject.to_owned(),
    }
}

fn queue(right: &str) -> Option<&'static str> {
    right.contains(' ').then_some(QUEUE)
}

/// Messages that need the right and do no harm.
fn messages(right: &str, id: &str) -> Vec<Outgoing> {
    if right.starts_with(&Bucket::Registry.subject_prefix()) {
        return registry::ENTRIES.iter().map(|entry| refused_write(entry).into()).collect();
    }
    // A seat that is asked without a subject to answer to counts that and says so.
    let reply = (right == service::ping_subject()).then(|| format!("_INBOX.{id}"));
    vec![Outgoing { subject: subject(right, id), reply, headers: Headers::new(), body: Body::default() }]
}

/// A write of the registry that the bus must refuse. Even one that did not would find the right value in it.
pub(super) fn refused_write(entry: &registry::Entry<'_>) -> Request {
    let key = crate::name::encode(entry.kind);
    jetstream::put(Bucket::Registry, &key, &entry.to_json(), UNREACHED)
}

impl From<Request> for Outgoing {
    fn from(request: Request) -> Self {
        Outgoing {
            subject: request.subject,
            reply: None,
            headers: request.headers,
            body: request.body.into(),
        }
    }
}

/// Answers the requests that came to us in the place of the seat: somebody waits for them.
pub(super) fn answer_caught(trial: &Trial, reply_prefixes: &[String]) {
    const CODE: u16 = 503;
    let message = "the seat's rights are being tried: ask again";
    let asked = trial.caught().filter(|caught| caught.subject == VERB).filter_map(|caught| caught.reply);
    for reply in asked.filter(|reply| seat::may_answer(reply, reply_prefixes)) {
        let answer = Outgoing {
            subject: reply,
            reply: None,
            headers: answer::error_headers(CODE, message),
            body: answer::error_json(CODE, message).into_bytes().into(),
        };
        // A right that is missing has a line of its own.
        trial.publish(answer).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_is_tried_by_a_subject_that_needs_it() {
        assert_eq!(subject("_INBOX.>", "ID"), "_INBOX.ID");
        assert_eq!(subject("$SRV.PING.mesh-provisioner.*", "ID"), "$SRV.PING.mesh-provisioner.ID");
        assert_eq!(subject("$SRV.PING", "ID"), "$SRV.PING");
        assert_eq!(subject("mesh-provisioner.provisioning q", "ID"), VERB);
        let subscriptions = subscriptions(&Rights::of_seat(&[], false), "ID");
        assert_eq!(subscriptions.len(), 11);
        assert_eq!(subscriptions.last(), Some(&(VERB.to_owned(), Some("q"))));
    }

    #[test]
    fn no_trial_changes_anything() {
        let publish = Rights::of_seat(&["_MY.inbox".to_owned()], true).publish;
        let rights = publish.iter().flat_map(|group| &group.subjects);
        let messages: Vec<Outgoing> = rights.flat_map(|right| messages(right, "ID")).collect();
        assert_eq!(messages.len(), 13 + 12 + 1 + 3);
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

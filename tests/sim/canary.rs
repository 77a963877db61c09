//! Seats with a fault planted around them: each must be found, or the simulation proves nothing.

use crate::batch::DIRECT_GET;
use crate::world::Machine;
use mesh_provisioner::registry;
use mesh_provisioner::seat::{Action, Event, Health, Seat};
use mesh_provisioner::wire::Outgoing;
use mesh_provisioner::wire::direct::Part;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A key is missing in what the seat reads of a list, and nobody can tell.
    DropsAKey,
    /// Somebody gets two answers.
    AnswersTwice,
    /// Somebody gets none.
    ForgetsAnAnswer,
    /// A kind that the first page of a list lacks is deleted.
    DeletesOnAPartialList,
    /// Each value that is read is written again.
    WritesAgain,
    /// One kind is never written.
    SkipsAKind,
    /// The first message of each batch is missing, and nobody can tell.
    DropsAPart,
    /// The end of each batch says that the server which answers knows all.
    TrustsWhoLags,
    /// Each batch is asked for again and again.
    KnowsNoBounds,
}

pub(crate) struct Canary {
    seat: Seat,
    plant: Plant,
    /// The newest sequence that was seen of each kind.
    seen: BTreeMap<String, u64>,
    last_call: u64,
    /// The sequence of the message that is missing in the batch of each call.
    dropped: BTreeMap<u64, u64>,
}

const PREFIX: &str = "$KV.mesh-provisioner_registry.";

impl Canary {
    pub(crate) fn new(seat: Seat, plant: Plant) -> Self {
        Canary { seat, plant, seen: BTreeMap::new(), last_call: 1_000_000_000, dropped: BTreeMap::new() }
    }

    /// Looks at what the seat is told, and changes it.
    fn tamper(&mut self, event: &mut Event) -> Vec<Action> {
        if let Event::Part { call, .. } = *event {
            self.tamper_with_part(call, event);
        }
        let Event::Answer { body, .. } = event else { return Vec::new() };
        let Ok(mut answer) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
        if let Some(message) = answer.get("message") {
            let kind = message["subject"].as_str().and_then(|subject| subject.strip_prefix(PREFIX));
            let entry = kind.and_then(registry::entry);
            if let (Some(entry), Some(sequence)) = (entry, message["seq"].as_u64()) {
                self.seen.insert(entry.kind.to_owned(), sequence);
                if self.plant == Plant::WritesAgain {
                    return vec![self.write(entry.kind, sequence, Some(entry.to_json()))];
                }
            }
            return Vec::new();
        }
        let total = answer["total"].as_u64().unwrap_or_default();
        let Some(subjects) = answer.pointer_mut("/state/subjects").and_then(Value::as_object_mut) else {
            return Vec::new();
        };
        let listed: Vec<String> = subjects.keys().cloned().collect();
        match self.plant {
            Plant::DropsAKey if !listed.is_empty() && total == listed.len() as u64 => {
                subjects.remove(&listed[listed.len() / 2]);
                answer["total"] = (total - 1).into();
                *body = answer.to_string().into_bytes();
            }
            Plant::DeletesOnAPartialList if total > listed.len() as u64 => {
                let missing = |kind: &&String| !listed.contains(&format!("{PREFIX}{kind}"));
                if let Some((kind, sequence)) =
                    self.seen.iter().find(|(kind, _)| missing(kind)).map(|(kind, at)| (kind.clone(), *at))
                {
                    return vec![self.write(&kind, sequence, None)];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn tamper_with_part(&mut self, call: u64, event: &mut Event) {
        let Event::Part { part, .. } = event else { return };
        match (self.plant, part) {
            (Plant::DropsAPart, Part::Message { message, after: 0 }) if !self.dropped.contains_key(&call) => {
                self.dropped.insert(call, message.sequence);
                *event = Event::Due;
            }
            (Plant::DropsAPart, Part::Message { after, .. } | Part::End { after, .. })
                if self.dropped.get(&call) == Some(after) =>
            {
                *after = 0;
            }
            (Plant::TrustsWhoLags, Part::End { up_to, .. }) => *up_to = u64::MAX,
            _ => {}
        }
    }

    fn again_and_again(&mut self, actions: &mut Vec<Action>) {
        for action in actions.clone() {
            let Action::Send(message) = action else { continue };
            if message.subject.starts_with(DIRECT_GET) {
                for _ in 0..8 {
                    self.last_call += 1;
                    let reply = Some(format!("{}.{}", self.seat.inbox(), self.last_call));
                    actions.push(Action::Send(Outgoing { reply, ..message.clone() }));
                }
            }
        }
    }

    fn write(&mut self, kind: &str, expected: u64, value: Option<String>) -> Action {
        self.last_call += 1;
        let mut headers = vec![
            ("Nats-Expected-Stream", "KV_mesh-provisioner_registry".to_owned()),
            ("Nats-Expected-Last-Subject-Sequence", expected.to_string()),
        ];
        if value.is_none() {
            headers.push(("KV-Operation", "DEL".to_owned()));
        }
        Action::Send(Outgoing {
            subject: format!("{PREFIX}{kind}"),
            reply: Some(format!("{}.{}", self.seat.inbox(), self.last_call)),
            headers,
            body: value.unwrap_or_default().into_bytes().into(),
        })
    }
}

impl Machine for Canary {
    fn handle(&mut self, mut event: Event, now: Duration) -> Vec<Action> {
        let planted = self.tamper(&mut event);
        let mut actions = self.seat.handle(event, now);
        let is_answer = |action: &Action| matches!(action, Action::Send(message) if message.reply.is_none());
        match self.plant {
            Plant::AnswersTwice => {
                let again: Vec<Action> = actions.iter().filter(|action| is_answer(action)).cloned().collect();
                actions.extend(again);
            }
            Plant::ForgetsAnAnswer => actions.retain(|action| !is_answer(action)),
            Plant::SkipsAKind => actions.retain(
                |action| !matches!(action, Action::Send(message) if message.subject.ends_with("_registry.port")),
            ),
            Plant::KnowsNoBounds => self.again_and_again(&mut actions),
            _ => {}
        }
        actions.extend(planted);
        actions
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.seat.next_deadline()
    }

    fn health(&self, now: Duration) -> Health {
        self.seat.health(now)
    }
}

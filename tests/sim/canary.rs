//! Seats with a fault planted around them: each must be found, or the simulation proves nothing.

use crate::batch::DIRECT_GET;
use crate::faults::{Faults, Trouble};
use crate::world::Machine;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use mesh_model::registry;
use mesh_provisioner::seat::{Action, Event, Health, Seat};
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
    /// One key of each bucket is missing wherever the bucket is followed, and in its numbers.
    HidesAKey,
    /// Each bucket is shown in numbers as it was when it was looked at before.
    ShowsTheLookBefore,
    /// The numbers of a bucket do not tell of the keys that went without a write.
    HidesWhatExpired,
}

pub(crate) struct Canary {
    seat: Seat,
    plant: Plant,
    /// The newest sequence that was seen of each kind.
    seen: BTreeMap<String, u64>,
    last_call: u64,
    /// The sequence of the message that is missing in the batch of each call.
    dropped: BTreeMap<u64, u64>,
    /// How each stream was last looked at, in truth.
    looks: BTreeMap<String, Value>,
    /// The subject of each stream that is hidden.
    hidden: BTreeMap<String, String>,
    /// Of each read that follows a bucket: the sequence of the hidden message in it, and of the one before.
    hiding: BTreeMap<u64, (u64, u64)>,
}

const PREFIX: &str = "$KV.mesh-provisioner_registry.";

impl Canary {
    pub(crate) fn new(seat: Seat, plant: Plant) -> Self {
        Canary {
            seat,
            plant,
            seen: BTreeMap::new(),
            last_call: 1_000_000_000,
            dropped: BTreeMap::new(),
            looks: BTreeMap::new(),
            hidden: BTreeMap::new(),
            hiding: BTreeMap::new(),
        }
    }

    /// Looks at what the seat is told, and changes it.
    fn tamper(&mut self, event: &mut Event) -> Vec<Action> {
        if let Event::Part { call, .. } = *event {
            self.tamper_with_part(call, event);
        }
        let Event::Reply { body, .. } = event else { return Vec::new() };
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
        if answer.get("config").is_some() {
            self.tamper_with_look(&mut answer);
            *body = answer.to_string().into_bytes();
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

    fn tamper_with_look(&mut self, look: &mut Value) {
        let stream = look["config"]["name"].as_str().unwrap_or_default().to_owned();
        if stream.ends_with("_registry") {
            return;
        }
        let before = self.looks.insert(stream.clone(), look.clone());
        let messages = look["state"]["messages"].as_u64().unwrap_or_default();
        match (self.plant, before) {
            (Plant::HidesAKey, _) if self.hidden.contains_key(&stream) => {
                look["state"]["messages"] = messages.saturating_sub(1).into();
            }
            (Plant::ShowsTheLookBefore, Some(before)) => *look = before,
            (Plant::HidesWhatExpired, Some(before))
                if before["state"]["last_seq"] == look["state"]["last_seq"] =>
            {
                look["state"]["messages"] = before["state"]["messages"].clone();
            }
            _ => {}
        }
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
            (Plant::TrustsWhoLags, Part::End { up_to: Some(up_to), .. }) => *up_to = u64::MAX,
            (Plant::HidesAKey, Part::Message { message, after }) if self.hiding.contains_key(&call) => {
                let stream = message.subject.split('.').nth(1).map(|bucket| format!("KV_{bucket}"));
                let hidden = self.hidden.entry(stream.unwrap_or_default());
                if *hidden.or_insert_with(|| message.subject.clone()) == message.subject {
                    self.hiding.insert(call, (message.sequence, *after));
                    *event = Event::Due;
                } else {
                    self.close_the_gap(call, after);
                }
            }
            (Plant::HidesAKey, Part::End { after, up_to: None, .. }) => self.close_the_gap(call, after),
            _ => {}
        }
    }

    fn close_the_gap(&self, call: u64, after: &mut u64) {
        if let Some((hidden, before)) = self.hiding.get(&call)
            && after == hidden
        {
            *after = *before;
        }
    }

    /// Notes the reads that follow a bucket.
    fn note_followed(&mut self, actions: &[Action]) {
        for action in actions {
            let Action::Send(Outgoing { reply: Some(reply), body, .. }) = action else { continue };
            let call = reply.rsplit('.').next().and_then(|call| call.parse().ok());
            if let Some(call) = call.filter(|_| body.starts_with(b"{\"seq\":")) {
                self.hiding.insert(call, (u64::MAX, 0));
            }
        }
    }

    fn again_and_again(&mut self, actions: &mut Vec<Action>) {
        for action in actions.clone() {
            let Action::Send(message) = action else { continue };
            if !message.subject.starts_with(DIRECT_GET) {
                continue;
            }
            for _ in 0..8 {
                self.last_call += 1;
                let reply = Some(format!("{}.{}", self.seat.inbox(), self.last_call));
                actions.push(Action::Send(Outgoing { reply, ..message.clone() }));
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
    fn choose(&self, faults: &mut Faults) {
        if self.plant == Plant::TrustsWhoLags {
            faults.troubles = vec![Trouble::Lagging];
            faults.batch_trouble = 600;
        }
    }

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
            Plant::HidesAKey => self.note_followed(&actions),
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

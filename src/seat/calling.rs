//! What the seat asks of the bus, and whom the answers are for.

use super::calls::{self, Call, Owner};
use super::connection::Link;
use super::failure::Cause;
use super::question::{Frame, Kind, Slot, Want};
use super::topic::Topic;
use super::{Action, Seat, presence};
use crate::wire::PROVISIONING;
use log::Level;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use mesh_jetstream::message::Request;
use std::time::Duration;

/// The largest answer, in bytes, whatever the bus would carry.
const PAGE_BYTES: usize = 512 * 1024;

/// What an answer leaves free of the bus's largest message, in bytes, for headers and the subject.
const PAYLOAD_MARGIN: usize = 8 * 1024;

impl Seat {
    pub(super) fn answer(&mut self, number: u64, body: Result<&[u8], Cause>, now: Duration) {
        let Some((owner, slot, kind)) = self.calls.settle(number) else { return };
        if let (Kind::Value { bucket, .. }, Ok(body)) = (kind, &body) {
            self.calls.note_value_bytes(bucket, body.len());
        }
        match (kind, body) {
            // The whole answer in one message that is none of its parts: nobody answers on its subject.
            (Kind::Batch(bucket), _) => {
                self.not_in_bulk(bucket, "nobody answers it", now);
                self.deliver(owner, slot, Err(Cause::Silent), now);
            }
            (_, body) => self.deliver(owner, slot, body, now),
        }
    }

    pub(super) fn part(&mut self, number: u64, part: Part, now: Duration) {
        // A status message that comes to the number of another request answers nothing.
        if !self.calls.is_batch(number) {
            return;
        }
        let is_last = !matches!(part, Part::Message { .. });
        let call = if is_last { self.calls.settle(number) } else { self.calls.part(number, now) };
        let Some((Owner::Request(id), slot, Kind::Batch(bucket))) = call else { return };
        let Some(question) = self.requests.question(id) else { return };
        if let Err(why) = question.heard_part(slot, part) {
            self.calls.settle(number);
            self.not_in_bulk(bucket, &why, now);
        }
    }

    /// A request of ours comes to nothing.
    pub(super) fn fail(&mut self, call: &Call, cause: Cause, now: Duration) {
        if let Some(bucket) = call.kind.in_bulk() {
            let why = match &cause {
                Cause::Denied(words) => words,
                _ => "no answer came in time",
            };
            self.not_in_bulk(bucket, why, now);
        }
        self.deliver(call.owner, call.slot, Err(cause), now);
    }

    pub(super) fn deliver(&mut self, owner: Owner, slot: Slot, body: Result<&[u8], Cause>, now: Duration) {
        match owner {
            Owner::Request(id) => {
                if let Some(question) = self.requests.question(id) {
                    question.heard(slot, body);
                }
            }
            Owner::Pass => {
                let jitter = self.jitter();
                self.pass.heard(slot, body, now, jitter);
            }
            Owner::Presence => {
                let other = body.ok().and_then(|body| PROVISIONING.parse_ping(body));
                if let Some(other) = other.filter(|other| other.id != self.settings.identity.id) {
                    let line = presence::tell(&other, &self.settings.identity.version);
                    if self.presence.note(other, now) {
                        self.notice(Level::Warn, Topic::OtherSeats, "", &line, now);
                    }
                }
            }
        }
    }

    pub(super) fn look_for_others(&mut self, now: Duration) {
        if self.presence.begin(now, self.settings.every) {
            self.calls.forget(Owner::Presence);
            let request = Request {
                subject: PROVISIONING.ping_subject(),
                headers: Vec::new(),
                body: PROVISIONING.ping(&self.settings.identity).into_bytes(),
            };
            self.call(Owner::Presence, Want { slot: Slot::Value(0), request, kind: Kind::Single }, now);
        }
        if self.presence.end(now) {
            self.calls.forget(Owner::Presence);
        }
    }

    /// Sends what the pass and the questions want, as far as the bounds allow. Each question has its share of the
    /// outstanding requests, so that a large one does not hold up a small one.
    pub(super) fn send_wanted(&mut self, now: Duration) {
        let Link::Up { max_payload, .. } = self.link else { return };
        let page_bytes = PAGE_BYTES.min(max_payload.saturating_sub(PAYLOAD_MARGIN).max(max_payload / 2));
        // Most events bring an answer to a question under way; what a new one has to know is gathered for a new one.
        if self.requests.may_begin() {
            self.requests.begin(&Frame {
                page_bytes,
                seat: self.settings.identity.clone(),
                bulk: self.bulk.buckets(now).collect(),
                few_keys: self.settings.few_keys,
                shelf: self.requests.shelf(),
                value_bytes: self.calls.value_bytes().clone(),
                clock: self.clock + now,
            });
        }
        while self.calls.room() > 0
            && let Some(want) = self.pass.want(self.calls.allowance(0, false))
        {
            self.call(Owner::Pass, want, now);
        }
        let mut ids = self.requests.ids();
        // Where there is not room for all, another one is first each time.
        self.turn = self.turn.wrapping_add(1);
        if !ids.is_empty() {
            let first = self.turn % ids.len();
            ids.rotate_left(first);
        }
        let share = calls::MAX_OUTSTANDING / ids.len().max(1);
        let mut long_lists = self.requests.long_lists();
        for id in ids {
            let owner = Owner::Request(id);
            while self.calls.room() > 0 && self.calls.outstanding(owner) < share {
                let allowance = self.calls.allowance(long_lists, self.bulk.is_up());
                let want = self.requests.question(id).and_then(|question| question.want(allowance));
                let Some(want) = want else { break };
                if want.kind == Kind::Listing {
                    long_lists = self.requests.long_lists();
                }
                self.call(owner, want, now);
            }
        }
    }

    pub(super) fn call(&mut self, owner: Owner, want: Want, now: Duration) {
        let Want { slot, request, kind } = want;
        let call = Call { owner, slot, subject: request.subject.clone(), kind, since: now };
        let number = self.calls.add(call);
        let in_bulk = kind.in_bulk().is_some();
        let inbox = if in_bulk { self.bulk_inbox() } else { self.inbox() };
        let message = Outgoing { reply: Some(format!("{inbox}.{number}")), ..request.into() };
        self.actions.push(if in_bulk { Action::SendBulk(message) } else { Action::Send(message) });
    }
}

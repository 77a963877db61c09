//! Sends the calls of the machines to JetStream, and routes their replies.

use super::call::{Call, Cost, Tag};
use super::in_flight::{Owner, Sent};
use super::limits::{BULK_PAUSE, MAX_IN_FLIGHT, MAX_RESPONSE_BYTES};
use super::link_state::LinkState;
use super::query::context::QueryContext;
use super::topic::Topic;
use super::{Action, Seat, peers};
use log::Level;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use mesh_jetstream::message::Request;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::PROVISIONING;
use mesh_provisioner_api::failure::{Cause, shorten};
use std::collections::BTreeSet;
use std::time::Duration;

/// How much of `max_payload` a response leaves for headers and the subject, in bytes.
const PAYLOAD_MARGIN: usize = 8 * 1024;

impl Seat {
    pub(super) fn on_reply(&mut self, number: u64, body: Result<&[u8], Cause>, now: Duration) {
        let Some((owner, tag, cost)) = self.in_flight.settle(number) else { return };
        if let (Cost::Value { bucket, .. }, Ok(body)) = (cost, &body) {
            self.in_flight.note_value_bytes(bucket, body.len());
        }
        match (cost, body) {
            // A reply that is not a part of a batch: there are no responders.
            (Cost::Batch(bucket), _) => {
                self.not_in_bulk(bucket, "no responders", now);
                self.deliver(owner, tag, Err(Cause::Silent), now);
            }
            (_, body) => self.deliver(owner, tag, body, now),
        }
    }

    pub(super) fn on_part(&mut self, number: u64, part: Part, now: Duration) {
        // A status message with the number of another call is not a reply.
        if !self.in_flight.is_batch(number) {
            return;
        }
        let is_last = !matches!(part, Part::Message { .. });
        let call = if is_last { self.in_flight.settle(number) } else { self.in_flight.part(number, now) };
        let Some((Owner::Request(id), tag, Cost::Batch(bucket))) = call else { return };
        let Some(query) = self.queries.query(id) else { return };
        if let Err(why) = query.on_part(tag, part, now) {
            self.in_flight.settle(number);
            self.not_in_bulk(bucket, &why, now);
        }
    }

    /// A call failed.
    pub(super) fn fail(&mut self, sent: &Sent, cause: Cause, now: Duration) {
        if let Some(bucket) = sent.cost.in_bulk() {
            let why = match &cause {
                Cause::Denied(words) => words,
                _ => "no answer came in time",
            };
            self.not_in_bulk(bucket, why, now);
        }
        self.deliver(sent.owner, sent.tag, Err(cause), now);
    }

    pub(super) fn deliver(&mut self, owner: Owner, tag: Tag, body: Result<&[u8], Cause>, now: Duration) {
        self.is_jetstream_stuck &= !(matches!(owner, Owner::Pass | Owner::Checks) && body.is_ok());
        match owner {
            Owner::Echo => {}
            Owner::Request(id) => {
                if let Some(query) = self.queries.query(id) {
                    query.on_reply(tag, body);
                }
            }
            Owner::Pass => {
                let jitter = self.jitter();
                self.pass.on_reply(tag, body, now, jitter);
                if self.pass.verified() == Some(now) {
                    self.checks.pass_ended(self.pass.is_unsettled(), now);
                }
            }
            Owner::Checks => self.stream_checked(tag, body, now),
            Owner::OtherSeats => {
                let other = body.ok().and_then(|body| PROVISIONING.parse_ping(body));
                if let Some(other) = other.filter(|other| other.id != self.settings.identity.id) {
                    let line = peers::tell(&other, &self.settings.identity.version);
                    if self.other_seats.note(other, now) {
                        self.notice(Level::Warn, Topic::OtherSeats, "", &line, now);
                    }
                }
            }
        }
    }

    pub(super) fn look_for_others(&mut self, now: Duration) {
        if self.other_seats.begin(now, self.settings.every) {
            self.in_flight.forget(Owner::OtherSeats);
            let request = Request {
                subject: PROVISIONING.ping_subject(),
                headers: Vec::new(),
                body: PROVISIONING.ping(&self.settings.identity).into_bytes(),
            };
            self.send_call(Owner::OtherSeats, Call { tag: Tag::Value(0), request, cost: Cost::Single }, now);
        }
        if self.other_seats.end(now) {
            self.in_flight.forget(Owner::OtherSeats);
        }
    }

    /// Sends the calls of the pass and the queries, within the bounds. Each query has its share of the calls in
    /// flight, so that a large one does not delay a small one.
    pub(super) fn send_calls(&mut self, now: Duration) {
        let LinkState::Up { max_payload, .. } = self.link else { return };
        let page_bytes =
            MAX_RESPONSE_BYTES.min(max_payload.saturating_sub(PAYLOAD_MARGIN).max(max_payload / 2));
        // Most events are replies for a query under way; the context of a new query is only built for a new one.
        if self.queries.may_begin() {
            self.queries.begin(&QueryContext {
                page_bytes,
                seat: self.settings.identity.clone(),
                bulk: self.may_read_in_bulk(now),
                part_bytes: self.long_reads.part_bytes(now),
                unlisted: self.long_reads.unlisted(now),
                max_keys_one_by_one: self.settings.max_keys_one_by_one,
                store: self.queries.store(),
                value_bytes: self.in_flight.value_bytes().clone(),
                clock: self.clock + now,
            });
        }
        while self.in_flight.room() > 0
            && let Some(call) = self.pass.next_call(self.in_flight.budget(0))
        {
            self.send_call(Owner::Pass, call, now);
        }
        let mut ids = self.queries.ids();
        // If there is not room for all, another one is first each time.
        self.turn = self.turn.wrapping_add(1);
        if !ids.is_empty() {
            let first = self.turn % ids.len();
            ids.rotate_left(first);
        }
        let share = MAX_IN_FLIGHT / ids.len().max(1);
        let listed_keys = self.queries.listed_keys();
        for id in ids {
            let owner = Owner::Request(id);
            while self.in_flight.room() > 0 && self.in_flight.outstanding(owner) < share {
                let budget = self.in_flight.budget(listed_keys);
                let call = self.queries.query(id).and_then(|query| query.next_call(budget));
                let Some(call) = call else { break };
                self.send_call(owner, call, now);
            }
        }
    }

    pub(super) fn send_call(&mut self, owner: Owner, call: Call, now: Duration) {
        let Call { tag, request, cost } = call;
        let sent = Sent { owner, tag, subject: request.subject.clone(), cost, since: now };
        let number = self.in_flight.add(sent);
        let reply = Some(format!("{}.{number}", self.inbox()));
        self.actions.push(Action::Send(Outgoing { reply, ..request.into() }));
    }

    fn may_read_in_bulk(&self, now: Duration) -> BTreeSet<Bucket> {
        let never = self.settings.max_keys_one_by_one == usize::MAX;
        self.bulk_pauses.others(now).filter(|_| !never).collect()
    }

    /// These calls brought nothing: the connection ended, or they took too long. Long ones are replaced by others.
    pub(super) fn note_long_reads(&mut self, calls: impl IntoIterator<Item = Cost>, now: Duration) {
        for bucket in self.long_reads.failed(calls, now) {
            let minutes = BULK_PAUSE.as_secs() / 60;
            let text = format!(
                "the keys of bucket {bucket} are not listed for {minutes} min, but read one after the other: the connection ended under their list, or did not bring it in time; if this recurs, raise max_pending in the nats-server configuration, or look at the line to the nats-server"
            );
            self.notice(Level::Warn, Topic::Bulk, &format!("list {bucket}"), &text, now);
        }
    }

    /// A bulk read failed: the bucket is read key by key for a while.
    pub(super) fn not_in_bulk(&mut self, bucket: Bucket, why: &str, now: Duration) {
        self.bulk_pauses.begin(bucket, now);
        self.queries.leave_bulk(bucket);
        let why = shorten(why.to_owned());
        let minutes = BULK_PAUSE.as_secs() / 60;
        let text = format!("bulk reads of bucket {bucket} disabled for {minutes} min: {why}");
        self.notice(Level::Info, Topic::Bulk, &format!("bulk {bucket}"), &text, now);
    }
}

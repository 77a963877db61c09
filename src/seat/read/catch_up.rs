//! Brings a cached bucket up to date.
//!
//! 1. Stream info gives the last sequence.
//! 2. All messages after the cached sequence are fetched, in parts. Each message names the one before it, so a part
//!    has no gap. What arrived is kept even if the rest never arrives.
//! 3. Stream info again: if nothing was written since, there are as many messages as cached keys, and the oldest message
//!    is the oldest cached one, then the cache is complete. Keys expire and are purged without a write, so the sequence
//!    alone does not show that.
//!
//! A bucket may have been restored from a backup and written since; no number of the stream tells. But then everything
//! that the cache has of the time after the backup is wrong: the newest cached write whose key was not written since
//! is missing, or has another one after it. So each part begins with the newest cached writes. If the newest of them that
//! was not overwritten is among those that arrive, and nothing else of that time, the rest of the cache is right. If none
//! of them is left, the newest cached write that still exists is looked for at the end of the read. If anything does
//! not fit, everything is read again from the start.

use super::cache::{Entry, Lease, Standing, Write, read_time};
use super::way::Way;
use crate::seat::call::{Budget, Call, Cost, Tag};
use crate::seat::limits::{
    FIRST_PART_BYTES, MAX_CACHED_KEYS, MAX_CACHED_VALUE_BYTES, MAX_PART_BYTES, MIN_PART_BYTES, QUICK_PART,
    SLOW_PART,
};
use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::{self, Part};
use mesh_jetstream::kv::{self, Message};
use mesh_jetstream::stream_info::{self, State, StreamInfo};
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::Cause;
use std::time::Duration;

/// How many messages a part requests. At the start of each part the server counts all messages after it, which takes
/// milliseconds in a large bucket that was often written.
const PART_MESSAGES: usize = 8000;

/// How many messages are read one after the other until the room for them is looked at.
const MESSAGES_ONE_BY_ONE: usize = 1000;

/// How many messages show whether a write is still there, and nothing else before it.
const CHECK_MESSAGES: usize = 2;

/// A bucket with more bytes, or more bytes per message, is not cached: reading it takes too long.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_MEAN_BYTES: u64 = 4 * 1024;

/// How often a step is tried again: because the bucket kept changing, because the replying server does not know the newest
/// writes yet (in a cluster any server with a copy may reply), or because what was read is not what the bucket holds.
const MAX_TRIES: u32 = 8;

/// A cache that is being brought up to date.
#[derive(Debug)]
pub(in crate::seat) struct CatchUp {
    bucket: Bucket,
    way: Way,
    lease: Lease,
    stage: Stage,
    tries: u32,
    look: Option<StreamInfo>,
    part: PartUnderWay,
    /// The sequence from which on the next message is to be requested, if messages are read one after the other.
    to_ask: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    ToLook,
    Looking,
    ToRead,
    Reading,
    /// Nothing came after the cached sequence, although more was written: asking whether it is gone.
    ToAsk,
    Asking,
    /// Looking for the newest cached write that still exists.
    ToCheck,
    Checking,
    AtTheEnd,
}

/// A part that is being read.
#[derive(Debug, Default)]
struct PartUnderWay {
    /// The cached sequence when the part was requested.
    base: u64,
    /// The newest cached writes up to there. Nothing else may come of the time before, and those that are missing must
    /// have been overwritten.
    snapshot: Vec<Write>,
    /// The sequence of the newest of them that has come; 0 if none has.
    met: u64,
    /// How many messages have come.
    count: u64,
    /// The sequence of the one that came last.
    came: u64,
    /// When the first one came.
    begun: Duration,
    /// What comes does not fit what was cached.
    is_other: bool,
}

impl PartUnderWay {
    /// Whether the newest cached write has come, or nothing was cached.
    fn has_met_the_newest(&self) -> bool {
        self.snapshot.last().is_none_or(|newest| newest.standing.sequence == self.met)
    }
}

/// Why a bucket is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::seat) enum Uncacheable {
    /// This time.
    Now,
    /// For some time: another try would cost the same. The reason.
    ForAWhile(&'static str),
}

/// How a step went. The outer error ends the query, or says why a bulk read was useless.
type Step = Result<(), Uncacheable>;

impl CatchUp {
    /// Catches up with `bucket`, in bulk or message by message.
    pub(in crate::seat) fn new(bucket: Bucket, way: Way, mut lease: Lease) -> Self {
        lease.make_room();
        CatchUp {
            bucket,
            way,
            lease,
            stage: Stage::ToLook,
            tries: 0,
            look: None,
            part: PartUnderWay::default(),
            to_ask: None,
        }
    }

    /// The next call, if there is one to send now.
    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        let bucket = Kv::new(self.bucket.name());
        match self.stage {
            Stage::ToLook => {
                self.stage = Stage::Looking;
                Some(Call { tag: Tag::Look, request: stream_info::get(bucket), cost: Cost::Single })
            }
            Stage::ToRead if self.is_singly() || budget.batch => {
                self.stage = Stage::Reading;
                let snapshot: Vec<Write> = self.lease.cache.newest().iter().cloned().collect();
                let base = self.lease.cache.up_to();
                let from = snapshot.first().map_or(base + 1, |oldest| oldest.standing.sequence);
                self.part = PartUnderWay { base, snapshot, ..PartUnderWay::default() };
                Some(self.part_from(from, PART_MESSAGES))
            }
            Stage::ToCheck if self.is_singly() || budget.batch => {
                self.stage = Stage::Checking;
                let base = self.lease.cache.unproven.last().copied().unwrap_or_default();
                let snapshot: Vec<Write> = self.lease.cache.newest_up_to(base).into_iter().collect();
                let from = snapshot.first().map_or(1, |newest| newest.standing.sequence);
                self.part = PartUnderWay { base, snapshot, ..PartUnderWay::default() };
                Some(self.part_from(from, CHECK_MESSAGES))
            }
            Stage::Reading | Stage::Checking => self.to_ask.take().map(|from| self.one(from)),
            Stage::ToAsk => {
                self.stage = Stage::Asking;
                Some(self.one(self.lease.cache.up_to() + 1))
            }
            _ => None,
        }
    }

    fn is_singly(&self) -> bool {
        self.way == Way::Singly
    }

    /// Requests the first part of what was written from `from` on, at most `messages`.
    fn part_from(&self, from: u64, messages: usize) -> Call {
        if self.is_singly() {
            return self.one(from);
        }
        let request = direct_get::after(Kv::new(self.bucket.name()), from, messages, self.pace());
        Call { tag: Tag::Batch(0), request, cost: Cost::Batch(self.bucket) }
    }

    /// Requests the first message from `from` on.
    fn one(&self, from: u64) -> Call {
        Call { tag: Tag::Next, request: kv::next(Kv::new(self.bucket.name()), from), cost: Cost::Single }
    }

    fn pace(&self) -> usize {
        let pace = match self.lease.cache.pace {
            0 => FIRST_PART_BYTES,
            pace => pace,
        };
        pace.min(self.max_part_bytes())
    }

    const fn max_part_bytes(&self) -> usize {
        match self.way {
            Way::InBulk { part_bytes, .. } => part_bytes,
            Way::Listed | Way::Singly => MAX_PART_BYTES,
        }
    }

    /// Handles stream info.
    pub(in crate::seat) fn looked(&mut self, body: &[u8]) -> Result<Step, Cause> {
        let look = stream_info::parse(Kv::new(self.bucket.name()), body).map_err(Cause::Api)?;
        Ok(look.map_or(Err(Uncacheable::Now), |look| self.take_look(look)))
    }

    fn take_look(&mut self, look: StreamInfo) -> Step {
        let State { created, messages, first_sequence, last_sequence, .. } = &look.state;
        let is_short = look.bytes <= messages.saturating_mul(MAX_MEAN_BYTES);
        // If a key has several messages, a removal may reveal an older one.
        let is_fit =
            look.history == 1 && is_short && *messages <= MAX_CACHED_KEYS as u64 && look.bytes <= MAX_BYTES;
        if !is_fit {
            return Err(Uncacheable::Now);
        }
        let cache = &mut self.lease.cache;
        // Keys that disappeared without a write while the bucket kept changing.
        if cache.is_too_large() {
            cache.clear(0);
        }
        cache.fit(created, *first_sequence, *last_sequence);
        if *messages == 0 {
            cache.clear(*last_sequence);
        }
        let is_known = cache.up_to() == *last_sequence && cache.unproven.is_empty();
        let before = self.look.replace(look);
        if is_known && self.is_whole(before.as_ref()) {
            self.lease.cache.proven = self.look.as_ref().map(|look| look.state.clone());
            self.stage = Stage::AtTheEnd;
            return Ok(());
        }
        if self.has_few() {
            return Err(Uncacheable::Now);
        }
        if is_known {
            return self.start_again();
        }
        self.stage = Stage::ToRead;
        // The first look is not another try.
        if before.is_some() { self.try_again(Uncacheable::Now) } else { Ok(()) }
    }

    /// Whether the bucket has so few messages that they are listed.
    fn has_few(&self) -> bool {
        let few = match self.way {
            Way::InBulk { few, .. } => few as u64,
            Way::Listed | Way::Singly => return false,
        };
        self.look.as_ref().is_some_and(|look| look.state.messages <= few)
    }

    /// Whether the cache, which has everything up to the last write, is what the bucket holds.
    fn is_whole(&self, before: Option<&StreamInfo>) -> bool {
        let (cache, Some(look)) = (&self.lease.cache, &self.look) else { return false };
        let state = &look.state;
        if cache.proven.as_ref() == Some(state) || state.messages == 0 {
            return true;
        }
        // The last write itself may be gone; then the look before must have shown the same.
        let is_last = match cache.newest().back() {
            Some(newest) if newest.standing.sequence == state.last_sequence => {
                read_time(&state.last_at) == Some(newest.standing.at)
            }
            _ => before.is_some_and(|before| before.state.last_at == state.last_at),
        };
        let first = read_time(&state.first_at).map(|at| (state.first_sequence, at));
        is_last && cache.len() == state.messages && cache.oldest() == first
    }

    fn start_again(&mut self) -> Step {
        self.lease.cache.clear(0);
        self.stage = Stage::ToRead;
        self.try_again(Uncacheable::ForAWhile("its messages are not as many as its keys"))
    }

    const fn try_again(&mut self, uncacheable: Uncacheable) -> Step {
        self.tries += 1;
        if self.tries > MAX_TRIES { Err(uncacheable) } else { Ok(()) }
    }

    /// Handles the reply to the question whether anything exists after the cached sequence.
    pub(in crate::seat) fn asked(&mut self, body: &[u8]) -> Result<Step, Cause> {
        let message = kv::parse_message(body).map_err(Cause::Api)?;
        if matches!(self.stage, Stage::Reading | Stage::Checking) {
            return self.came(message);
        }
        if self.stage != Stage::Asking {
            return Ok(Ok(()));
        }
        if message.is_some() {
            self.stage = Stage::ToRead;
            let why = "the replying server does not know the newest writes";
            return Ok(self.try_again(Uncacheable::ForAWhile(why)));
        }
        self.lease.cache.skip_to(self.goal());
        self.go_on();
        Ok(Ok(()))
    }

    /// Handles the next message, of those that are read one after the other; there may be none.
    fn came(&mut self, message: Option<Message>) -> Result<Step, Cause> {
        let Some(message) = message else { return Ok(self.end_part(0, Duration::ZERO)) };
        self.take_message(&message, Duration::ZERO).map_err(|why| Cause::Api(ApiError::Unreadable(why)))?;
        let (most, is_last) = match self.stage {
            Stage::Checking => (CHECK_MESSAGES, false),
            _ => (MESSAGES_ONE_BY_ONE, message.sequence >= self.goal()),
        };
        if is_last || self.part.count >= most as u64 {
            return Ok(self.end_part(1, Duration::ZERO));
        }
        self.to_ask = Some(message.sequence + 1);
        Ok(Ok(()))
    }

    /// Handles a part, which came at `now`. The error says why it is useless.
    pub(in crate::seat) fn on_part(&mut self, part: Part, now: Duration) -> Result<Step, String> {
        match part {
            Part::Message { after, .. } | Part::End { after, .. } if after != self.part.came => {
                Err("a message is missing in the reply".to_owned())
            }
            Part::Message { message, .. } => {
                self.take_message(&message, now)?;
                Ok(Ok(()))
            }
            Part::End { left_out, .. } => Ok(self.end_part(left_out, now)),
            // Nothing is left after it.
            Part::Unusable(why) if why.starts_with("404") => Ok(self.end_part(0, now)),
            Part::Unusable(why) => Err(why),
        }
    }

    fn take_message(&mut self, message: &Message, now: Duration) -> Result<(), String> {
        let bucket = Kv::new(self.bucket.name());
        let key = message.subject.strip_prefix(&bucket.subject_prefix());
        let key = key.ok_or("the stream holds subjects that are not keys")?;
        let standing = Standing::of(message).ok_or("a message has no time")?;
        if standing.sequence <= self.part.came {
            return Err("a message comes twice".to_owned());
        }
        self.part.came = standing.sequence;
        self.part.count += 1;
        if self.part.count == 1 {
            self.part.begun = now;
        }
        // A value under headers that cannot be read is read with its fault when it is asked for.
        let is_kept = message.value.len() <= MAX_CACHED_VALUE_BYTES && message.header_fault.is_none();
        self.take(key, standing, is_kept.then_some(message.value.as_slice()));
        Ok(())
    }

    fn take(&mut self, key: &str, standing: Standing, value: Option<&[u8]>) {
        let part = &mut self.part;
        if part.is_other {
            return;
        }
        let cache = &mut self.lease.cache;
        if standing.sequence <= part.base {
            if part.snapshot.iter().any(|snapshot| snapshot.key == key && snapshot.standing == standing) {
                part.met = standing.sequence;
            } else {
                part.is_other = true;
                cache.clear(0);
            }
        } else if self.stage == Stage::Reading {
            // Until it is shown that what was known still holds. The rest of the part may never come.
            if !part.has_met_the_newest() && cache.unproven.last() != Some(&part.base) {
                cache.unproven.push(part.base);
            }
            cache.take(key, standing, value);
        }
    }

    fn end_part(&mut self, left_out: u64, now: Duration) -> Step {
        let PartUnderWay { count, came, base, begun, is_other, met, .. } = self.part;
        if self.stage == Stage::Reading && count > 0 && !self.is_singly() {
            let took = now.saturating_sub(begun);
            let pace = self.pace();
            self.lease.cache.pace = if took > SLOW_PART {
                (pace / 2).max(MIN_PART_BYTES)
            } else if took < QUICK_PART && left_out > 0 {
                (pace * 4).min(self.max_part_bytes())
            } else {
                pace
            };
        }
        let has_met_the_newest = self.part.has_met_the_newest();
        if is_other || self.stage == Stage::Checking && !has_met_the_newest {
            return self.start_again();
        }
        let cache = &mut self.lease.cache;
        if self.stage == Stage::Checking {
            cache.unproven.pop();
            self.go_on();
            return Ok(());
        }
        if !has_met_the_newest {
            let holds = cache.newest_up_to(base).is_some_and(|left| left.standing.sequence == met);
            cache.unproven.retain(|unproven| *unproven != base);
            cache.unproven.extend((!holds).then_some(base));
        }
        if !self.lease.make_room() {
            return Err(Uncacheable::ForAWhile("what is known of it takes too much room"));
        }
        if self.lease.cache.is_too_large() {
            return Err(Uncacheable::ForAWhile("it has too many keys"));
        }
        let is_at_its_end = left_out == 0 || count == 0 || came <= base;
        self.stage = if self.lease.cache.up_to() < self.goal() && is_at_its_end {
            Stage::ToAsk
        } else {
            Stage::ToRead
        };
        self.go_on();
        Ok(())
    }

    /// The next step once everything that was written is cached.
    fn go_on(&mut self) {
        if self.lease.cache.up_to() >= self.goal() {
            self.stage = if self.lease.cache.unproven.is_empty() { Stage::ToLook } else { Stage::ToCheck };
        }
    }

    /// The last sequence in the latest stream info.
    fn goal(&self) -> u64 {
        self.look.as_ref().map_or(0, |look| look.state.last_sequence)
    }

    /// Whether the cache is up to date with the latest stream info.
    pub(in crate::seat) fn is_at_the_end(&self) -> bool {
        self.stage == Stage::AtTheEnd
    }

    /// The state of the bucket that the cache shows.
    pub(in crate::seat) fn state(&self) -> Option<&State> {
        self.look.as_ref().map(|look| &look.state)
    }

    /// The mean size of a message of the bucket, in bytes.
    pub(in crate::seat) fn mean_bytes(&self) -> usize {
        let mean = self.look.as_ref().and_then(|look| look.bytes.checked_div(look.state.messages));
        usize::try_from(mean.unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// The number of keys.
    pub(in crate::seat) fn keys(&self) -> usize {
        usize::try_from(self.lease.cache.len()).unwrap_or(usize::MAX)
    }

    /// Its progress, as text.
    pub(in crate::seat) fn progress(&self) -> String {
        format!(
            "bucket {} was read up to its write {} of {}",
            self.bucket,
            self.lease.cache.up_to(),
            self.goal()
        )
    }

    /// The keys after `after` in order, each with its last write and, if `with_values`, its cached value.
    pub(in crate::seat) fn entries_after(
        &self,
        after: Option<&str>,
        with_values: bool,
    ) -> impl Iterator<Item = (String, Entry)> {
        self.lease.cache.entries_after(after, with_values)
    }
}

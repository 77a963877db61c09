//! A bucket followed to its end: what was written since its cache was last used, in the order of the writes.
//!
//! A look at the stream says how far there is to go. Then everything behind what is known is read, in parts, each of
//! which counts once its end shows that it has no gap. Then another look must show that nothing was written since, and
//! as many messages as there are keys: keys expire and are purged without a write. Then the cache is what the bucket
//! holds. A bucket may have been restored from a time before, too, and written since: so the first part begins with the
//! last write that is known, which must be there as it was, or its key must have been written since. Where something
//! is amiss all is read again from the start. What is left is a restored bucket in which that very key was written
//! again, no other write has taken its sequence, and the keys are as many: until nobody has asked for ten minutes.

use super::cache::{Entry, Lease, MAX_CACHED_KEYS, MAX_CACHED_VALUE_BYTES, Standing, read_time};
use crate::seat::call::{Budget, Call, Cost, Tag};
use crate::seat::failure::Cause;
use crate::wire::answer::AsOf;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::{self, Part};
use mesh_jetstream::stream_info::{self, State, StreamInfo};
use mesh_model::bucket::Bucket;
use std::mem;

/// How many messages a part asks for. The start of each costs the server a count of all that is behind it, some
/// milliseconds in a large bucket that was often written.
const PART_MESSAGES: usize = 8000;

/// A bucket with more bytes, more bytes a message, or more messages than a cache has room for is not followed: the
/// cache would be too large, or take too long.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_MEAN_BYTES: u64 = 4 * 1024;

/// How often the bucket is looked at until it holds still for as long as a read takes.
const MAX_LOOKS: u32 = 8;

/// How often all is read again from the start.
const MAX_RESTARTS: u32 = 2;

/// How often a part is asked for again because the server that answered does not know the newest writes yet: in a
/// cluster any server that has a copy may answer.
const MAX_LAGS: u32 = 8;

/// A bucket being followed.
#[derive(Debug)]
pub(in crate::seat) struct CatchUp {
    bucket: Bucket,
    /// A bucket with no more messages is not worth it.
    few: usize,
    lease: Lease,
    stage: Stage,
    looks: u32,
    restarts: u32,
    lags: u32,
    look: Option<StreamInfo>,
    /// The sequence of the message that the part under way has brought last; 0 if none has come.
    came: u64,
    /// What it has brought.
    part: Vec<(String, Standing, Option<Vec<u8>>)>,
    /// Whether the last write that was known has been looked for.
    has_met_last: bool,
    /// Whether another one was found in its place.
    is_other: bool,
    /// The key of that write, if it is no longer there: the key must have been written since.
    owed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    ToLook,
    Looking,
    ToRead,
    Reading,
    AtTheEnd,
}

/// That a bucket is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::seat) enum Uncacheable {
    /// This time.
    Now,
    /// To try again would cost as much each time, for this reason.
    ForAWhile(&'static str),
}

impl CatchUp {
    /// Follows `bucket`, if that has more than a `few` messages.
    pub(in crate::seat) const fn new(bucket: Bucket, few: usize, lease: Lease) -> Self {
        CatchUp {
            bucket,
            few,
            lease,
            stage: Stage::ToLook,
            looks: 0,
            restarts: 0,
            lags: 0,
            look: None,
            came: 0,
            part: Vec::new(),
            has_met_last: false,
            is_other: false,
            owed: None,
        }
    }

    /// The next request to send, if there is one to send now.
    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        match self.stage {
            Stage::ToLook => {
                self.stage = Stage::Looking;
                Some(Call {
                    tag: Tag::Look,
                    request: stream_info::get(Kv::new(self.bucket.name())),
                    cost: Cost::Single,
                })
            }
            Stage::ToRead if budget.batch => {
                self.stage = Stage::Reading;
                let is_met = self.has_met_last || self.lease.cache.last().is_none();
                let from = self.lease.cache.up_to() + u64::from(is_met);
                let request = direct_get::after(Kv::new(self.bucket.name()), from, PART_MESSAGES);
                Some(Call { tag: Tag::Batch(0), request, cost: Cost::Batch(self.bucket) })
            }
            Stage::ToRead | Stage::Looking | Stage::Reading | Stage::AtTheEnd => None,
        }
    }

    /// Takes what a look has shown.
    pub(in crate::seat) fn on_reply(&mut self, body: &[u8]) -> Result<Result<(), Uncacheable>, Cause> {
        let look = stream_info::parse(body).map_err(Cause::Api)?;
        Ok(look.map_or(Err(Uncacheable::Now), |look| self.looked(look)))
    }

    fn looked(&mut self, look: StreamInfo) -> Result<(), Uncacheable> {
        self.looks += 1;
        let State { created, messages, last_sequence, last_at } = &look.state;
        let is_short = look.bytes <= messages.saturating_mul(MAX_MEAN_BYTES);
        // Where a key may have several messages, one that goes may leave an older one behind.
        let is_fit =
            look.history == 1 && is_short && *messages <= MAX_CACHED_KEYS as u64 && look.bytes <= MAX_BYTES;
        if !is_fit || self.looks > MAX_LOOKS {
            return Err(Uncacheable::Now);
        }
        let cache = &mut self.lease.cache;
        // Keys that went without a write while the bucket never held still.
        if cache.is_too_large() {
            cache.clear(0);
        }
        cache.fit(created, *last_sequence);
        if *messages == 0 {
            cache.clear(*last_sequence);
        }
        let is_known = cache.up_to() == *last_sequence;
        let is_same = cache.last().is_none_or(|(_, at)| read_time(last_at) == Some(at));
        let is_whole = is_known && is_same && cache.len() == *messages;
        let is_small = *messages <= self.few as u64;
        self.look = Some(look);
        if is_whole {
            self.stage = Stage::AtTheEnd;
            Ok(())
        } else if is_small {
            Err(Uncacheable::Now)
        } else if is_known {
            self.start_again()
        } else {
            self.stage = Stage::ToRead;
            Ok(())
        }
    }

    fn start_again(&mut self) -> Result<(), Uncacheable> {
        self.lease.cache.clear(0);
        self.owed = None;
        self.stage = Stage::ToRead;
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            Err(Uncacheable::ForAWhile("its messages are not as many as its keys"))
        } else {
            Ok(())
        }
    }

    /// Takes a part of what was written. The error says why it is of no use.
    pub(in crate::seat) fn on_part(&mut self, part: Part) -> Result<Result<(), Uncacheable>, String> {
        match part {
            Part::Message { after, .. } | Part::End { after, .. } if after != self.came => {
                Err("a message is missing in the answer".to_owned())
            }
            Part::Message { message, .. } => {
                let key = message.subject.strip_prefix(&Kv::new(self.bucket.name()).subject_prefix());
                let key = key.ok_or("the stream holds subjects that are no keys")?;
                let standing = Standing::of(&message).ok_or("a message has no time")?;
                self.came = standing.sequence;
                let is_first = !mem::replace(&mut self.has_met_last, true);
                if is_first && self.meets_last(key, &standing) {
                    return Ok(Ok(()));
                }
                // A value under headers that cannot be read is read with its fault when it is asked for.
                let is_kept = message.value.len() <= MAX_CACHED_VALUE_BYTES && message.header_fault.is_none();
                let value = is_kept.then_some(message.value);
                if standing.sequence <= self.part.last().map_or(0, |(_, last, _)| last.sequence) {
                    return Err("a message comes twice".to_owned());
                }
                self.part.push((key.to_owned(), standing, value));
                Ok(Ok(()))
            }
            Part::End { left_out, .. } => Ok(self.end_part(left_out)),
            // Nothing is left, from there on.
            Part::Unusable(why) if why.starts_with("404") => Ok(self.end_part(0)),
            Part::Unusable(why) => Err(why),
        }
    }

    /// Holds the first message of all against the last write that is known. Whether it is that very one.
    fn meets_last(&mut self, key: &str, standing: &Standing) -> bool {
        let cache = &mut self.lease.cache;
        let Some((last, at)) = cache.last() else { return false };
        let is_there = standing.sequence == cache.up_to();
        if is_there && (key != last || standing.at != at) {
            // The bucket is another one: nothing of it is known.
            cache.clear(0);
            self.is_other = true;
        } else if !is_there {
            self.owed = Some(last.to_owned());
        }
        is_there
    }

    fn end_part(&mut self, left_out: u64) -> Result<(), Uncacheable> {
        self.came = 0;
        if mem::take(&mut self.is_other) {
            self.part.clear();
            return self.start_again();
        }
        let brings_nothing = self.part.is_empty();
        let cache = &mut self.lease.cache;
        for (key, standing, value) in self.part.drain(..) {
            if standing.sequence > cache.up_to() {
                self.owed.take_if(|owed| *owed == key);
            }
            cache.take(key, standing, value.as_deref());
        }
        // Once the cache is given back, nobody knows any more what is owed.
        if self.owed.is_some() {
            return self.start_again();
        }
        let is_far_enough = self.lease.cache.up_to() >= self.goal();
        self.stage = if is_far_enough { Stage::ToLook } else { Stage::ToRead };
        if !is_far_enough && (left_out == 0 || brings_nothing) {
            self.lags += 1;
        }
        if self.lags > MAX_LAGS {
            Err(Uncacheable::ForAWhile(
                "the server that answered does not know the newest writes, or they are gone",
            ))
        } else if self.lease.cache.is_too_large() {
            Err(Uncacheable::ForAWhile("its keys take too much room"))
        } else {
            Ok(())
        }
    }

    /// The sequence of the last write when the bucket was last looked at.
    fn goal(&self) -> u64 {
        self.look.as_ref().map_or(0, |look| look.state.last_sequence)
    }

    /// Whether it wants to read what was written, and has not been able to.
    pub(in crate::seat) fn is_to_read(&self) -> bool {
        self.stage == Stage::ToRead
    }

    /// Whether the cache holds all that was written before it was last looked at.
    pub(in crate::seat) fn is_at_the_end(&self) -> bool {
        self.stage == Stage::AtTheEnd
    }

    /// The state of the bucket that it was followed to.
    pub(in crate::seat) fn as_of(&self) -> AsOf {
        let state = self.look.as_ref().map(|look| &look.state);
        AsOf {
            sequence: self.goal(),
            at: state.filter(|state| state.last_sequence > 0).map(|state| state.last_at.clone()),
        }
    }

    /// How many bytes a message of the bucket takes on average.
    pub(in crate::seat) fn mean_bytes(&self) -> usize {
        let mean = self.look.as_ref().and_then(|look| look.bytes.checked_div(look.state.messages));
        usize::try_from(mean.unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// How many keys there are.
    pub(in crate::seat) fn keys(&self) -> usize {
        usize::try_from(self.lease.cache.len()).unwrap_or(usize::MAX)
    }

    /// The keys behind `after` in their order, and what is known of each.
    pub(in crate::seat) fn entries_after(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &Entry)> {
        self.lease.cache.entries_after(after)
    }
}

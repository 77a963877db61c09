//! What a run begins with, and what happens in it: drawn from its seed.

use super::{Happening, Off, World};
use crate::bus::Backup;
use crate::keys::{Key, any_marker, any_value};
use mesh_model::bucket::Bucket;
use mesh_model::registry;
use mesh_provisioner::seat::Event;
use mesh_provisioner_api::request::{Ask, What};
use mesh_testing::dice::Dice;
use std::time::Duration;

/// The buckets that nodes write.
const OF_THE_NODES: [Bucket; 3] = [Bucket::Needs, Bucket::Applied, Bucket::Collect];

impl World<'_> {
    pub(super) fn populate(&mut self) {
        if self.dice.chance(500) {
            for entry in &registry::ENTRIES {
                self.bus.write(
                    Bucket::Registry,
                    Key::of(&[entry.kind.to_owned()]),
                    Vec::new(),
                    entry.to_json().into(),
                );
            }
        }
        for _ in 0..self.dice.below(30) {
            self.node_write();
        }
        for bucket in [Bucket::Needs, Bucket::Applied, Bucket::Collect] {
            if self.is_large && self.dice.chance(400) {
                let longer = *self.dice.pick(&[0, 0, 100]);
                for number in 0..400 + self.dice.below(900) {
                    let key = Key::numbered(bucket, &mut self.dice, number, longer);
                    // One that is not kept has those after it read again, too.
                    let (value, headers) = if self.dice.chance(20) {
                        any_value(&mut self.dice, 0)
                    } else {
                        (number.to_string().into_bytes(), Vec::new())
                    };
                    self.bus.write(bucket, key, headers, value);
                }
            }
            // What is kept of a bucket may be too much for reading all of it in bulk.
            match self.dice.below(12) {
                0 => self.bus.stream(bucket).history = 5,
                1 => self.bus.stream(bucket).other_bytes = 1 << 40,
                _ => {}
            }
        }
    }

    /// Draws what happens within `length`.
    pub(super) fn plan(&mut self, length: Duration) {
        let milliseconds = u64::try_from(length.as_millis()).unwrap();
        let at_some_time = |world: &mut Self, count: usize, happening: fn(&mut Dice) -> Happening| {
            for _ in 0..count {
                let (at, happening) = (world.dice.within(milliseconds), happening(&mut world.dice));
                world.queue(at, happening);
            }
        };
        let faults = self.faults.clone();
        at_some_time(self, faults.breaks, |_| Happening::Break(None));
        at_some_time(self, faults.registry_writes, |_| Happening::RegistryWrite);
        at_some_time(self, faults.node_writes, |_| Happening::NodeWrite);
        at_some_time(self, faults.restores, |_| Happening::Backup);
        at_some_time(self, faults.restores, |_| Happening::Restore);
        at_some_time(self, faults.purges, |dice| Happening::Purge(dice.chance(500)));
        at_some_time(self, faults.newest_expires, |_| Happening::NewestExpires);
        at_some_time(self, faults.sleeps, |dice| {
            // The longest is long enough for what was given up for a while to be tried again.
            let longest = *dice.pick(&[20_000, 20_000, 900_000]);
            Happening::Sleep(dice.within(longest))
        });
        at_some_time(self, faults.sleeps, |_| Happening::ClockStep);
        at_some_time(self, faults.outages, |dice| {
            Happening::Off(Some(*dice.pick(&[Off::Stream, Off::Account, Off::Server])))
        });
        at_some_time(self, faults.outages, |_| Happening::Off(None));
        at_some_time(self, 4, |_| Happening::Strange);
        at_some_time(self, 1, |dice| {
            Happening::Tell(match dice.below(4) {
                0 => Event::LameDuck,
                1 => Event::Reload,
                2 => Event::Overrun(1),
                _ => Event::MaxPayload(16 * 1024),
            })
        });
        let asks = self.dice.below(12);
        at_some_time(self, asks, |_| Happening::Ask);
        if self.dice.chance(5) {
            // More at once than the seat takes on.
            let at = self.dice.within(milliseconds);
            for _ in 0..self.dice.below(1_500) {
                self.queue(at, Happening::Ask);
            }
        }
    }

    pub(super) fn registry_write(&mut self) {
        let kind = self.dice.pick(&registry::ENTRIES).kind.to_owned();
        let key = if self.dice.chance(500) {
            Key::of(&[kind])
        } else {
            Key::any(Bucket::Registry, &mut self.dice, 400)
        };
        self.change(Bucket::Registry, key);
    }

    /// A node writes, or one of its keys goes. Gives the question for what it has in that bucket.
    pub(super) fn node_write(&mut self) -> Ask {
        let bucket = *self.dice.pick(&[Bucket::Needs, Bucket::Needs, Bucket::Applied, Bucket::Collect]);
        let key = Key::any(bucket, &mut self.dice, self.faults.ugly_keys);
        // Often it is a key that was there before, and most often one that was written recently.
        let versions = &self.bus.stream(bucket).versions;
        let back = match self.dice.below(4) {
            0 => self.dice.below(versions.len()),
            1 => self.dice.below(3),
            _ => usize::MAX,
        };
        let known = versions.len().checked_sub(back.saturating_add(1)).map(|at| versions[at].key.clone());
        let key = known.unwrap_or(key);
        let what = match bucket {
            Bucket::Applied => What::Applied,
            Bucket::Collect => What::Collect,
            _ => What::Needs,
        };
        let node = key.names.as_ref().map(|names| names[0].clone());
        self.change(bucket, key);
        Ask { node, ..Ask::new(what) }
    }

    /// Now and then nodes write just before a question, and while it is being answered. The question may be what one
    /// of them has.
    pub(super) fn write_beside(&mut self) -> Option<Ask> {
        let mut ask = None;
        if self.faults.node_writes > 0 && self.dice.chance(300) {
            for _ in 0..self.dice.below(4) {
                let of_node = self.node_write();
                ask = self.dice.chance(500).then_some(of_node);
            }
            self.bus.step += 1;
            for _ in 0..=self.dice.below(6) {
                let at = self.now + self.dice.within(12);
                self.queue(at, Happening::NodeWrite);
            }
        }
        ask
    }

    /// A bucket of the nodes is copied.
    pub(super) fn backup(&mut self) {
        let bucket = *self.dice.pick(&OF_THE_NODES);
        let backup = self.bus.stream(bucket).backup();
        self.backups.insert(bucket, backup);
    }

    /// A bucket of the nodes becomes what it was when it was copied, and nodes go on writing to it, some of them what
    /// they had written since: as many messages as before, or more. One that was never copied is empty then.
    pub(super) fn restore(&mut self) {
        let bucket = *self.dice.pick(&OF_THE_NODES);
        let step = self.bus.step;
        let stream = self.bus.stream(bucket);
        let (lost, empty) = (stream.backup(), Backup::default());
        let backup = self.backups.get(&bucket).cloned().unwrap_or(empty);
        stream.restore(&backup, step);
        self.tally.restores += 1;
        // Some of the keys are written again, as often as it takes to come by the sequence that was the last, or not.
        let since: Vec<Key> =
            lost.written_after(&backup).into_iter().filter(|_| self.dice.chance(500)).collect();
        let far = usize::try_from(lost.last_sequence().saturating_sub(backup.last_sequence())).unwrap_or(0);
        let writes =
            if self.dice.chance(700) { far.min(60) + self.dice.below(3) } else { self.dice.below(far + 1) };
        for _ in 0..writes {
            let again = if since.is_empty() || self.dice.chance(50) {
                Key::any(bucket, &mut self.dice, self.faults.ugly_keys)
            } else {
                since[self.dice.below(since.len())].clone()
            };
            self.change(bucket, again);
        }
    }

    /// The newest write of a bucket of the nodes goes without another one, such as one that had a time to live.
    pub(super) fn newest_expires(&mut self) {
        let bucket = *self.dice.pick(&OF_THE_NODES);
        let step = self.bus.step;
        let stream = self.bus.stream(bucket);
        let newest =
            stream.newest().max_by_key(|version| version.sequence).map(|version| version.key.clone());
        if let Some(key) = newest {
            stream.expire(&key, step);
        }
    }

    /// A key goes without a write.
    pub(super) fn expire_one(&mut self) {
        let bucket = *self.dice.pick(&[Bucket::Needs, Bucket::Applied, Bucket::Collect]);
        let step = self.bus.step;
        let keys: Vec<Key> = self.bus.stream(bucket).newest().map(|version| version.key.clone()).collect();
        if !keys.is_empty() {
            let key = self.dice.pick(&keys);
            self.bus.stream(bucket).expire(key, step);
        }
    }

    pub(super) fn change(&mut self, bucket: Bucket, key: Key) {
        self.bus.clock += self.dice.roll() % 1_000_000_000;
        match self.dice.below(10) {
            0 | 1 => {
                let marker = any_marker(&mut self.dice);
                self.bus.write(bucket, key, marker, Vec::new());
            }
            2 => {
                let step = self.bus.step;
                self.bus.stream(bucket).expire(&key, step);
            }
            _ => {
                let (value, headers) = any_value(&mut self.dice, self.faults.ugly_headers);
                self.bus.write(bucket, key, headers, value);
            }
        }
    }
}

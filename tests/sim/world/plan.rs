//! What a run begins with, and what happens in it: drawn from its seed.

use super::{Happening, Off, World};
use crate::dice::Dice;
use crate::keys::{Key, any_marker, any_value};
use mesh_provisioner::bucket::Bucket;
use mesh_provisioner::registry;
use mesh_provisioner::seat::Event;
use std::time::Duration;

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
        at_some_time(self, faults.breaks, |_| Happening::Break);
        at_some_time(self, faults.registry_writes, |_| Happening::RegistryWrite);
        at_some_time(self, faults.node_writes, |_| Happening::NodeWrite);
        at_some_time(self, faults.sleeps, |dice| Happening::Sleep(dice.within(20_000)));
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

    pub(super) fn node_write(&mut self) {
        let bucket = *self.dice.pick(&[Bucket::Needs, Bucket::Needs, Bucket::Applied, Bucket::Collect]);
        let key = Key::any(bucket, &mut self.dice, 150);
        self.change(bucket, key);
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
                let (value, headers) = any_value(&mut self.dice);
                self.bus.write(bucket, key, headers, value);
            }
        }
    }
}

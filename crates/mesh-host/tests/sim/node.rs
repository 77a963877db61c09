//! A simulated node: a machine, a disk, and applies that may be killed.

use crate::chance::Chance;
use crate::disk::SimDisk;
use crate::fuse::Fuse;
use crate::scenario::Round;
use crate::world::{Thing, World};
use mesh_host::apply;
use mesh_host::engine::{Ended, Engine, Request};
use mesh_host::record::Memory;
use mesh_host::state::Journal;
use mesh_host::step::Ids;

pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) disk: SimDisk,
    chance: Chance,
}

const ROOT: Ids = Ids { uid: 0, gid: 0 };

impl Node {
    pub(crate) fn new(seed: u64) -> Self {
        let fuse = Fuse::default();
        let mut world = World::new(seed, fuse.clone());
        for path in ["/etc", "/srv", "/media", "/opt"] {
            world.put(path, Thing::Directory, 0o755, ROOT);
        }
        world.put("/etc/passwd", Thing::File(b"root".to_vec()), 0o644, ROOT);
        world.put("/srv/foreign", Thing::File(b"foreign".to_vec()), 0o640, Ids { uid: 9, gid: 9 });
        let mut chance = Chance::new(seed ^ 0x5151);
        if chance.once_in(2) {
            world.put("/etc/x", Thing::File(b"the machine's".to_vec()), 0o640, ROOT);
        }
        if chance.once_in(2) {
            world.put("/etc/y", Thing::File(b"one".to_vec()), 0o600, ROOT);
        }
        if chance.once_in(2) {
            world.put("/media/films", Thing::Directory, 0o755, ROOT);
        }
        if chance.once_in(3) {
            world.put("/srv/k", Thing::Directory, 0o755, ROOT);
        }
        Self { world, disk: SimDisk::new(fuse), chance }
    }

    pub(crate) fn hands(&mut self, round: &Round) {
        for path in &round.hands {
            self.world.meddle(path);
        }
        self.world.faults = round.faults.clone();
    }

    /// Applies, and is killed at the operation of this number. `None`: it was killed.
    pub(crate) fn apply(&mut self, round: &Round, kill_at: Option<u64>) -> Option<Vec<Ended>> {
        self.request(round.request(), round, kill_at)
    }

    pub(crate) fn request(
        &mut self,
        request: Request,
        round: &Round,
        kill_at: Option<u64>,
    ) -> Option<Vec<Ended>> {
        self.world.touched.clear();
        self.world.fuse.light(kill_at);
        let ended = self.run(request, round);
        self.world.fuse.light(None);
        if ended.is_none() {
            self.disk.crash(&mut self.chance);
        }
        ended
    }

    fn run(&mut self, request: Request, round: &Round) -> Option<Vec<Ended>> {
        let disk = std::mem::take(&mut self.disk);
        let fuse = disk.fuse.clone();
        // Opened on a copy: the disk is needed again after a kill.
        self.disk = disk.clone();
        let (mut journal, _) = Journal::open(disk).ok()?;
        let mut ended = Vec::new();
        self.world.sweep(journal.memory());
        let mut engine = Engine::new(request, journal.memory());
        let result = apply::run(&mut engine, &mut self.world, &mut journal, &round.contents(), &mut |end| {
            ended.push(end);
        });
        self.disk = journal.into_disk();
        self.disk.fuse = fuse;
        result.ok().map(|()| ended)
    }

    pub(crate) fn memory(&self) -> Memory {
        Journal::open(self.disk.clone()).unwrap().0.memory().clone()
    }
}

//! One run: a seat over the fake bus, in a time that jumps from one happening to the next.
//!
//! First with faults, while the judge looks at every answer and the bus at every write. Then the faults end, and the
//! seat must get well within [`GETS_WELL`]; then it is asked everything; then it is told to stop.

mod answering;
mod asking;
mod awaited;
mod batches;
mod happening;
mod plan;

use crate::bus::{Backup, Bus, Verdict};
use crate::faults::Faults;
use crate::tally::Tally;
use awaited::Awaited;
use happening::{Happening, Off};
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_provisioner::seat::{Action, Event, Health, Seat, Settings};
use mesh_provisioner_api::request::Ask;
use mesh_service::identity::Identity;
use mesh_testing::dice::Dice;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Within this time after the last fault the registry is right: the longest wait between two passes, and the time in
/// which a pass that was under way can fail.
pub(crate) const GETS_WELL: Duration = Duration::from_secs(75);

/// Within this time a pass that somebody asked for is over.
const PASSED: Duration = Duration::from_secs(15);

/// Within this time a change of the registry is noticed.
const NOTICED: Duration = Duration::from_secs(60);

/// The longest wait after the seat was told to stop.
const STOPPED: Duration = Duration::from_secs(5);

/// More happenings than any run has: a run beyond it does not end.
const MAX_STEPS: u64 = 3_000_000;

/// The seat, or something that pretends to be it.
pub(crate) trait Machine {
    fn handle(&mut self, event: Event, now: Duration) -> Vec<Action>;
    fn next_deadline(&self) -> Option<Duration>;
    fn health(&self, now: Duration) -> Health;

    /// Has the faults of a run be what shows it soonest.
    fn choose(&self, _faults: &mut Faults) {}
}

impl Machine for Seat {
    fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        Seat::handle(self, event, now)
    }

    fn next_deadline(&self) -> Option<Duration> {
        Seat::next_deadline(self)
    }

    fn health(&self, now: Duration) -> Health {
        Seat::health(self, now)
    }
}

/// How long the seat takes for a part of something long, between which others have their turn.
const SLICE: Duration = Duration::from_micros(100);

/// How often in a row it may want to be woken at once, with nothing else happening: more often than any life needs.
const MOST_SLICES: u32 = 100;

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    ask: Option<Ask>,
    from: u64,
}

pub(crate) struct World<'a> {
    seat: &'a mut dyn Machine,
    dice: Dice,
    faults: Faults,
    bus: Bus,
    /// What somebody copied of each bucket.
    backups: BTreeMap<Bucket, Backup>,
    /// After how many bytes a server ends a batch, whatever was asked for.
    batch_bytes: usize,
    /// Whether buckets may have many keys.
    is_large: bool,
    now: Duration,
    queue: BTreeMap<(Duration, u64), Happening>,
    queued: u64,
    link: Option<u64>,
    /// How many connections there were: each has its number.
    links: u64,
    attempting: bool,
    off: Option<Off>,
    max_payload: usize,
    waiting: BTreeMap<String, Waiting>,
    /// The same in the order in which they were asked.
    in_order: VecDeque<(Duration, String)>,
    awaited: Awaited,
    asked: u64,
    /// The last error answer, for the report of a run that fails.
    last_error: String,
    woke: Duration,
    /// How often in a row the seat wanted to be woken at once.
    at_once: u32,
    stopping: Option<Duration>,
    over: bool,
    tally: Tally,
}

/// The settings of the seat of a run.
pub(crate) fn settings(seed: u64) -> Settings {
    let mut dice = Dice::new(seed ^ 0x5EA7);
    Settings {
        identity: Identity { id: "SEAT1".to_owned(), version: "0.1.0".to_owned() },
        started: "2026-11-29T13:26:00Z".to_owned(),
        every: Duration::from_secs(*dice.pick(&[20, 60, 3600])),
        reply_prefixes: Vec::new(),
        check_every: Duration::from_secs(50),
        max_keys_one_by_one: *dice.pick(&[0, 0, 0, 0, 3, 32, usize::MAX, usize::MAX]),
        inbox: "SECRET".to_owned(),
        jitter_seed: dice.roll(),
    }
}

/// Plays the run of `seed` on `seat`. The error says which rule was broken, and when.
pub(crate) fn run(seed: u64, seat: &mut dyn Machine) -> Verdict<Tally> {
    let mut dice = Dice::new(seed);
    let mut faults = Faults::drawn(&mut dice);
    seat.choose(&mut faults);
    let is_large = dice.chance(15);
    let page = *dice.pick(if is_large { &[200, 100_000] } else { &[2, 3, 5, 10, 100_000] });
    let batch_bytes =
        *dice.pick(if is_large { &[10_000, 50_000, usize::MAX] } else { &[1, 3_000, usize::MAX] });
    if is_large && dice.chance(700) {
        // Among that many keys there would always be one that no bulk read outlives.
        (faults.ugly_headers, faults.ugly_keys) = (0, 0);
    }
    let max_payload = *dice.pick(&[16, 64, 1024]) * 1024;
    let mut world = World {
        seat,
        dice,
        faults,
        bus: Bus::new(page),
        backups: BTreeMap::new(),
        batch_bytes,
        is_large,
        now: Duration::ZERO,
        queue: BTreeMap::new(),
        queued: 0,
        link: None,
        links: 0,
        attempting: false,
        off: None,
        max_payload,
        waiting: BTreeMap::new(),
        in_order: VecDeque::new(),
        awaited: Awaited::default(),
        asked: 0,
        last_error: String::new(),
        woke: Duration::ZERO,
        at_once: 0,
        stopping: None,
        over: false,
        tally: Tally::default(),
    };
    let outcome = world.play();
    outcome.map_err(|why| format!("at {:?}, step {}: {why} ({:?})", world.now, world.bus.step, world.faults))
}

impl World<'_> {
    fn play(&mut self) -> Verdict<Tally> {
        let length = Duration::from_secs(*self.dice.pick(&[10, 30, 60]));
        self.populate();
        self.plan(length);
        self.until(length)?;
        if self.dice.chance(250) {
            // An end in the middle of it all.
            self.tell(Event::Stop)?;
        } else {
            self.get_well()?;
            self.ask_everything()?;
            self.ask(None)?;
            self.tell(Event::Stop)?;
        }
        let end = self.now + STOPPED;
        // Nothing of this keeps it from ending, nor makes it begin anything.
        for event in [Event::Reload, Event::LameDuck, Event::Stop] {
            let at = self.now + self.dice.within(4_000);
            self.queue(at, Happening::Tell(event));
        }
        self.until(end)?;
        if !self.over {
            return Err("it does not end".to_owned());
        }
        if let Some((reply, waiting)) = self.waiting.first_key_value() {
            return Err(format!("{reply} was never answered: {waiting:?}"));
        }
        self.tally.steps = self.bus.step;
        self.tally.simulated = self.now;
        Ok(self.tally)
    }

    fn queue(&mut self, at: Duration, happening: Happening) {
        self.queued += 1;
        self.queue.insert((at, self.queued), happening);
    }

    /// Goes on until then, from one happening or deadline to the next.
    fn until(&mut self, end: Duration) -> Verdict<()> {
        while !self.over {
            let happens = self.queue.first_key_value().map(|((at, _), _)| *at);
            let asked_for = self.seat.next_deadline();
            let at_once = asked_for.is_some_and(|due| due <= self.now);
            let due = if at_once { Some(self.now + SLICE) } else { asked_for };
            let next = match (happens, due) {
                (Some(happens), Some(due)) => happens.min(due),
                (Some(at), None) | (None, Some(at)) => at,
                (None, None) => return Err("it will never wake".to_owned()),
            };
            if next > end {
                self.now = self.now.max(end);
                return Ok(());
            }
            self.now = self.now.max(next);
            self.bus.step += 1;
            if self.bus.step > MAX_STEPS {
                return Err("it does not come to rest".to_owned());
            }
            if due == Some(next) {
                self.at_once = if at_once { self.at_once + 1 } else { 0 };
                if self.at_once > MOST_SLICES {
                    return Err("it wants to be woken at once, again and again".to_owned());
                }
                self.tally.slices += u64::from(asked_for == Some(Duration::ZERO) && self.links > 0);
                self.tell(Event::Due)?;
            } else if let Some((_, happening)) = self.queue.pop_first() {
                self.at_once = 0;
                self.happens(happening)?;
            }
            self.nobody_waits_too_long()?;
        }
        Ok(())
    }

    /// Tells the seat what happened, and does what it asks for.
    fn tell(&mut self, event: Event) -> Verdict<()> {
        if self.over {
            return Ok(());
        }
        if event == Event::Stop {
            self.stopping = Some(self.now);
        }
        self.awaited.told(&event);
        self.count(&event);
        for action in self.seat.handle(event, self.now) {
            match action {
                Action::Connect => {
                    if !self.attempting {
                        self.attempting = true;
                        let at = self.now + self.dice.within(3_000);
                        self.queue(at, Happening::Attempt);
                    }
                }
                Action::Send(message) => self.sent(message)?,
                Action::StopListening | Action::Say(..) => {}
                Action::Exit => self.over = true,
            }
        }
        if self.waiting.len() > 64 + 1_024 {
            return Err(format!("{} requests are taken on", self.waiting.len()));
        }
        Ok(())
    }

    fn attempt_ends(&mut self) -> Verdict<()> {
        self.attempting = false;
        if self.dice.chance(self.faults.no_connection) {
            // While a connection is up, the failure of another attempt is nobody's business.
            return match self.link {
                Some(_) => Ok(()),
                None => self.tell(Event::Down { why: "refused".to_owned() }),
            };
        }
        self.links += 1;
        self.link = Some(self.links);
        self.tell(Event::Up { server: "n1".to_owned(), max_payload: self.max_payload })
    }

    fn breaks(&mut self, which: Option<u64>) -> Verdict<()> {
        if which.is_some() && which != self.link {
            return Ok(());
        }
        self.tally.breaks += u64::from(self.link.is_some());
        match self.link.take() {
            Some(_) => self.tell(Event::Down { why: "the connection broke".to_owned() }),
            None => Ok(()),
        }
    }

    fn sent(&mut self, message: Outgoing) -> Verdict<()> {
        if self.link.is_some() && message.payload_bytes() > self.max_payload {
            return Err(format!("{} bytes to {:?}", message.payload_bytes(), message.subject));
        }
        let Some(reply) = &message.reply else {
            self.awaited.forget();
            return self.answered(&message);
        };
        if !reply.starts_with("_INBOX_mesh.provisioner.SECRET.") {
            return Err(format!("it wants an answer at {reply:?}"));
        }
        let Some(link) = self.link else {
            return Err(format!("it sends to {:?} without a connection", message.subject));
        };
        self.awaited.sent(&message, self.now)?;
        self.tally.looks += u64::from(message.subject.contains(".STREAM.INFO.") && message.body.is_empty());
        let at = self.now + self.delay();
        self.queue(at, Happening::AtBus(link, message));
        Ok(())
    }

    /// The faults end: the registry must be right in time, and the seat say so.
    fn get_well(&mut self) -> Verdict<()> {
        self.faults = Faults::default();
        self.off = None;
        self.queue.retain(|_, happening| {
            matches!(
                happening,
                Happening::Attempt
                    | Happening::Break(Some(_))
                    | Happening::AtBus(..)
                    | Happening::AtSeat(..)
                    | Happening::Follow(..)
            )
        });
        // What is amiss is noticed, however long the time between two passes is. Only where somebody changed it again
        // and again the seat waits, until it is told that this is over.
        self.until(self.now + NOTICED)?;
        for _ in 0..2 {
            if self.seat.health(self.now).missing.iter().any(|missing| missing.contains("keeps changing")) {
                self.tell(Event::Reload)?;
                self.until(self.now + PASSED)?;
            }
        }
        let end = self.now + GETS_WELL;
        self.until(end)?;
        let faults = self.bus.registry_faults();
        if !faults.is_empty() {
            return Err(format!("the registry is not right: {}", faults.join("; ")));
        }
        let health = self.seat.health(self.now);
        if !health.ready {
            return Err(format!("it is not ready: {:?}", health.missing));
        }
        Ok(())
    }
}

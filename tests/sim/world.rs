//! One run: a seat over the fake bus, in a time that jumps from one happening to the next.
//!
//! First with faults, while the judge looks at every answer and the bus at every write. Then the faults end, and the
//! seat must get well within [`GETS_WELL`]; then it is asked everything; then it is told to stop.

mod asking;
mod plan;

use crate::bus::{Bus, Verdict};
use crate::dice::Dice;
use crate::faults::Faults;
use crate::jetstream;
use mesh_provisioner::seat::{Action, Event, Health, Seat, Settings};
use mesh_provisioner::wire::Outgoing;
use mesh_provisioner::wire::answer::Identity;
use mesh_provisioner::wire::request::Ask;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Within this time after the last fault the registry is right: the longest wait between two passes, and the time in
/// which a pass that was under way can fail.
pub(crate) const GETS_WELL: Duration = Duration::from_secs(75);

/// The longest wait of whoever tells the seat to stop.
const STOPPED: Duration = Duration::from_secs(5);

/// More happenings than any run has: a run beyond it does not end.
const MAX_STEPS: u64 = 500_000;

/// The seat, or something that pretends to be it.
pub(crate) trait Machine {
    fn handle(&mut self, event: Event, now: Duration) -> Vec<Action>;
    fn next_deadline(&self) -> Option<Duration>;
    fn health(&self, now: Duration) -> Health;
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

/// What is going to happen.
#[derive(Debug)]
enum Happening {
    /// A message of the seat reaches the bus; it belongs to the connection of this number.
    AtBus(u64, Outgoing),
    /// Something reaches the seat over the connection of this number.
    AtSeat(u64, Event),
    /// An attempt to connect ends.
    Attempt,
    Break,
    /// `JetStream` is off from now on, or on again.
    Off(Option<Off>),
    RegistryWrite,
    NodeWrite,
    Ask,
    Strange,
    Tell(Event),
    /// The machine sleeps so long; nobody notices before.
    Sleep(Duration),
    ClockStep,
}

#[derive(Debug, Clone, Copy)]
enum Off {
    Stream,
    Account,
    Server,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    ask: Option<Ask>,
    from: u64,
}

/// What a run came to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) pages: u64,
    pub(crate) errors: u64,
    pub(crate) simulated: Duration,
}

pub(crate) struct World<'a> {
    seat: &'a mut dyn Machine,
    dice: Dice,
    faults: Faults,
    bus: Bus,
    now: Duration,
    queue: BTreeMap<(Duration, u64), Happening>,
    queued: u64,
    link: Option<u64>,
    links: u64,
    attempting: bool,
    off: Option<Off>,
    max_payload: usize,
    waiting: BTreeMap<String, Waiting>,
    /// The same in the order in which they were asked.
    in_order: VecDeque<(Duration, String)>,
    asked: u64,
    woke: Duration,
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
        bulk_reads: false,
        jitter_seed: dice.roll(),
    }
}

/// Plays the run of `seed` on `seat`. The error says which rule was broken, and when.
pub(crate) fn run(seed: u64, seat: &mut dyn Machine) -> Verdict<Tally> {
    let mut dice = Dice::new(seed);
    let faults = Faults::drawn(&mut dice);
    let page = *dice.pick(&[2, 3, 5, 10, 100_000]);
    let max_payload = *dice.pick(&[16 * 1024, 64 * 1024, 1024 * 1024]);
    let mut world = World {
        seat,
        dice,
        faults,
        bus: Bus::new(page),
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
        asked: 0,
        woke: Duration::ZERO,
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
            let due = self.seat.next_deadline();
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
                self.tell(Event::Due)?;
            } else if let Some((_, happening)) = self.queue.pop_first() {
                self.happens(happening)?;
            }
            self.nobody_waits_too_long()?;
        }
        Ok(())
    }

    fn happens(&mut self, happening: Happening) -> Verdict<()> {
        match happening {
            Happening::AtBus(link, message) => {
                // What was on its way when the connection broke has arrived, or it has not.
                if self.link != Some(link) && self.dice.chance(500) {
                    return Ok(());
                }
                self.at_bus(link, &message)
            }
            Happening::AtSeat(link, event) => {
                if self.link == Some(link) {
                    self.tell(event)
                } else {
                    Ok(())
                }
            }
            Happening::Attempt => self.attempt_ends(),
            Happening::Break => match self.link.take() {
                Some(_) => self.tell(Event::Down { why: "the connection broke".to_owned() }),
                None => Ok(()),
            },
            Happening::Off(off) => {
                self.off = off;
                Ok(())
            }
            Happening::RegistryWrite => {
                self.registry_write();
                Ok(())
            }
            Happening::NodeWrite => {
                self.node_write();
                Ok(())
            }
            Happening::Ask => self.ask(None),
            Happening::Strange => self.strange(),
            Happening::Tell(event) => {
                if let Event::MaxPayload(bytes) = event {
                    self.max_payload = bytes;
                }
                if self.link.is_some() || event == Event::Reload { self.tell(event) } else { Ok(()) }
            }
            Happening::Sleep(length) => {
                self.now += length;
                self.woke = self.now;
                // Whatever was to be noticed meanwhile is noticed now, in its order.
                let asleep: Vec<(Duration, u64)> =
                    self.queue.range(..(self.now, 0)).map(|(place, _)| *place).collect();
                for place in asleep {
                    let happening = self.queue.remove(&place).expect("it is there");
                    self.queue.insert((self.now, place.1), happening);
                }
                Ok(())
            }
            Happening::ClockStep => {
                self.bus.clock = self.dice.roll() >> 8;
                Ok(())
            }
        }
    }

    /// Tells the seat what happened, and does what it asks for.
    fn tell(&mut self, event: Event) -> Verdict<()> {
        if self.over {
            return Ok(());
        }
        if event == Event::Stop {
            self.stopping = Some(self.now);
        }
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
        if !self.over && self.seat.next_deadline().is_some_and(|due| due <= self.now) {
            return Err("it wants to be woken at once, again and again".to_owned());
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

    fn sent(&mut self, message: Outgoing) -> Verdict<()> {
        if self.link.is_some() && message.payload_bytes() > self.max_payload {
            return Err(format!("{} bytes to {:?}", message.payload_bytes(), message.subject));
        }
        let Some(reply) = &message.reply else { return self.answered(&message) };
        if !reply.starts_with("_INBOX_mesh-provisioner.SEAT1.") {
            return Err(format!("it wants an answer at {reply:?}"));
        }
        let Some(link) = self.link else {
            return Err(format!("it sends to {:?} without a connection", message.subject));
        };
        let at = self.now + self.delay();
        self.queue(at, Happening::AtBus(link, message));
        Ok(())
    }

    fn delay(&mut self) -> Duration {
        let usual = self.dice.within(3);
        let delays = self.dice.chance(self.faults.delay);
        usual + if delays { self.dice.within(self.faults.longest_delay) } else { Duration::ZERO }
    }

    fn at_bus(&mut self, link: u64, message: &Outgoing) -> Verdict<()> {
        if self.dice.chance(self.faults.lose_request) {
            return Ok(());
        }
        let number = message.reply.as_deref().and_then(|reply| reply.rsplit('.').next());
        let call: u64 = number.and_then(|number| number.parse().ok()).ok_or("no number")?;
        let event = |body: Vec<u8>| Event::Answer { call, no_responders: false, body };
        let silent = Event::Answer { call, no_responders: true, body: Vec::new() };
        let answer = if self.dice.chance(self.faults.deny) {
            Event::Protest(format!("Permissions Violation for Publish to \"{}\"", message.subject))
        } else if self.dice.chance(self.faults.refuse) {
            event(jetstream::error(503, 10008, "system temporarily unavailable"))
        } else {
            match self.off {
                Some(Off::Stream) => event(jetstream::error(404, 10059, "stream not found")),
                Some(Off::Account) => event(jetstream::error(503, 10039, "not enabled for account")),
                Some(Off::Server) => silent,
                None => match self.bus.answer(message)? {
                    Some(body) if self.dice.chance(self.faults.garble) => {
                        let cut = self.dice.below(body.len());
                        event(
                            self.dice
                                .pick(&[body[..cut].to_vec(), b"garbage".to_vec(), b"{}".to_vec()])
                                .clone(),
                        )
                    }
                    Some(body) => event(body),
                    None => silent,
                },
            }
        };
        if self.dice.chance(self.faults.lose_answer) {
            return Ok(());
        }
        if self.dice.chance(self.faults.repeat) {
            let at = self.now + self.delay();
            self.queue(at, Happening::AtSeat(link, answer.clone()));
        }
        let at = self.now + self.delay();
        self.queue(at, Happening::AtSeat(link, answer));
        Ok(())
    }

    /// The faults end: the registry must be right in time, and the seat say so.
    fn get_well(&mut self) -> Verdict<()> {
        self.faults = Faults::default();
        self.off = None;
        self.queue.retain(|_, happening| {
            matches!(happening, Happening::Attempt | Happening::AtBus(..) | Happening::AtSeat(..))
        });
        let end = self.now + GETS_WELL;
        // The hour is too long to wait for: somebody who repaired the bus asks for a pass.
        self.tell(Event::Reload)?;
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

//! One run: a seat over the fake bus, in a time that jumps from one happening to the next.
//!
//! First with faults, while the judge looks at every answer and the bus at every write. Then the faults end, and the
//! seat must get well within [`GETS_WELL`]; then it is asked everything; then it is told to stop.

use crate::bus::{Bus, Verdict};
use crate::dice::Dice;
use crate::faults::Faults;
use crate::jetstream;
use crate::judge;
use crate::keys::{Key, any_marker, any_value};
use mesh_provisioner::bucket::Bucket;
use mesh_provisioner::registry;
use mesh_provisioner::seat::{Action, Event, Health, Seat, Settings};
use mesh_provisioner::wire::answer::Identity;
use mesh_provisioner::wire::request::{Ask, What};
use mesh_provisioner::wire::{Outgoing, VERB, service};
use std::collections::BTreeMap;
use std::time::Duration;

/// Within this time after the last fault the registry is right: the longest wait between two passes, and the time in
/// which a pass that was under way can fail.
pub(crate) const GETS_WELL: Duration = Duration::from_secs(75);

/// The longest wait of an asker, and of whoever tells the seat to stop.
const ANSWERED: Duration = Duration::from_secs(4);
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
    NoStream,
    NoJetStream,
    NoResponders,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    ask: Option<Ask>,
    from: u64,
    since: Duration,
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
        every: Duration::from_secs(*dice.pick(&[5, 20, 60, 3600])),
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
        let length = Duration::from_secs(*self.dice.pick(&[10, 30, 100]));
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

    fn populate(&mut self) {
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
        for _ in 0..self.dice.below(40) {
            self.node_write();
        }
    }

    /// Draws what happens within `length`.
    fn plan(&mut self, length: Duration) {
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
            Happening::Off(Some(*dice.pick(&[Off::NoStream, Off::NoJetStream, Off::NoResponders])))
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
        let asks = self.dice.below(16);
        at_some_time(self, asks, |_| Happening::Ask);
        if self.dice.chance(20) {
            // More at once than the seat takes on.
            let at = self.dice.within(milliseconds);
            for _ in 0..self.dice.below(1_500) {
                self.queue(at, Happening::Ask);
            }
        }
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
            let late =
                self.waiting.iter().find(|(_, waiting)| self.now > (waiting.since + ANSWERED).max(self.woke));
            if let Some((reply, waiting)) = late {
                return Err(format!("{reply} waits since {:?}: {:?}", waiting.since, waiting.ask));
            }
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
                Some(Off::NoStream) => event(jetstream::error(404, 10059, "stream not found")),
                Some(Off::NoJetStream) => event(jetstream::error(503, 10039, "not enabled for account")),
                Some(Off::NoResponders) => silent,
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

    /// An answer of the seat to somebody.
    fn answered(&mut self, message: &Outgoing) -> Verdict<()> {
        let Some(waiting) = self.waiting.remove(&message.subject) else {
            return Err(format!("an answer to {:?}, who waits for none", message.subject));
        };
        let is_error = message.headers.iter().any(|(name, _)| *name == "Nats-Service-Error-Code");
        let Some(ask) = waiting.ask else { return Ok(()) };
        if is_error {
            self.tally.errors += 1;
            return Ok(());
        }
        self.tally.pages += 1;
        let next = judge::page(&mut self.bus, &ask, waiting.from, &message.body)
            .map_err(|why| format!("{ask:?}, asked at step {}: {why}", waiting.from))?;
        if next.is_some() && self.stopping.is_none() {
            let at = self.now;
            let follow = Ask { after: next, ..ask };
            let reply = self.next_reply();
            self.queue(at, Happening::AtSeat(self.link.unwrap_or(0), request(&reply, follow.to_json())));
            // It is counted from when the seat takes it; without a connection it never does.
            if self.link.is_some() {
                self.waiting
                    .insert(reply, Waiting { ask: Some(follow), from: self.bus.step + 1, since: self.now });
            }
        }
        Ok(())
    }

    fn next_reply(&mut self) -> String {
        self.asked += 1;
        format!("_INBOX.{}", self.asked)
    }

    fn any_ask(&mut self) -> Ask {
        let whats = [What::Registry, What::Needs, What::Needs, What::Applied, What::Collect, What::Gaps];
        let mut ask = Ask::new(*self.dice.pick(&whats));
        let name = |dice: &mut Dice, pool: &[&str]| dice.chance(250).then(|| (*dice.pick(pool)).to_owned());
        if ask.what != What::Registry {
            ask.node = name(&mut self.dice, &["n1", "n 2", "*", ">"]);
            ask.module = name(&mut self.dice, &["web", "$x"]);
        }
        if matches!(ask.what, What::Needs | What::Registry) {
            ask.kind = name(&mut self.dice, &["port", "odd kind"]);
        }
        if ask.what == What::Collect {
            ask.collection = name(&mut self.dice, &["http", "x.y"]);
        }
        ask.limit = self.dice.chance(300).then(|| 1 + self.dice.below(5));
        ask
    }

    fn ask(&mut self, ask: Option<Ask>) -> Verdict<()> {
        if self.link.is_none() {
            return Ok(());
        }
        let ask = ask.unwrap_or_else(|| self.any_ask());
        let reply = self.next_reply();
        let event = request(&reply, ask.to_json());
        self.waiting.insert(reply, Waiting { ask: Some(ask), from: self.bus.step, since: self.now });
        self.tell(event)
    }

    /// A request that is no good, or of which nobody may see an answer.
    fn strange(&mut self) -> Verdict<()> {
        if self.link.is_none() {
            return Ok(());
        }
        let reply = self.next_reply();
        let long = format!("{{\"{}\":1}}", "\u{7f}".repeat(60_000));
        let event = match self.dice.below(6) {
            0 => request("$KV.mesh-provisioner_registry.port", String::new()),
            1 => Event::Request { subject: VERB.to_owned(), reply: None, body: Vec::new() },
            2 => {
                let other = Identity { id: "SEAT2".to_owned(), version: "0.1.0".to_owned() };
                let (subject, body) = (service::ping_subject(), service::ping(&other).into_bytes());
                Event::Request { subject, reply: Some("_INBOX_mesh-provisioner.SEAT2.1".to_owned()), body }
            }
            at => {
                let body = [long.as_str(), "nonsense", r#"{"what":"health"}"#][at - 3];
                self.waiting.insert(reply.clone(), Waiting { ask: None, from: 0, since: self.now });
                request(&reply, body.to_owned())
            }
        };
        self.tell(event)
    }

    fn registry_write(&mut self) {
        let kind = self.dice.pick(&registry::ENTRIES).kind.to_owned();
        let key = if self.dice.chance(500) {
            Key::of(&[kind])
        } else {
            Key::any(Bucket::Registry, &mut self.dice, 400)
        };
        self.change(Bucket::Registry, key);
    }

    fn node_write(&mut self) {
        let bucket = *self.dice.pick(&[Bucket::Needs, Bucket::Needs, Bucket::Applied, Bucket::Collect]);
        let key = Key::any(bucket, &mut self.dice, 150);
        self.change(bucket, key);
    }

    fn change(&mut self, bucket: Bucket, key: Key) {
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

    /// Asks everything; with nothing in the way every answer is good.
    fn ask_everything(&mut self) -> Verdict<()> {
        let errors = self.tally.errors;
        for what in [What::Registry, What::Needs, What::Applied, What::Collect, What::Gaps] {
            self.ask(Some(Ask::new(what)))?;
        }
        let end = self.now + Duration::from_secs(3);
        self.until(end)?;
        if self.tally.errors > errors || !self.waiting.is_empty() {
            return Err("an error answer with nothing in the way".to_owned());
        }
        Ok(())
    }
}

fn request(reply: &str, body: String) -> Event {
    Event::Request { subject: VERB.to_owned(), reply: Some(reply.to_owned()), body: body.into_bytes() }
}

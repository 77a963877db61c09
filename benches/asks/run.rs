//! Everything that is measured with one bucket size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mesh_model::bucket::Bucket;
use serde_json::{Value, json};

use crate::floors::{ECHO, PLAIN, PlainLibrary, bare_read};
use crate::measure::{Load, Times, load, time, time_ask};
use crate::mesh::{Mesh, NEEDS_A_NODE, Traffic, forget_peak, node_name, peak_of};
use crate::pass;
use crate::raw::Raw;
use crate::report::{Cost, Target, milliseconds};
use crate::support::seat::Seat;
use crate::support::verb::VERB;

/// How many asks are under way where many are.
const WIDTH: usize = 64;

/// The registry's rate that is wanted of [`WIDTH`] at a time, a second.
const WANTED_RATE: f64 = 3000.0;

/// The most resident memory that is wanted, in kilobytes.
const WANTED_KILOBYTES: f64 = 64.0 * 1024.0;

/// How long a seat may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

const SURVEYS: [&str; 4] = ["gaps", "drift", "nodes", "collections"];

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// The bucket sizes, rising.
    pub(crate) needs: &'static [usize],
    asks: u32,
    asks_under_load: u32,
    node_asks: usize,
    pages: usize,
    surveys: usize,
    firsts: usize,
    plain_asks: usize,
}

impl Effort {
    pub(crate) const FULL: Effort = Effort {
        needs: &[1_000, 10_000, 100_000],
        asks: 1000,
        asks_under_load: 10_000,
        node_asks: 300,
        pages: 20,
        surveys: 9,
        firsts: 5,
        plain_asks: 10,
    };
    pub(crate) const QUICK: Effort = Effort {
        needs: &[1_000, 10_000],
        asks: 200,
        asks_under_load: 2000,
        node_asks: 50,
        pages: 5,
        surveys: 3,
        firsts: 3,
        plain_asks: 3,
    };
}

/// One bucket size.
pub(crate) struct Run<'a> {
    mesh: &'a Mesh,
    needs: usize,
    effort: Effort,
    seat: Seat,
    raw: Raw,
    pub(crate) targets: Vec<Target>,
    pub(crate) costs: Vec<Cost>,
}

impl<'a> Run<'a> {
    /// With a seat of its own, so that its memory is its own too.
    pub(crate) fn new(mesh: &'a Mesh, needs: usize, effort: Effort) -> Self {
        let seat = mesh.seat();
        let raw = mesh.raw("asker");
        Run { mesh, needs, effort, seat, raw, targets: Vec::new(), costs: Vec::new() }
    }

    /// Measures it all.
    pub(crate) fn measure(mut self) -> Self {
        let usual = self.registry();
        self.registry_under_load();
        self.node();
        self.page();
        self.surveys(usual);
        self.first();
        let trips = pass::round_trips(self.mesh, &self.seat);
        self.count("registry pass that changes nothing", "round trips", trips.into(), 2.0);
        self
    }

    /// Asks in turn with `floor`, and notes what an ask cost. The first ask does not count.
    fn ask(
        &mut self,
        what: &'static str,
        times: usize,
        body: impl Fn(usize) -> Value,
        mut floor: impl FnMut(&mut Raw, usize),
    ) -> Times {
        time_ask(&mut self.raw, VERB, body(0).to_string().as_bytes()).ok();
        self.cost(what, |raw| {
            let mut taken = Times::default();
            for at in 0..times {
                floor(raw, at);
                taken.add(time_ask(raw, VERB, body(at).to_string().as_bytes()));
            }
            taken
        })
    }

    /// Notes what each ask of `work` cost.
    fn cost(&mut self, what: &'static str, work: impl FnOnce(&mut Raw) -> Times) -> Times {
        let process = self.seat.id();
        forget_peak(process);
        let before = self.mesh.traffic_of_the_seat();
        let times = work(&mut self.raw);
        let after = self.mesh.traffic_of_the_seat();
        let asks = times.len() as u64;
        let of_one = |of: fn(Traffic) -> u64| (of(after) - of(before)) / asks;
        self.costs.push(Cost {
            what,
            times: times.clone(),
            peak_kilobytes: peak_of(process),
            // One of them is the answer.
            requests: of_one(|traffic| traffic.sent_messages).saturating_sub(1),
            sent_bytes: of_one(|traffic| traffic.sent_bytes),
            received_bytes: of_one(|traffic| traffic.received_bytes),
        });
        times
    }

    fn count(&mut self, what: &str, unit: &str, measured: f64, limit: f64) {
        self.targets.push(Target {
            what: what.to_owned(),
            measured: format!("{measured:.0}"),
            floor: unit.to_owned(),
            ratio: measured,
            limit,
            at_least: false,
        });
    }

    /// Gives the median.
    fn registry(&mut self) -> Duration {
        let mut echo = Times::default();
        let times = usize::try_from(self.effort.asks).expect("a number of asks");
        let registry =
            self.ask("registry", times, |_| json!({}), |raw, _| echo.add(time_ask(raw, ECHO, b"")));
        self.targets.push(Target::time("registry, one at a time", &registry, "echo", echo.median(), 4.0));
        registry.median()
    }

    fn registry_under_load(&mut self) {
        let total = self.effort.asks_under_load;
        let echo = load(&mut self.raw, ECHO, |_| Vec::new(), total, WIDTH);
        let mut rate = 0.0;
        let times = self.cost("registry x 64", |raw| {
            let Load { times, a_second } = load(raw, VERB, |_| Vec::new(), total, WIDTH);
            rate = a_second;
            times
        });
        self.targets.push(Target {
            what: format!("registry, {WIDTH} under way, of {WANTED_RATE} a second"),
            measured: format!("{rate:.0}/s"),
            floor: format!("echo {:.0}/s", echo.a_second),
            ratio: if times.errors.is_empty() { rate / WANTED_RATE } else { 0.0 },
            limit: 1.0,
            at_least: true,
        });
        let nodes = self.mesh.nodes();
        let body = |at: usize| needs_of(at % nodes).to_string().into_bytes();
        self.cost("node x 64", |raw| load(raw, VERB, body, total / 10, WIDTH).times);
    }

    fn node(&mut self) {
        let nodes = self.mesh.nodes();
        // Not one after the other, as the bus may have it at hand.
        let node = |at: usize| at * 7919 % nodes;
        let (mut echo, mut bare) = (Times::default(), Times::default());
        let needs = self.ask(
            "needs of a node",
            self.effort.node_asks,
            |at| needs_of(node(at)),
            |raw, at| {
                echo.add(time_ask(raw, ECHO, b""));
                let filter = format!("{}.>", node_name(node(at)));
                bare.add(Ok(time(|| {
                    let read = bare_read(raw, Bucket::Needs, &filter, NEEDS_A_NODE);
                    assert_eq!(read, NEEDS_A_NODE, "needs of one node");
                })));
            },
        );
        let floor = bare.median() + echo.median();
        self.targets.push(Target::time("needs of a node (100 keys)", &needs, "bare + echo", floor, 2.0));
        let library = PlainLibrary::start(self.mesh);
        let mut plain = Times::default();
        for at in 0..self.effort.plain_asks {
            plain.add(time_ask(&mut self.raw, PLAIN, node_name(node(at)).as_bytes()));
        }
        drop(library);
        self.targets.push(Target {
            what: "the same, times faster than plain library".to_owned(),
            measured: milliseconds(needs.median()),
            floor: format!("plain {}", milliseconds(plain.median())),
            ratio: plain.median().as_secs_f64() / needs.median().as_secs_f64(),
            limit: 20.0,
            at_least: true,
        });
    }

    fn page(&mut self) {
        let body = json!({"what": "needs"});
        let answer: Value = serde_json::from_slice(self.raw.ask(VERB, body.to_string().as_bytes()).body)
            .expect("JSON of the seat");
        let entries = answer["entries"].as_array().expect("entries").len();
        let mut bare = Times::default();
        let (mesh, mut writer) = (self.mesh, self.mesh.raw("writer"));
        let page = self.ask(
            "page of needs",
            self.effort.pages,
            |_| body.clone(),
            |raw, at| {
                mesh.touch(&mut writer, at);
                bare.add(Ok(time(|| {
                    bare_read(raw, Bucket::Needs, ">", entries);
                })));
            },
        );
        let what = format!("page of needs ({entries} entries)");
        self.targets.push(Target::time(&what, &page, "bare", bare.median(), 2.0));
    }

    /// What a seat that was just started needs for its first survey.
    fn first(&mut self) {
        let (mut first, mut bare) = (Times::default(), Times::default());
        for _ in 0..self.effort.firsts {
            // One that ends while it still has its place in the queue group would take the ask with it.
            self.seat.terminate(FAREWELL);
            self.seat = self.mesh.seat();
            first.add(time_ask(&mut self.raw, VERB, json!({"what": "drift"}).to_string().as_bytes()));
            bare.add(Ok(time(|| {
                bare_read(&mut self.raw, Bucket::Needs, ">", self.needs);
            })));
        }
        self.targets.push(Target::time("drift, first of all", &first, "bare", bare.median(), 3.0));
    }

    fn surveys(&mut self, usual: Duration) {
        for what in SURVEYS {
            let mut bare = Times::default();
            let needs = self.needs;
            let (mesh, mut writer) = (self.mesh, self.mesh.raw("writer"));
            let survey = self.ask(
                what,
                self.effort.surveys,
                |_| json!({"what": what}),
                |raw, at| {
                    mesh.touch(&mut writer, at);
                    bare.add(Ok(time(|| {
                        let read = bare_read(raw, Bucket::Needs, ">", needs);
                        assert_eq!(read, needs, "all needs");
                    })));
                },
            );
            self.targets.push(Target::time(what, &survey, "bare", bare.median(), 3.0));
            let peak = self.costs.last().map_or(0, |cost| cost.peak_kilobytes);
            let peak = f64::from(u32::try_from(peak).unwrap_or(u32::MAX));
            self.targets.push(Target {
                what: format!("{what}, resident memory"),
                measured: format!("{:.1} MiB", peak / 1024.0),
                floor: "64 MiB".to_owned(),
                ratio: peak / WANTED_KILOBYTES,
                limit: 1.0,
                at_least: false,
            });
            let beside = self.registry_beside(what);
            let what = format!("registry beside {what}");
            self.targets.push(Target::time(&what, &beside, "usual", usual, 3.0));
        }
    }

    /// Asks for the registry for as long as the question `what` is under way.
    fn registry_beside(&mut self, what: &str) -> Times {
        let over = AtomicBool::new(false);
        let mut asker = self.mesh.raw("beside");
        thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let mut times = Times::default();
                while !over.load(Ordering::Relaxed) {
                    times.add(time_ask(&mut asker, VERB, b""));
                }
                times
            });
            let body = json!({"what": what}).to_string();
            for _ in 0..self.effort.surveys {
                time_ask(&mut self.raw, VERB, body.as_bytes()).ok();
            }
            over.store(true, Ordering::Relaxed);
            beside.join().expect("the asker beside")
        })
    }
}

fn needs_of(node: usize) -> Value {
    json!({"what": "needs", "node": node_name(node)})
}

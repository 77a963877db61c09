//! Two ways of reading a bucket, key by key and in bulk, give the same answer, whatever is stored.

use crate::batch::{self, DIRECT_GET};
use crate::bus::Bus;
use crate::keys::{Key, any_marker, any_value};
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_model::provisioner::VERB;
use mesh_provisioner::seat::{Action, Event, Seat, Settings};
use mesh_provisioner_api::request::{Ask, What};
use mesh_service::identity::Identity;
use mesh_testing::dice::Dice;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Where a page goes on.
#[derive(Deserialize)]
struct Place {
    next: Option<String>,
}

/// A seat on a bus on which nothing else happens.
struct Quiet<'a> {
    seat: Seat,
    bus: &'a mut Bus,
    batches: usize,
}

impl<'a> Quiet<'a> {
    /// A seat that reads up to `max_keys_one_by_one` keys one by one.
    fn connected(bus: &'a mut Bus, max_keys_one_by_one: usize) -> Self {
        let seat = Seat::new(Settings {
            identity: Identity { id: "SEAT1".to_owned(), version: "0.1.0".to_owned() },
            started: String::new(),
            every: Duration::from_secs(3600),
            reply_prefixes: Vec::new(),
            check_every: Duration::from_secs(50),
            max_keys_one_by_one,
            inbox: "SECRET".to_owned(),
            jitter_seed: 0,
        });
        let mut quiet = Quiet { seat, bus, batches: 0 };
        quiet.tell(Event::Due);
        quiet.tell(Event::Up { server: "n1".to_owned(), max_payload: 1024 * 1024 });
        quiet
    }

    /// Tells the seat what happened, answers its calls, and returns its responses.
    fn tell(&mut self, event: Event) -> Vec<Outgoing> {
        let mut events = VecDeque::from([event]);
        let mut responses = Vec::new();
        while let Some(event) = events.pop_front() {
            for action in self.seat.handle(event, Duration::ZERO) {
                let Action::Send(message) = action else { continue };
                let Some(reply) = &message.reply else {
                    responses.push(message);
                    continue;
                };
                let call = reply.rsplit('.').next().unwrap().parse().unwrap();
                if message.subject.starts_with(DIRECT_GET) {
                    self.batches += 1;
                    let parts = batch::answer(self.bus, &message, u64::MAX - 1, usize::MAX).unwrap();
                    events.extend(parts.into_iter().map(|part| Event::Part { call, part }));
                } else if let Some(body) = self.bus.answer(&message).unwrap() {
                    events.push_back(Event::Reply { call, no_responders: false, body });
                }
            }
            if events.is_empty() && self.seat.next_deadline() == Some(Duration::ZERO) {
                events.push_back(Event::Due);
            }
        }
        responses
    }

    /// All pages of an answer.
    fn pages(&mut self, mut ask: Ask) -> Vec<String> {
        let mut pages = Vec::new();
        loop {
            let body = ask.to_json().into_bytes();
            let request =
                Event::Request { subject: VERB.to_owned(), reply: Some("_INBOX.a".to_owned()), body };
            let responses = self.tell(request);
            let [response] = &responses[..] else { panic!("{} responses to {ask:?}", responses.len()) };
            let page = String::from_utf8(response.body.to_vec()).unwrap();
            // Values are passed on digit for digit, and may fit no number type of a parser.
            let place: Place = serde_json::from_str(&page).unwrap();
            ask.after = place.next;
            pages.push(page);
            if ask.after.is_none() {
                return pages;
            }
        }
    }
}

/// What pages show. Where `gaps` goes on differs: needs that are not gaps may be passed over without being read.
fn shown(ask: &Ask, pages: Vec<String>) -> Vec<String> {
    let without_place = |page: String| match page.find(",\"next\":\"") {
        Some(at) if ask.what == What::Gaps => {
            let rest = page[at..].find(",\"as_of\"").map_or("", |end| &page[at + end..]);
            format!("{},\"next\":…{rest}", &page[..at])
        }
        _ => page,
    };
    pages.into_iter().map(without_place).collect()
}

fn fill(bus: &mut Bus, dice: &mut Dice, writes: usize) {
    for _ in 0..writes {
        let bucket = *dice.pick(&[Bucket::Needs, Bucket::Applied, Bucket::Collect]);
        let key = Key::any(bucket, dice, 150);
        bus.clock += 1 + dice.roll() % 1_000_000_000;
        if dice.chance(200) {
            let marker = any_marker(dice);
            bus.write(bucket, key, marker, Vec::new());
        } else {
            let (value, headers) = any_value(dice, 300);
            bus.write(bucket, key, headers, value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn both_ways_of_reading_give_the_same_answer(
        seed in any::<u64>(),
        writes in 0..120_usize,
        limit in proptest::option::of(1..20_usize),
        node in proptest::option::of(proptest::sample::select(vec!["n1", "n 2", "*", ">"])),
    ) {
        let mut bus = Bus::new(100_000);
        fill(&mut bus, &mut Dice::new(seed), writes);
        let asks: Vec<Ask> = What::ALL
            .into_iter()
            .filter(|what| *what != What::Health)
            .map(|what| Ask { limit, node: node.filter(|_| what != What::Registry).map(str::to_owned), ..Ask::new(what) })
            .collect();
        let mut one_by_one = Quiet::connected(&mut bus, usize::MAX);
        let expected: Vec<Vec<String>> = asks.iter().map(|ask| one_by_one.pages(ask.clone())).collect();
        prop_assert_eq!(one_by_one.batches, 0);
        let mut in_bulk = Quiet::connected(&mut bus, 0);
        for (ask, expected) in asks.iter().zip(expected) {
            prop_assert_eq!(shown(ask, in_bulk.pages(ask.clone())), shown(ask, expected), "{:?}", ask);
        }
        prop_assert!(in_bulk.batches > 0 || writes < 20 || node.is_some(), "nothing was read in bulk");
    }
}

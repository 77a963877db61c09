//! Paging: whatever is written between the pages, a key that is there all the time comes once.

use crate::bus::Bus;
use crate::keys::Key;
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_model::provisioner::VERB;
use mesh_provisioner::seat::{Action, Event, Seat, Settings};
use mesh_provisioner_api::request::{Ask, What};
use mesh_service::identity::Identity;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// How often a page is asked for again when the bucket changed too quickly.
const TRIES: usize = 50;

/// Somebody's write between two answers of the bus: a key, and whether it is put or deleted.
type Write = (u8, bool);

fn applied(number: u8) -> Key {
    Key::of(&["n1".to_owned(), format!("m{number:03}")])
}

/// A seat on a bus on which somebody writes before each answer.
struct Between {
    seat: Seat,
    bus: Bus,
    writes: VecDeque<Write>,
}

impl Between {
    fn new(page: usize, stable: &[u8], writes: Vec<Write>) -> Self {
        let identity = Identity { id: "SEAT1".to_owned(), version: "0.1.0".to_owned() };
        let seat = Seat::new(Settings {
            identity,
            started: String::new(),
            every: Duration::from_secs(3600),
            reply_prefixes: Vec::new(),
            check_every: Duration::from_secs(50),
            max_keys_one_by_one: usize::MAX,
            inbox: "SECRET".to_owned(),
            jitter_seed: 0,
        });
        let mut between = Between { seat, bus: Bus::new(page), writes: writes.into() };
        for number in stable {
            between.bus.write(Bucket::Applied, applied(*number), Vec::new(), b"1".to_vec());
        }
        between.tell(Event::Due);
        between.tell(Event::Up { server: "n1".to_owned(), max_payload: 1024 * 1024 });
        between
    }

    /// Tells the seat what happened, answers all that it asks the bus, and gives what it answers itself.
    fn tell(&mut self, event: Event) -> Vec<Outgoing> {
        let mut events = VecDeque::from([event]);
        let mut answers = Vec::new();
        while let Some(event) = events.pop_front() {
            for action in self.seat.handle(event, Duration::ZERO) {
                let Action::Send(message) = action else { continue };
                let Some(reply) = &message.reply else {
                    answers.push(message);
                    continue;
                };
                if let Some((number, put)) = self.writes.pop_front() {
                    let marker = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n".to_vec();
                    let headers = if put { Vec::new() } else { marker };
                    self.bus.write(Bucket::Applied, applied(number), headers, b"2".to_vec());
                }
                let call = reply.rsplit('.').next().unwrap().parse().unwrap();
                if let Some(body) = self.bus.answer(&message).unwrap() {
                    events.push_back(Event::Reply { call, no_responders: false, body });
                }
            }
        }
        answers
    }

    /// The keys of all pages, in their order.
    fn keys(&mut self, limit: usize) -> Vec<String> {
        let mut ask = Ask { limit: Some(limit), ..Ask::new(What::Applied) };
        let mut keys = Vec::new();
        let mut tries = 0;
        loop {
            let body = ask.to_json().into_bytes();
            let reply = Some("_INBOX.a".to_owned());
            let answers = self.tell(Event::Request { subject: VERB.to_owned(), reply, body });
            let [answer] = &answers[..] else { panic!("{} answers", answers.len()) };
            let page: Value = serde_json::from_slice(&answer.body).unwrap();
            if page.get("error").is_some() {
                tries += 1;
                assert!(tries < TRIES, "{page}");
                continue;
            }
            keys.extend(
                page["entries"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|entry| entry["key"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => ask.after = Some(next.to_owned()),
                None => return keys,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_key_comes_once(
        page in 2..40_usize,
        limit in 1..40_usize,
        stable in proptest::collection::btree_set(0..=255_u8, 0..60),
        writes in proptest::collection::vec((any::<u8>(), any::<bool>()), 0..200),
    ) {
        let stable: Vec<u8> = stable.into_iter().collect();
        // Somebody else writes other keys, and overwrites the same ones.
        let writes = writes.into_iter().map(|(number, put)| (number, put || stable.contains(&number))).collect();
        let mut between = Between::new(page, &stable, writes);
        let keys = between.keys(limit);
        prop_assert!(keys.is_sorted_by(|a, b| a < b), "{:?}", keys);
        for number in stable {
            let key = applied(number).shown();
            prop_assert!(keys.contains(&key), "{} is missing in {:?}", key, keys);
        }
    }
}

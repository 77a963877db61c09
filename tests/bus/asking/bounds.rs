//! How much the seat takes on at a time.

use crate::support::verb::AsksTheSeat;
use serde_json::json;

use super::{counted, only_answer};
use crate::support::accounts::{READER, TESTER};
use crate::support::client::Inbox;
use crate::support::seat::Seat;
use crate::support::setup::Setup;
use crate::support::wait::{self, PATIENCE};

const UNDER_WAY: usize = 64;
const WAITING: usize = 1_024;
const MORE: usize = 20;

#[test]
fn a_full_seat_refuses_the_next_request_and_answers_each_that_it_took() {
    // A bus whose JetStream never answers: what the seat takes on stays.
    let server = Setup::shipped().append("jetstream: false").start();
    let tester = server.client(&TESTER);
    let silence = tester.subscribe("$JS.API.>", None);
    let _seat = Seat::start(&server, &[]);
    silence.next(PATIENCE).expect("the seat reads the registry");
    let reader = server.client(&READER);
    wait::until("the seat to answer", PATIENCE, || {
        reader.try_ask(r#"{"what":"health"}"#).map_err(|error| error.to_string())
    });

    // Each is another question: equal ones would share their turn.
    let asked: Vec<Inbox> = (1..=UNDER_WAY + WAITING + MORE)
        .map(|limit| reader.ask_later(&json!({"what": "needs", "limit": limit})))
        .collect();
    let (taken, beyond) = asked.split_at(UNDER_WAY + WAITING);
    for asked in beyond {
        let words = "the seat is full: 64 requests are under way and 1024 wait: try again later";
        assert_eq!(only_answer(&reader, asked).expect_error(503), words);
    }
    // What needs no turn is answered all the while.
    assert_eq!(counted(&reader, "unavailable"), MORE as u64);
    assert_eq!(counted(&reader, "overrun"), 0);
    let mut begun = 0;
    for asked in taken {
        let answer = only_answer(&reader, asked);
        let words = answer.expect_error(504);
        if words != "the request waited 4 s for its turn: try again later" {
            assert!(words.starts_with("not read within 4 s: "), "{words}");
            begun += 1;
        }
    }
    assert!(begun >= UNDER_WAY, "{begun}");
    assert_eq!(counted(&reader, "too_late"), (UNDER_WAY + WAITING) as u64);
    assert_eq!(counted(&reader, "undelivered"), 0);
    // Full no longer: the next one is taken.
    let next = reader.ask(&json!({"what": "needs"}));
    next.expect_error(504);
}

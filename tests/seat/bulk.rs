//! Reads in bulk: what is followed, what is known from questions before, and what happens when they are of no use.

use crate::asking::{self, body};
use crate::play::{AT, Play, down, get, keys_of, list, look, look_of, message_of, ping, up};
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::kv::Message;
use mesh_model::bucket::Bucket::{self, Applied, Needs, Registry};
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream;
use serde_json::Value;

/// So many keys that it is worth it: each bucket begins with them, `zz.m00` and on, in the sequences up to here.
const MANY: u64 = 40;

/// The line of a request for what was written to `bucket` from the sequence `from` on.
fn follow(call: u64, bucket: Bucket, from: u64) -> String {
    follow_far(call, bucket, from, 65_536)
}

/// The same for this many bytes.
fn follow_far(call: u64, bucket: Bucket, from: u64, bytes: u64) -> String {
    format!(r#"#{call} $JS.API.DIRECT.GET.KV_{bucket} {{"seq":{from},"batch":8000,"max_bytes":{bytes}}}"#)
}

/// The line of a request for the newest write that is left of what was known: it has the sequence `newest`.
fn check(call: u64, bucket: Bucket, newest: u64) -> String {
    format!(r#"#{call} $JS.API.DIRECT.GET.KV_{bucket} {{"seq":{newest},"batch":2,"max_bytes":65536}}"#)
}

/// The line of the question whether anything is there from the sequence `from` on.
fn ask_for_next(call: u64, bucket: Bucket, from: u64) -> String {
    format!(r#"#{call} $JS.API.STREAM.MSG.GET.KV_{bucket} {{"seq":{from},"next_by_subj":"$KV.{bucket}.>"}}"#)
}

/// The answer to a look at a stream whose oldest message has the sequence `first`.
fn look_from(first: u64, messages: u64, last: u64) -> Vec<u8> {
    let look = String::from_utf8(look_of(1, messages, last)).unwrap();
    look.replace(r#""first_seq":1"#, &format!(r#""first_seq":{first}"#)).into_bytes()
}

/// Those of the messages that the bus sends from the sequence `from` on.
fn from(from: u64, messages: &[Message]) -> Vec<Message> {
    messages.iter().filter(|message| message.sequence >= from).cloned().collect()
}

/// The line of a request for the values of keys of `bucket`.
fn batch(call: u64, bucket: Bucket, keys: &[&str]) -> String {
    let subjects: Vec<String> = keys.iter().map(|key| format!(r#""$KV.{bucket}.{key}""#)).collect();
    format!(
        r#"#{call} $JS.API.DIRECT.GET.KV_{bucket} {{"multi_last":[{}],"batch":{},"max_bytes":1048576}}"#,
        subjects.join(","),
        keys.len()
    )
}

fn message(bucket: Bucket, key: &str, sequence: u64, value: &str) -> Message {
    Message {
        subject: format!("$KV.{bucket}.{key}"),
        sequence,
        at: AT.to_owned(),
        deleted: false,
        header_fault: None,
        value: value.as_bytes().to_vec(),
    }
}

/// The keys that each bucket begins with, then these.
fn many_and(bucket: Bucket, more: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let many = (1..=MANY).map(|at| message(bucket, &format!("zz.m{at:02}"), at, "0"));
    many.chain(more).collect()
}

/// The keys of an answer, but for those that each bucket begins with.
fn keys(answer: &Value) -> Vec<&str> {
    asking::keys(answer).into_iter().filter(|key| !key.starts_with("zz.")).collect()
}

impl Play {
    /// The bus sends these messages and ends its answer to `call`; gives what the seat asks for after that.
    fn parts(&mut self, call: u64, messages: Vec<Message>, left_out: u64, up_to: Option<u64>) -> Vec<String> {
        let mut after = 0;
        for message in messages {
            let sequence = message.sequence;
            self.tell(Event::Part { call, part: Part::Message { message, after } }).nothing();
            after = sequence;
        }
        self.tell(Event::Part { call, part: Part::End { left_out, after, up_to } }).lines()
    }

    /// The same when that is all there is to read of `bucket`: another look shows this many messages up to `last`. Gives
    /// what the seat asks for after it.
    fn last_parts(&mut self, call: u64, bucket: Bucket, messages: Vec<Message>, keys: u64) -> Vec<String> {
        let last = messages.last().expect("a message").sequence;
        assert_eq!(self.parts(call, messages, 0, None), [look(call + 1, bucket)]);
        self.answer(call + 1, look_of(1, keys, last)).lines()
    }

    /// Asks for all that is applied, of which `more` is beside what each bucket begins with. The look has the number
    /// `call`, and two more requests follow.
    fn ask_for_applied(&mut self, from: &str, call: u64, more: &[Message]) -> Value {
        let parts = many_and(Applied, more.iter().cloned());
        let (keys, last) = (parts.len() as u64, parts[parts.len() - 1].sequence);
        self.ask(from, r#"{"what":"applied"}"#).is([look(call, Applied)]);
        self.answer(call, look_of(1, keys, last)).is([follow(call + 1, Applied, 1)]);
        body(&self.last_parts(call + 1, Applied, parts, keys), from)
    }
}

/// A seat that has read one bucket in bulk.
fn serving_in_bulk() -> Play {
    let mut play = Play::serving_in_bulk();
    play.ask("a", r#"{"what":"collect"}"#).is([look(16, Bucket::Collect)]);
    play.answer(16, look_of(1, MANY, MANY)).is([follow(17, Bucket::Collect, 1)]);
    body(&play.last_parts(17, Bucket::Collect, many_and(Bucket::Collect, []), MANY), "a");
    play
}

fn two() -> [Message; 2] {
    [message(Applied, "n1.b", MANY + 3, "3"), message(Applied, "n1.a", MANY + 5, "5")]
}

#[test]
fn a_bucket_is_followed_to_its_end_and_from_there_the_next_time() {
    let mut play = serving_in_bulk();
    let first = play.ask_for_applied("a", 19, &two());
    assert_eq!(keys(&first), ["n1.a", "n1.b"]);
    assert_eq!((&first["entries"][0]["value"], &first["entries"][0]["at"]), (&5.into(), &AT.into()));
    assert_eq!(first["as_of"]["sequence"], MANY + 5);
    // Nothing has changed.
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    assert_eq!(body(&play.answer(22, look_of(1, MANY + 2, MANY + 5)).lines(), "b"), first);
    // A key was written again, and another one deleted. What was known before them, a little of it, comes too.
    play.ask("c", r#"{"what":"applied"}"#).is([look(23, Applied)]);
    play.answer(23, look_of(1, MANY + 2, MANY + 7)).is([follow(24, Applied, MANY - 5)]);
    let deletion = Message { deleted: true, ..message(Applied, "n1.a", MANY + 7, "") };
    let since = many_and(Applied, [message(Applied, "n1.b", MANY + 6, "6"), deletion]);
    let answer = body(&play.last_parts(24, Applied, from(MANY - 5, &since), MANY + 2), "c");
    assert_eq!((keys(&answer), &answer["entries"][0]["value"]), (vec!["n1.b"], &6.into()));
}

#[test]
fn few_keys_are_read_one_by_one() {
    let mut play = Play::serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.answer(16, look_of(1, 32, 32)).is([list(17, Applied)]);
    play.answer(17, keys_of(Applied, &["n1.a"])).is([get(18, Applied, "n1.a")]);
}

#[test]
fn a_survey_reads_no_value_of_a_bucket_that_is_followed() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"drift"}"#).is([look(19, Needs)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 4)).is([follow(20, Needs, 1)]);
    let needs = many_and(Needs, [message(Needs, "n1.web.port.http", MANY + 4, "1")]);
    assert_eq!(play.last_parts(20, Needs, needs, MANY + 1), [look(22, Applied)]);
    let answer = body(&play.answer(22, look_of(1, 0, 0)).lines(), "a");
    assert_eq!((&answer["entries"][0]["state"], &answer["ok"]), (&"never".into(), &false.into()));
    assert_eq!(answer["malformed_total"], MANY);
}

#[test]
fn a_part_that_ends_early_is_gone_on_behind_and_with_more_where_it_came_quickly() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 5)).is([follow(20, Applied, 1)]);
    let all = many_and(Applied, [message(Applied, "n1.a", MANY + 5, "5")]);
    let asked = play.parts(20, many_and(Applied, []), 1, None);
    assert_eq!(asked, [follow_far(21, Applied, MANY - 7, 4 * 65_536)]);
    let answer = play.last_parts(21, Applied, from(MANY - 7, &all), MANY + 1);
    assert_eq!(keys(&body(&answer, "a")), ["n1.a"]);
}

#[test]
fn what_has_come_is_kept_though_the_rest_does_not_and_less_is_asked_for_on_a_slow_line() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    let all = many_and(Applied, []);
    let mut after = 0;
    for message in &all[..9] {
        let part = Part::Message { message: message.clone(), after };
        play.tell_after(400, Event::Part { call: 20, part }).nothing();
        after = message.sequence;
    }
    // The time is up in the middle of the part, and somebody asks again.
    let words = "not read within 4 s: bucket mesh-provisioner_applied was read up to its write 9 of 40: try again with a narrower query, or check the load of the nats-server";
    play.due_in(400..=400)
        .is([format!("warn: answered 504: {words}"), format!("to _INBOX.a: 504 timeout: {words}")]);
    play.ask("b", r#"{"what":"applied"}"#).is([look(21, Applied)]);
    play.answer(21, look_of(1, MANY, MANY)).is([follow(22, Applied, 2)]);
    let part = |at: usize, after| Part::Message { message: all[at].clone(), after };
    play.tell(Event::Part { call: 22, part: part(1, 0) }).nothing();
    for at in 2..12 {
        play.tell_after(60, Event::Part { call: 22, part: part(at, all[at - 1].sequence) }).nothing();
    }
    let end = Part::End { left_out: 28, after: 12, up_to: None };
    play.tell(Event::Part { call: 22, part: end }).is([follow_far(23, Applied, 5, 32_768)]);
    body(&play.last_parts(23, Applied, from(5, &all), MANY), "b");
}

#[test]
fn keys_that_went_without_a_write_are_found_out() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 1, MANY + 5)).is([follow(23, Applied, 1)]);
    let left = many_and(Applied, [two()[1].clone()]);
    assert_eq!(keys(&body(&play.last_parts(23, Applied, left, MANY + 1), "b")), ["n1.a"]);
    // All of them.
    play.ask("c", r#"{"what":"applied"}"#).is([look(25, Applied)]);
    let answer = body(&play.answer(25, look_of(1, 0, MANY + 5)).lines(), "c");
    assert_eq!((asking::keys(&answer), &answer["as_of"]["sequence"]), (vec![], &(MANY + 5).into()));
}

#[test]
fn what_was_written_during_the_read_is_read_too() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 5)).is([follow(20, Applied, 1)]);
    let parts = many_and(Applied, [two()[1].clone()]);
    assert_eq!(play.parts(20, parts.clone(), 0, None), [look(21, Applied)]);
    play.answer(21, look_of(1, MANY + 2, MANY + 6)).is([follow(22, Applied, MANY - 6)]);
    let since: Vec<Message> = parts.into_iter().chain([message(Applied, "n1.b", MANY + 6, "6")]).collect();
    let answer = body(&play.last_parts(22, Applied, from(MANY - 6, &since), MANY + 2), "a");
    assert_eq!((keys(&answer), &answer["as_of"]["sequence"]), (vec!["n1.a", "n1.b"], &(MANY + 6).into()));
}

#[test]
fn a_key_that_disappeared_after_a_write_is_not_given_from_the_cache() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    // The look shows a later write of n1.a, which is gone when it is read, and another key in its place.
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 2, MANY + 6)).is([follow(23, Applied, MANY - 5)]);
    let all = many_and(Applied, [two()[0].clone(), message(Applied, "n1.c", MANY + 7, "7")]);
    // The last write that was known is gone too, and its key was not written since.
    assert_eq!(play.parts(23, from(MANY - 5, &all), 0, None), [check(24, Applied, MANY + 5)]);
    assert_eq!(play.parts(24, from(MANY + 5, &all), 0, None), [follow(25, Applied, 1)]);
    let answer = body(&play.last_parts(25, Applied, all, MANY + 2), "b");
    assert_eq!(keys(&answer), ["n1.b", "n1.c"]);
}

#[test]
fn a_restored_bucket_is_read_from_the_start_whatever_was_written_since() {
    // Each list is what the bucket holds after it was restored from a time before n1.b and n1.a were written.
    let write = |key: &str, at: u64| message(Applied, key, MANY + at, "new");
    let restored = [
        // The last sequence that was known is another key's.
        vec![write("n1.c", 5), write("n1.d", 6)],
        // It is gone, and its key was written since; that of another one is gone too, and it was not.
        vec![write("n1.c", 4), write("n1.a", 6)],
        // Of all that was known of the time after the copy, only what was written again is left.
        vec![write("n1.a", 8), write("n1.c", 9)],
    ];
    for since in restored {
        let mut play = serving_in_bulk();
        play.ask_for_applied("a", 19, &two());
        let all = many_and(Applied, since);
        let (messages, last) = (all.len() as u64, all[all.len() - 1].sequence);
        play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
        let mut asked = play.answer(22, look_of(1, messages, last)).lines();
        let mut call = 23;
        while asked != [follow(call, Applied, 1)] {
            assert!(call < 28, "it does not read all again: {asked:?}");
            let seq = asked[0].split_once("\"seq\":").unwrap_or_else(|| panic!("{asked:?}")).1;
            let seq: u64 = seq.split(',').next().unwrap().parse().unwrap();
            asked = play.parts(call, from(seq, &all), 0, None);
            call += 1;
        }
        let answer = body(&play.last_parts(call, Applied, all.clone(), messages), "b");
        let mut expected: Vec<&str> =
            all.iter().skip(40).map(|message| message.subject.rsplit_once("applied.").unwrap().1).collect();
        expected.sort_unstable();
        assert_eq!(keys(&answer), expected);
        assert!(answer["entries"].to_string().matches("\"text\":\"new\"").count() == expected.len());
    }
}

#[test]
fn a_bucket_that_was_filled_anew_up_to_the_same_sequences_is_read_from_the_start() {
    // A bucket in memory whose server was started again: all keys were written again, the last one twice.
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &[]);
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    let later = "2026-11-29T14:00:00Z";
    let seen = String::from_utf8(look_of(1, MANY, MANY + 1)).unwrap().replace(AT, later);
    play.answer(22, seen.clone().into_bytes()).is([follow(23, Applied, MANY - 7)]);
    let mut all = many_and(Applied, []);
    for message in &mut all {
        later.clone_into(&mut message.at);
    }
    let last = all.last_mut().unwrap();
    last.sequence += 1;
    assert_eq!(play.parts(23, from(MANY - 7, &all), 0, None), [follow(24, Applied, 1)]);
    assert_eq!(play.parts(24, all, 0, None), [look(25, Applied)]);
    let answer = body(&play.answer(25, seen.into_bytes()).lines(), "b");
    assert!(answer["entries"].as_array().unwrap().iter().all(|entry| entry["at"] == later), "{answer}");
}

#[test]
fn what_is_known_is_not_given_when_only_the_oldest_write_tells_that_it_is_of_another_bucket() {
    // Everything that was at hand of the newest writes was written again; the numbers are as they should be.
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &[]);
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    let seen = |first: &str| {
        let seen = String::from_utf8(look_of(1, MANY, 2 * MANY)).unwrap();
        seen.replace(&format!(r#""first_ts":"{AT}""#), &format!(r#""first_ts":"{first}""#)).into_bytes()
    };
    play.answer(22, seen("2026-11-29T14:00:00Z")).is([follow(23, Applied, MANY - 7)]);
    let again = (2..=MANY).map(|at| message(Applied, &format!("zz.m{at:02}"), MANY + at, "1"));
    let again: Vec<Message> = again.collect();
    assert_eq!(play.parts(23, again.clone(), 0, None), [check(24, Applied, 1)]);
    let first = message(Applied, "zz.m01", 1, "0");
    let all: Vec<Message> = [first].into_iter().chain(again).collect();
    assert_eq!(play.parts(24, all[..2].to_vec(), 38, None), [look(25, Applied)]);
    play.answer(25, seen("2026-11-29T14:00:00Z")).is([follow(26, Applied, 1)]);
}

#[test]
fn a_server_that_lags_is_asked_again_a_bounded_number_of_times() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 5)).is([follow(20, Applied, 1)]);
    let newest = || message_of(Applied, "n1.a", MANY + 5, "5");
    assert_eq!(play.parts(20, many_and(Applied, []), 0, None), [ask_for_next(21, Applied, MANY + 1)]);
    for call in (21..37).step_by(2) {
        play.answer(call, newest()).is([follow(call + 1, Applied, MANY - 7)]);
        let known = from(MANY - 7, &many_and(Applied, []));
        assert_eq!(play.parts(call + 1, known, 0, None), [ask_for_next(call + 2, Applied, MANY + 1)]);
    }
    play.answer(37, newest()).is([
        "info: bulk reads of bucket mesh-provisioner_applied disabled for 15 min: the replying server does not know the newest writes".to_owned(),
        list(38, Applied),
    ]);
}

#[test]
fn following_goes_on_when_the_newest_write_is_gone() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY + 1)).is([follow(20, Applied, 1)]);
    assert_eq!(play.parts(20, many_and(Applied, []), 0, None), [ask_for_next(21, Applied, MANY + 1)]);
    play.answer(21, jetstream::no_message()).is([look(22, Applied)]);
    let answer = body(&play.answer(22, look_of(1, MANY, MANY + 1)).lines(), "a");
    assert_eq!((asking::keys(&answer).len(), &answer["as_of"]["sequence"]), (40, &(MANY + 1).into()));
    // From there it goes on.
    play.ask("b", r#"{"what":"applied"}"#).is([look(23, Applied)]);
    body(&play.answer(23, look_of(1, MANY, MANY + 1)).lines(), "b");
    play.ask("c", r#"{"what":"applied"}"#).is([look(24, Applied)]);
    play.answer(24, look_of(1, MANY + 1, MANY + 2)).is([follow(25, Applied, MANY - 7)]);
    let all = many_and(Applied, [message(Applied, "n1.a", MANY + 2, "2")]);
    assert_eq!(keys(&body(&play.last_parts(25, Applied, from(MANY - 7, &all), MANY + 1), "c")), ["n1.a"]);
}

#[test]
fn a_bucket_whose_keys_are_never_as_many_as_they_should_be_is_listed() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    let mut asked = play.answer(19, look_of(1, MANY + 1, MANY)).lines();
    let mut call = 20;
    let unfit = "info: bulk reads of bucket mesh-provisioner_applied disabled for 15 min: its messages are not as many as its keys";
    while asked != [unfit.to_owned(), list(call, Applied)] {
        asked = if asked == [look(call, Applied)] {
            play.answer(call, look_of(1, MANY + 1, MANY)).lines()
        } else {
            assert_eq!(asked, [follow(call, Applied, 1)]);
            play.parts(call, many_and(Applied, []), 0, None)
        };
        call += 1;
        assert!(call < 40, "it never ends: {asked:?}");
    }
}

#[test]
fn a_bucket_that_keeps_a_history_or_is_too_large_is_listed() {
    for seen in [look_of(5, MANY, MANY), look_of(1, 150_001, 150_001), look_of(1, 1_000_000, 1_000_000)] {
        let mut play = serving_in_bulk();
        play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
        play.answer(19, seen).is([list(20, Applied)]);
    }
}

#[test]
fn one_node_is_listed_by_the_bus_and_many_values_are_read_in_bulk() {
    let mut play = Play::serving_in_bulk();
    play.ask("a", r#"{"what":"applied","node":"zz"}"#).is([
        r#"#16 $JS.API.STREAM.INFO.KV_mesh-provisioner_applied {"subjects_filter":"$KV.mesh-provisioner_applied.zz.>","offset":0}"#,
    ]);
    let many = many_and(Applied, []);
    let names: Vec<&str> =
        many.iter().map(|message| message.subject.rsplit_once("applied.").unwrap().1).collect();
    let asked: Vec<&str> = ["zz"].into_iter().chain(names.iter().copied()).collect();
    play.answer(16, keys_of(Applied, &names)).is([batch(17, Applied, &asked)]);
    assert_eq!(asking::keys(&body(&play.parts(17, many, 0, Some(MANY)), "a")).len(), 40);
}

#[test]
fn a_bucket_that_never_holds_still_is_listed() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    assert_eq!(play.parts(20, many_and(Applied, []), 0, None), [look(21, Applied)]);
    let mut all = many_and(Applied, []);
    for at in 1..=8 {
        let (call, known) = (19 + 2 * at, all[all.len() - 8].sequence);
        play.answer(call, look_of(1, MANY + at, MANY + at)).is([follow(call + 1, Applied, known)]);
        all.push(message(Applied, &format!("n1.m{at}"), MANY + at, "1"));
        assert_eq!(play.parts(call + 1, from(known, &all), 0, None), [look(call + 2, Applied)]);
    }
    play.answer(37, look_of(1, MANY + 9, MANY + 9)).is([list(38, Applied)]);
}

#[test]
fn a_long_value_is_not_kept_but_read() {
    let mut play = serving_in_bulk();
    let long = format!("\"{}\"", "x".repeat(2048));
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 2, MANY + 2)).is([follow(20, Applied, 1)]);
    let two = [message(Applied, "zz.n1", MANY + 1, &long), message(Applied, "zz.n2", MANY + 2, "2")];
    let gets = [get(22, Applied, "zz.n1"), get(23, Applied, "zz.n2")];
    assert_eq!(play.last_parts(20, Applied, many_and(Applied, two), MANY + 2), gets);
    play.answer(22, message_of(Applied, "zz.n1", MANY + 1, &long)).nothing();
    let answer = body(&play.answer(23, message_of(Applied, "zz.n2", MANY + 2, "2")).lines(), "a");
    assert_eq!(asking::keys(&answer).len(), 42);
    assert_eq!(answer["entries"][40]["value"].as_str().map(str::len), Some(2048));
}

#[test]
fn an_index_is_used_by_one_question_at_a_time() {
    let mut play = Play::serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.ask("b", r#"{"what":"applied","limit":1}"#).nothing();
    let lines = play.answer(16, look_of(1, 0, 0)).lines();
    assert_eq!(lines[1..], [look(17, Applied)], "b has its own look, which is not older than its request");
    body(&lines[..1], "a");
    body(&play.answer(17, look_of(1, 0, 0)).lines(), "b");
}

#[test]
fn a_read_in_bulk_that_cannot_be_trusted_is_done_again_one_by_one() {
    let gap = Part::Message { message: message(Applied, "n1.b", 9, "9"), after: 4 };
    let again = Part::Message { message: message(Applied, "n1.b", 3, "3"), after: 3 };
    let stranger = Part::Message { message: message(Needs, "n1.a.b.c", 4, "4"), after: 3 };
    for (part, why) in [
        (gap, "a message is missing in the reply"),
        (again, "a message comes twice"),
        (stranger, "the stream holds subjects that are not keys"),
        (Part::Unusable("408 Empty Request".to_owned()), "408 Empty Request"),
    ] {
        let mut play = Play::serving_in_bulk();
        play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
        play.answer(16, look_of(1, MANY, 99)).is([follow(17, Applied, 1)]);
        let first = Part::Message { message: message(Applied, "n1.a", 3, "3"), after: 0 };
        play.tell(Event::Part { call: 17, part: first }).nothing();
        play.tell(Event::Part { call: 17, part }).is([
            format!("info: bulk reads of bucket mesh-provisioner_applied disabled for 15 min: {why}"),
            list(18, Applied),
        ]);
    }
}

#[test]
fn a_read_in_bulk_without_an_answer_is_given_up_after_a_second() {
    let mut play = Play::serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.answer(16, look_of(1, MANY, MANY)).is([follow(17, Applied, 1)]);
    play.due_in(1_000..=1_000).is([
        "info: bulk reads of bucket mesh-provisioner_applied disabled for 15 min: no answer came in time"
            .to_owned(),
        list(18, Applied),
    ]);
}

#[test]
fn without_the_right_everything_is_read_one_by_one() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    let words = "Permissions Violation for Publish to \"$JS.API.DIRECT.GET.KV_mesh-provisioner_applied\"";
    play.tell(Event::ServerError(words.to_owned())).is([
        format!("warn: the server says {words:?}"),
        format!("info: bulk reads of bucket mesh-provisioner_applied disabled for 15 min: {words}"),
        list(21, Applied),
    ]);
}

#[test]
fn the_caches_end_when_nobody_asks() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    play.due_in(600_000..=600_000).nothing();
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 2, MANY + 5)).is([follow(23, Applied, 1)]);
}

#[test]
fn what_is_known_ends_with_the_connection_that_serves() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    play.tell(Event::Up { server: "n2".to_owned(), max_payload: 1024 * 1024 }).lines();
    play.ask("b", r#"{"what":"applied"}"#).is([look(24, Applied)]);
    play.answer(24, look_of(1, MANY + 2, MANY + 5)).is([follow(25, Applied, 1)]);
}

#[test]
fn the_registry_is_never_read_in_bulk() {
    let mut play = serving_in_bulk();
    play.ask("a", "").is([list(19, Registry)]);
    play.answer(19, keys_of(Registry, &["port"])).is([get(20, Registry, "port")]);
}

#[test]
fn a_list_that_ends_the_connection_twice_is_replaced_by_reading_message_by_message() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke", "connect"]);
    play.tell(up("n1")).is(["info: connected to n1", &ping(17), &list(18, Registry), &list(19, Needs)]);
    let lines = play.tell(down("the connection broke")).lines();
    assert!(
        lines[1].starts_with("warn: the keys of bucket mesh-provisioner_needs are not listed for 15 min"),
        "{lines:?}"
    );
    play.due_in(250..=500).is(["connect"]);
    let asked = play.tell(up("n1")).lines();
    assert_eq!(asked[2..], [list(21, Registry), look(22, Needs)]);
    play.answer(22, look_of(1, 2, 7)).is([ask_for_next(23, Needs, 1)]);
    play.answer(23, message_of(Needs, "n1.web.port.http", 5, "1")).is([ask_for_next(24, Needs, 6)]);
    play.answer(24, message_of(Needs, "n1.db.port.sql", 7, "2")).is([look(25, Needs)]);
    let last = play.answer(25, look_from(5, 2, 7)).lines();
    let answer = body(&last, "a");
    assert_eq!(asking::keys(&answer), ["n1.db.port.sql", "n1.web.port.http"]);
    // One node is listed: that list has not failed. What is known of the whole bucket is read from there on.
    play.ask("b", r#"{"what":"needs","node":"n1"}"#)
        .is([r#"#26 $JS.API.STREAM.INFO.KV_mesh-provisioner_needs {"subjects_filter":"$KV.mesh-provisioner_needs.n1.>","offset":0}"#]);
}

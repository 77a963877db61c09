//! Reads in bulk: what is followed, what is known from questions before, and what happens when they are of no use.

use crate::asking::{self, body};
use crate::play::{AT, Play, get, keys_of, list, look, look_of, message_of};
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::kv::Message;
use mesh_model::bucket::Bucket::{self, Applied, Needs, Registry};
use mesh_provisioner::seat::Event;
use serde_json::Value;

/// So many keys that it is worth it: each bucket begins with them, `zz.m00` and on, in the sequences up to here.
const MANY: u64 = 40;

/// The line of a request for what was written to `bucket` from the sequence `from` on.
fn follow(call: u64, bucket: Bucket, from: u64) -> String {
    format!(
        r#"in bulk #{call} $JS.API.DIRECT.GET.KV_{bucket} {{"seq":{from},"batch":8000,"max_bytes":4194304}}"#
    )
}

/// The line of a request for the values of keys of `bucket`.
fn batch(call: u64, bucket: Bucket, keys: &[&str]) -> String {
    let subjects: Vec<String> = keys.iter().map(|key| format!(r#""$KV.{bucket}.{key}""#)).collect();
    format!(
        r#"in bulk #{call} $JS.API.DIRECT.GET.KV_{bucket} {{"multi_last":[{}],"batch":{},"max_bytes":1048576}}"#,
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

fn broken() -> Event {
    Event::BulkDown { why: "the connection broke".to_owned() }
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

    /// The same when that is all there is to read of `bucket`: another look shows so many messages up to `last`. Gives
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

/// A seat that has a connection for reads in bulk.
fn serving_in_bulk() -> Play {
    let mut play = Play::serving_at_large();
    play.ask("a", r#"{"what":"collect"}"#).is([look(16, Bucket::Collect)]);
    play.answer(16, look_of(1, MANY, MANY)).is(["connect in bulk"]);
    play.tell(Event::BulkUp).is([follow(17, Bucket::Collect, 1)]);
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
    // A key was written again, and another one deleted.
    play.ask("c", r#"{"what":"applied"}"#).is([look(23, Applied)]);
    play.answer(23, look_of(1, MANY + 2, MANY + 7)).is([follow(24, Applied, MANY + 5)]);
    let deletion = Message { deleted: true, ..message(Applied, "n1.a", MANY + 7, "") };
    let since = vec![message(Applied, "n1.b", MANY + 6, "6"), deletion];
    let answer = body(&play.last_parts(24, Applied, since, MANY + 2), "c");
    assert_eq!((keys(&answer), &answer["entries"][0]["value"]), (vec!["n1.b"], &6.into()));
}

#[test]
fn a_few_keys_need_no_further_connection() {
    let mut play = Play::serving_at_large();
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
fn a_part_that_ends_early_is_gone_on_behind() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 5)).is([follow(20, Applied, 1)]);
    assert_eq!(play.parts(20, many_and(Applied, []), 1, None), [follow(21, Applied, MANY + 1)]);
    let rest = vec![message(Applied, "n1.a", MANY + 5, "5")];
    let answer = play.last_parts(21, Applied, rest, MANY + 1);
    assert_eq!(keys(&body(&answer, "a")), ["n1.a"]);
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
    assert_eq!(play.parts(20, parts, 0, None), [look(21, Applied)]);
    play.answer(21, look_of(1, MANY + 2, MANY + 6)).is([follow(22, Applied, MANY + 6)]);
    let since = vec![message(Applied, "n1.b", MANY + 6, "6")];
    let answer = body(&play.last_parts(22, Applied, since, MANY + 2), "a");
    assert_eq!((keys(&answer), &answer["as_of"]["sequence"]), (vec!["n1.a", "n1.b"], &(MANY + 6).into()));
}

#[test]
fn a_key_that_was_written_and_went_before_it_was_read_is_not_given_as_it_was_before() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    // The look shows a later write of n1.a, which is gone when it is read, and another key in its place.
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 2, MANY + 6)).is([follow(23, Applied, MANY + 5)]);
    let since = vec![message(Applied, "n1.c", MANY + 7, "7")];
    // The last write that was known is gone too, and its key was not written since: all is read again.
    assert_eq!(play.parts(23, since.clone(), 0, None), [follow(24, Applied, 1)]);
    let all = many_and(Applied, [two()[0].clone(), since[0].clone()]);
    assert_eq!(keys(&body(&play.last_parts(24, Applied, all, MANY + 2), "b")), ["n1.b", "n1.c"]);
    // The same of a key that was not the last: the number of messages tells.
    play.ask("c", r#"{"what":"applied"}"#).is([look(26, Applied)]);
    play.answer(26, look_of(1, MANY + 2, MANY + 8)).is([follow(27, Applied, MANY + 7)]);
    let since = vec![since[0].clone(), message(Applied, "n1.d", MANY + 9, "9")];
    assert_eq!(play.parts(27, since.clone(), 0, None), [look(28, Applied)]);
    play.answer(28, look_of(1, MANY + 2, MANY + 9)).is([follow(29, Applied, 1)]);
    let all = many_and(Applied, since);
    assert_eq!(keys(&body(&play.last_parts(29, Applied, all, MANY + 2), "c")), ["n1.c", "n1.d"]);
}

#[test]
fn a_bucket_that_is_not_what_it_was_is_read_from_the_start() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    // Restored from before the last write that was known, and written since: as many keys as it should have.
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 3, MANY + 6)).is([follow(23, Applied, MANY + 5)]);
    let other = message(Applied, "n1.c", MANY + 6, "6");
    assert_eq!(play.parts(23, vec![other.clone()], 0, None), [follow(24, Applied, 1)]);
    let all = many_and(Applied, [message(Applied, "n1.a", MANY + 4, "4"), two()[0].clone()]);
    let mut all: Vec<Message> = all.into_iter().chain([other]).collect();
    all.sort_by_key(|message| message.sequence);
    let answer = body(&play.last_parts(24, Applied, all, MANY + 3), "b");
    assert_eq!((keys(&answer), &answer["entries"][0]["value"]), (vec!["n1.a", "n1.b", "n1.c"], &4.into()));
    // The last write that was known is there, and is another one.
    play.ask("d", r#"{"what":"applied"}"#).is([look(26, Applied)]);
    play.answer(26, look_of(1, MANY + 3, MANY + 7)).is([follow(27, Applied, MANY + 6)]);
    let others = vec![message(Applied, "n1.b", MANY + 6, "6"), message(Applied, "n1.c", MANY + 7, "7")];
    assert_eq!(play.parts(27, others.clone(), 0, None), [follow(28, Applied, 1)]);
    let all = many_and(Applied, [message(Applied, "n1.a", MANY + 4, "4")]);
    let all = all.into_iter().chain(others).collect();
    body(&play.last_parts(28, Applied, all, MANY + 3), "d");
    // Nothing was written since, but the last write is another one.
    play.ask("c", r#"{"what":"applied"}"#).is([look(30, Applied)]);
    let restored =
        String::from_utf8(look_of(1, MANY + 3, MANY + 7)).unwrap().replace(AT, "2026-11-29T13:00:00Z");
    play.answer(30, restored.into_bytes()).is([follow(31, Applied, 1)]);
}

#[test]
fn a_server_that_does_not_know_the_newest_writes_is_asked_again_and_not_for_ever() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY + 1, MANY + 5)).is([follow(20, Applied, 1)]);
    assert_eq!(play.parts(20, many_and(Applied, []), 0, None), [follow(21, Applied, MANY + 1)]);
    let nothing = |call: u64| Event::Part { call, part: Part::Unusable("404 Message Not Found".to_owned()) };
    for call in 21..28 {
        play.tell(nothing(call)).is([follow(call + 1, Applied, MANY + 1)]);
    }
    play.tell(nothing(28)).is([
        "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: the server that answered does not know the newest writes, or they are gone".to_owned(),
        list(29, Applied),
    ]);
}

#[test]
fn a_bucket_whose_keys_are_never_as_many_as_they_should_be_is_listed() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    let mut asked = play.answer(19, look_of(1, MANY + 1, MANY)).lines();
    let mut call = 20;
    let unfit = "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: its messages are not as many as its keys";
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
    let mut play = Play::serving_at_large();
    play.ask("a", r#"{"what":"applied","node":"zz"}"#).is([
        r#"#16 $JS.API.STREAM.INFO.KV_mesh-provisioner_applied {"subjects_filter":"$KV.mesh-provisioner_applied.zz.>","offset":0}"#,
    ]);
    let many = many_and(Applied, []);
    let names: Vec<&str> =
        many.iter().map(|message| message.subject.rsplit_once("applied.").unwrap().1).collect();
    play.answer(16, keys_of(Applied, &names)).is(["connect in bulk"]);
    let asked: Vec<&str> = ["zz"].into_iter().chain(names).collect();
    play.tell(Event::BulkUp).is([batch(17, Applied, &asked)]);
    assert_eq!(asking::keys(&body(&play.parts(17, many, 0, Some(MANY)), "a")).len(), 40);
}

#[test]
fn a_bucket_that_never_holds_still_is_listed() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    assert_eq!(play.parts(20, many_and(Applied, []), 0, None), [look(21, Applied)]);
    let write = |at: u64| message(Applied, "n1.a", MANY + at, "1");
    for at in 1..=6 {
        let call = 19 + 2 * at;
        play.answer(call, look_of(1, MANY + 1, MANY + at)).is([follow(call + 1, Applied, MANY + at)]);
        assert_eq!(play.parts(call + 1, vec![write(at)], 0, None), [look(call + 2, Applied)]);
    }
    play.answer(33, look_of(1, MANY + 1, MANY + 7)).is([follow(34, Applied, MANY + 7)]);
    assert_eq!(play.parts(34, vec![write(7)], 0, None), [look(35, Applied)]);
    play.answer(35, look_of(1, MANY + 1, MANY + 8)).is([list(36, Applied)]);
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
fn a_look_that_is_late_is_no_list_of_keys() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"drift"}"#).is([look(19, Needs)]);
    play.tell(broken()).is([
        "info: no connection for reads in bulk, buckets are read one by one meanwhile: the connection broke",
        &list(20, Needs),
    ]);
    play.answer(19, look_of(1, MANY, MANY)).nothing();
    // And so is the next bucket.
    play.answer(20, keys_of(Needs, &[])).is([list(21, Applied)]);
    body(&play.answer(21, keys_of(Applied, &[])).lines(), "a");
}

#[test]
fn an_index_is_used_by_one_question_at_a_time() {
    let mut play = Play::serving_at_large();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.ask("b", r#"{"what":"applied","limit":1}"#).nothing();
    let lines = play.answer(16, look_of(1, 0, 0)).lines();
    assert_eq!(lines[1..], [look(17, Applied)], "b has its own look, which is not older than its request");
    body(&lines[..1], "a");
    body(&play.answer(17, look_of(1, 0, 0)).lines(), "b");
}

#[test]
fn what_breaks_the_connection_costs_no_other_and_is_read_one_by_one() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    play.tell(broken()).is([
        "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: the connection broke during one",
        "info: no connection for reads in bulk, buckets are read one by one meanwhile: the connection broke",
        &list(21, Applied),
    ]);
    play.answer(21, keys_of(Applied, &["n1.a"])).is([get(22, Applied, "n1.a")]);
    assert_eq!(keys(&body(&play.answer(22, message_of(Applied, "n1.a", 5, "1")).lines(), "a")), ["n1.a"]);
    play.tell_after(1_000, Event::Due).nothing();
    play.ask("b", r#"{"what":"applied"}"#).is([list(23, Applied)]);
    body(&play.answer(23, keys_of(Applied, &[])).lines(), "b");
    play.ask("c", r#"{"what":"needs"}"#).is([look(24, Needs)]);
    play.answer(24, look_of(1, MANY, MANY)).is(["connect in bulk"]);
    play.tell(Event::BulkUp).is([follow(25, Needs, 1)]);
}

#[test]
fn a_read_in_bulk_that_cannot_be_trusted_is_done_again_one_by_one() {
    let gap = Part::Message { message: message(Applied, "n1.b", 9, "9"), after: 4 };
    let again = Part::Message { message: message(Applied, "n1.b", 3, "3"), after: 3 };
    let stranger = Part::Message { message: message(Needs, "n1.a.b.c", 4, "4"), after: 3 };
    for (part, why) in [
        (gap, "a message is missing in the answer"),
        (again, "a message comes twice"),
        (stranger, "the stream holds subjects that are no keys"),
        (Part::Unusable("408 Empty Request".to_owned()), "408 Empty Request"),
    ] {
        let mut play = Play::serving_at_large();
        play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
        play.answer(16, look_of(1, MANY, 99)).is(["connect in bulk"]);
        play.tell(Event::BulkUp).is([follow(17, Applied, 1)]);
        let first = Part::Message { message: message(Applied, "n1.a", 3, "3"), after: 0 };
        play.tell(Event::Part { call: 17, part: first }).nothing();
        play.tell(Event::Part { call: 17, part }).is([
            format!(
                "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: {why}"
            ),
            list(18, Applied),
        ]);
    }
}

#[test]
fn a_read_in_bulk_without_an_answer_is_given_up_after_a_second() {
    let mut play = Play::serving_at_large();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.answer(16, look_of(1, MANY, MANY)).is(["connect in bulk"]);
    play.tell(Event::BulkUp).is([follow(17, Applied, 1)]);
    play.due_in(1_000..=1_000).is([
        "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: no answer came in time".to_owned(),
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
        format!("warn: the bus says {words:?}"),
        format!(
            "info: bucket mesh-provisioner_applied is read one by one for 15 minutes, since a read in bulk was of no use: {words}"
        ),
        list(21, Applied),
    ]);
}

#[test]
fn a_page_that_waits_long_for_its_keys_in_bulk_is_listed_and_so_are_those_behind_it() {
    let mut play = serving_in_bulk();
    play.ask("a", r#"{"what":"applied"}"#).is([look(19, Applied)]);
    play.ask("b", r#"{"what":"applied","limit":1}"#).nothing();
    play.answer(19, look_of(1, MANY, MANY)).is([follow(20, Applied, 1)]);
    for (message, after) in many_and(Applied, []).into_iter().zip(0..3) {
        play.tell_after(500, Event::Part { call: 20, part: Part::Message { message, after } }).lines();
    }
    // Both have left; the part that still comes is nobody's.
    for call in [21, 22] {
        body(&play.answer(call, keys_of(Applied, &[])).lines(), if call == 21 { "a" } else { "b" });
    }
}

#[test]
fn nobody_waits_long_for_the_connection() {
    let mut play = Play::serving_at_large();
    play.ask("a", r#"{"what":"applied"}"#).is([look(16, Applied)]);
    play.answer(16, look_of(1, MANY, MANY)).is(["connect in bulk"]);
    play.due_in(500..=500).is([list(17, Applied)]);
    body(&play.answer(17, keys_of(Applied, &[])).lines(), "a");
    // While it is not there, nobody begins to wait for it.
    play.ask("b", r#"{"what":"applied"}"#).is([list(18, Applied)]);
    body(&play.answer(18, keys_of(Applied, &[])).lines(), "b");
    play.tell(Event::BulkDown { why: "refused".to_owned() })
        .is(["info: no connection for reads in bulk, buckets are read one by one meanwhile: refused"]);
    play.ask("c", r#"{"what":"applied"}"#).is([list(19, Applied)]);
    body(&play.answer(19, keys_of(Applied, &[])).lines(), "c");
    play.tell_after(1_000, Event::Due).nothing();
    play.ask("d", r#"{"what":"applied"}"#).is([look(20, Applied)]);
}

#[test]
fn what_is_known_and_the_connection_end_when_nobody_asks() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    play.due_in(600_000..=600_000).is(["close in bulk"]);
    play.ask("b", r#"{"what":"applied"}"#).is([look(22, Applied)]);
    play.answer(22, look_of(1, MANY + 2, MANY + 5)).is(["connect in bulk"]);
    play.tell(Event::BulkUp).is([follow(23, Applied, 1)]);
}

#[test]
fn what_is_known_ends_with_the_connection_that_serves() {
    let mut play = serving_in_bulk();
    play.ask_for_applied("a", 19, &two());
    play.tell(Event::Up { server: "n2".to_owned(), max_payload: 1024 * 1024 }).lines();
    play.ask("b", r#"{"what":"applied"}"#).is([look(24, Applied)]);
    play.answer(24, look_of(1, MANY + 2, MANY + 5)).is(["connect in bulk"]);
    play.tell(Event::BulkUp).is([follow(25, Applied, 1)]);
}

#[test]
fn the_registry_is_never_read_in_bulk() {
    let mut play = serving_in_bulk();
    play.ask("a", "").is([list(19, Registry)]);
    play.answer(19, keys_of(Registry, &["port"])).is([get(20, Registry, "port")]);
}

//! Somebody who asks, and checks every answer against what was written.

use super::Soak;
use super::chance::Chance;
use super::judge::{self, Reach};
use super::model::View;
use super::support::accounts::{NODES, READER};
use super::support::client::{Client, Inbox, Unanswered};
use super::support::verb::{ANSWER_BOUND, Answer};
use super::tally::Unmet;
use super::writer::{KINDS, MODULES};
use mesh_model::bucket::Bucket;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How many asks are kept to see that none is answered twice.
const KEPT: usize = 64;

#[derive(Clone, Copy)]
enum Question {
    Entries(Bucket),
    Gaps,
    Registry,
    Nodes,
    Drift,
    Collections,
    Health,
    Nonsense,
}

const QUESTIONS: [(usize, Question); 10] = [
    (6, Question::Entries(Bucket::Needs)),
    (3, Question::Entries(Bucket::Applied)),
    (3, Question::Entries(Bucket::Collect)),
    (2, Question::Gaps),
    (3, Question::Registry),
    (1, Question::Nodes),
    (2, Question::Drift),
    (1, Question::Collections),
    (1, Question::Health),
    (1, Question::Nonsense),
];

pub(crate) struct Asker<'a> {
    soak: &'a Soak,
    chance: Chance,
    client: Option<Client>,
    answered: VecDeque<(String, Inbox)>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(soak: &'a Soak, chance: Chance) -> Self {
        Self { soak, chance, client: None, answered: VecDeque::new() }
    }

    /// Asks until the end.
    pub(crate) fn run(mut self) {
        loop {
            self.ask_something();
            if self.soak.over_after(self.chance.between(0, 20)) {
                return;
            }
        }
    }

    fn ask_something(&mut self) {
        let question = self.chance.weighted(&QUESTIONS);
        let node = (!self.chance.one_in(4)).then(|| *self.chance.pick(&NODES));
        let module = self.chance.one_in(3).then(|| *self.chance.pick(&MODULES));
        match question {
            Question::Entries(bucket) => {
                let kind =
                    (bucket == Bucket::Needs && self.chance.one_in(3)).then(|| *self.chance.pick(&KINDS));
                self.follow(bucket, false, &Reach { node, module, kind });
            }
            Question::Gaps => self.follow(Bucket::Needs, true, &Reach { node, module, kind: None }),
            Question::Registry => self.ask(&json!({"what": "registry"}), &[], |soak, _, body| {
                judge::registry(body, &soak.touched())
            }),
            Question::Nodes => self.ask(
                &narrowed("nodes", node),
                &[Bucket::Needs, Bucket::Applied, Bucket::Collect],
                |_, views, body| judge::nodes(body, node, views),
            ),
            Question::Drift => {
                self.ask(&narrowed("drift", node), &[Bucket::Needs, Bucket::Applied], |_, views, body| {
                    judge::drift(body, node, views)
                });
            }
            Question::Collections => {
                self.ask(&narrowed("collections", None), &[Bucket::Collect], |_, views, body| {
                    judge::collections(body, views)
                });
            }
            Question::Health => self.ask(&json!({"what": "health"}), &[], |_, _, body| {
                if body["live"] == true || body["health"]["live"] == true {
                    Ok(())
                } else {
                    Err(body.to_string())
                }
            }),
            Question::Nonsense => self.ask_nonsense(),
        }
    }

    /// Follows `next` to the end.
    fn follow(&mut self, bucket: Bucket, only_gaps: bool, reach: &Reach) {
        let mut asked = Map::new();
        asked.insert("what".to_owned(), json!(if only_gaps { "gaps" } else { bucket.suffix() }));
        for (field, filter) in [("node", reach.node), ("module", reach.module), ("kind", reach.kind)] {
            asked.extend(filter.map(|filter| (field.to_owned(), json!(filter))));
        }
        if self.chance.one_in(3) {
            asked.insert("limit".to_owned(), json!(20 + self.chance.below(500)));
        }
        loop {
            let after = asked.get("after").and_then(Value::as_str).map(str::to_owned);
            let mut next = None;
            self.ask(&Value::Object(asked.clone()), &[bucket], |_, views, body| {
                next = body["next"].as_str().map(str::to_owned);
                judge::page(bucket, reach, only_gaps, after.as_deref(), &views[&bucket], body)
            });
            match next {
                Some(next) => asked.insert("after".to_owned(), Value::String(next)),
                None => return,
            };
        }
    }

    fn ask_nonsense(&mut self) {
        let nonsense =
            ["[]", "{\"what\":\"needs\",\"what\":\"needs\"}", "{\"node\":1}", "\u{1}", "{\"what\":\"all\"}"];
        let body = *self.chance.pick(&nonsense);
        let Some((answer, ..)) = self.send(body) else { return };
        match answer.code() {
            Some(400) => self.soak.tally.right(),
            _ => self.soak.tally.wrong(&format!("{body} was answered with {}", answer.text())),
        }
    }

    /// Asks, and judges the answer by what `buckets` held meanwhile.
    fn ask<J>(&mut self, asked: &Value, buckets: &[Bucket], judge: J)
    where
        J: FnOnce(&Soak, &BTreeMap<Bucket, View>, &Value) -> Result<(), String>,
    {
        let asked = asked.to_string();
        let Some((answer, from, to)) = self.send(&asked) else { return };
        match answer.code() {
            Some(code @ (503 | 504)) => self.soak.tally.error(code),
            Some(_) => self.soak.tally.wrong(&format!("{asked} was answered with {}", answer.text())),
            None => {
                let views =
                    buckets.iter().map(|bucket| (*bucket, self.soak.model.view(*bucket, from, to))).collect();
                match judge(self.soak, &views, answer.body()) {
                    Ok(()) => self.soak.tally.right(),
                    Err(why) => self.soak.tally.wrong(&format!("{asked}: {why}")),
                }
            }
        }
    }

    /// Sends an ask; gives the answer, and when the ask was sent and the answer was there.
    fn send(&mut self, body: &str) -> Option<(Answer, Instant, Instant)> {
        let Some(client) = self.connected() else {
            self.soak.over_after(Duration::from_millis(100));
            return None;
        };
        let from = Instant::now();
        let inbox = client.request_later(super::support::verb::VERB, &[], body);
        let answer = inbox.next(ANSWER_BOUND);
        let to = Instant::now();
        match answer {
            Ok(message) => {
                self.client = Some(client);
                self.keep(body, inbox);
                return Some((Answer::of(&message), from, to));
            }
            Err(Unanswered::NoResponders) => {
                self.client = Some(client);
                self.soak.tally.unmet(Unmet::Nobody, from, body);
                self.soak.over_after(Duration::from_millis(50));
            }
            Err(Unanswered::Late { .. }) => self.soak.tally.unmet(Unmet::Silence, from, body),
            Err(Unanswered::Closed { .. }) => self.soak.tally.unmet(Unmet::Lost, from, body),
            Err(Unanswered::Denied(words)) => self.soak.tally.wrong(&words),
        }
        None
    }

    /// Keeps an inbox for a while: a second answer would be in it.
    fn keep(&mut self, body: &str, inbox: Inbox) {
        self.answered.push_back((body.to_owned(), inbox));
        if self.answered.len() > KEPT
            && let Some((body, inbox)) = self.answered.pop_front()
            && !inbox.take_all().is_empty()
        {
            self.soak.tally.wrong(&format!("{body} was answered twice"));
        }
    }

    fn connected(&mut self) -> Option<Client> {
        let kept = self.client.take().filter(|client| !client.is_closed());
        kept.or_else(|| Client::try_connect(self.soak.address, &READER).ok())
    }
}

fn narrowed(what: &str, node: Option<&str>) -> Value {
    match node {
        Some(node) => json!({"what": what, "node": node}),
        None => json!({"what": what}),
    }
}

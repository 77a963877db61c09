//! The requests that the seat has taken on. Equal requests share one question, if they came before it began: an
//! answer never speaks of a time before its request.

use super::failure::Refusal;
use super::index::Shelf;
use super::known::Known;
use super::question::{Frame, Question};
use crate::wire::reason::Reason;
use crate::wire::request::Ask;
use mesh_model::bucket::Bucket;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// How many questions are worked on at a time.
const MAX_UNDER_WAY: usize = 64;

/// How many requests wait their turn beside as many as may be worked on.
const MAX_WAITING: usize = 1024;

/// How long a page may wait for its keys in bulk. What was read by then is not lost: it is known to the next.
const BULK_PATIENCE: Duration = Duration::from_millis(1500);

/// How long a request may take from its arrival to its answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// Somebody who waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asker {
    /// Where the answer goes.
    pub(super) reply: String,
    /// When the request came.
    pub(super) since: Duration,
}

/// A question under way, and who asked it.
#[derive(Debug)]
struct UnderWay {
    id: u64,
    ask: Ask,
    askers: VecDeque<Asker>,
    question: Question,
}

impl UnderWay {
    /// When it had better leave reads in bulk.
    fn slow_at(&self) -> Option<Duration> {
        let asker = self.askers.front().filter(|_| self.question.had_better_leave_bulk())?;
        Some(asker.since + BULK_PATIENCE)
    }
}

/// A question that has its answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) id: u64,
    pub(super) askers: VecDeque<Asker>,
    pub(super) outcome: Result<String, Refusal>,
}

/// Requests under way, and behind them those that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Requests {
    under_way: Vec<UnderWay>,
    waiting: VecDeque<(Ask, Asker)>,
    /// How many askers there are, those that wait their turn included.
    askers: usize,
    /// Whether one of those that wait may have its turn.
    changed: bool,
    last_id: u64,
    /// The registry as a question last read it.
    registry: Option<Rc<Known>>,
    /// What is known of the other buckets.
    shelf: Rc<Shelf>,
}

impl Requests {
    /// Takes a request on, or says why not.
    pub(super) fn take(&mut self, ask: Ask, asker: Asker) -> Result<(), Refusal> {
        if self.askers >= MAX_UNDER_WAY + MAX_WAITING {
            return Err(Refusal::new(
                Reason::Full,
                format!(
                    "the seat is full: {MAX_UNDER_WAY} requests are under way and {MAX_WAITING} wait: ask again later"
                ),
            ));
        }
        self.askers += 1;
        self.waiting.push_back((ask, asker));
        self.changed = true;
        Ok(())
    }

    /// How many there are, those that wait included.
    pub(super) const fn len(&self) -> usize {
        self.askers
    }

    /// Whether one of those that wait may have its turn.
    pub(super) const fn may_begin(&self) -> bool {
        self.changed
    }

    /// Begins those whose turn it is: the first that wait, each together with its equals. One that equals a
    /// question under way waits until that is answered.
    pub(super) fn begin(&mut self, frame: &Frame) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        while self.under_way.len() < MAX_UNDER_WAY {
            let asked = |ask: &Ask| self.under_way.iter().any(|under_way| under_way.ask == *ask);
            let Some(at) = self.waiting.iter().position(|(ask, _)| !asked(ask)) else { return };
            let ask = self.waiting[at].0.clone();
            let mut askers = VecDeque::new();
            self.waiting.retain(|(other, asker)| {
                let joins = *other == ask;
                if joins {
                    askers.push_back(asker.clone());
                }
                !joins
            });
            self.last_id += 1;
            let question = Question::new(&ask, frame.clone(), self.registry.clone());
            self.under_way.push(UnderWay { id: self.last_id, ask, askers, question });
        }
    }

    /// The connection is gone: whatever was under way waits again, and begins anew if there is still time.
    pub(super) fn begin_anew(&mut self) {
        let mut again: Vec<(Ask, Asker)> = self
            .under_way
            .drain(..)
            .flat_map(|UnderWay { ask, askers, .. }| {
                askers.into_iter().map(move |asker| (ask.clone(), asker))
            })
            .collect();
        again.extend(self.waiting.drain(..));
        again.sort_by_key(|(_, asker)| asker.since);
        self.waiting = again.into();
        // The next connection may lead to another bus.
        self.registry = None;
        self.shelf.clear();
        self.changed = true;
    }

    /// The questions under way.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.under_way.iter().map(|under_way| under_way.id).collect()
    }

    /// Where the indexes of the buckets are.
    pub(super) fn shelf(&self) -> Rc<Shelf> {
        Rc::clone(&self.shelf)
    }

    /// Has all questions read `bucket` one by one from now on, or everything if there is none.
    pub(super) fn leave_bulk(&mut self, bucket: Option<Bucket>) {
        self.under_way.iter_mut().for_each(|under_way| under_way.question.leave_bulk(bucket));
    }

    /// Has those read one by one that have waited too long for reads in bulk.
    pub(super) fn leave_slow_bulk(&mut self, now: Duration) {
        for under_way in &mut self.under_way {
            if under_way.slow_at().is_some_and(|at| now >= at) {
                under_way.question.leave_bulk(None);
            }
        }
    }

    /// The buckets that questions have found cannot be followed, and why.
    pub(super) fn take_unfit(&self) -> BTreeMap<Bucket, &'static str> {
        self.shelf.take_unfit()
    }

    /// Whether one of the questions has more to do without hearing anything.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.iter().any(|under_way| under_way.question.is_busy())
    }

    /// Has each of those do a slice.
    pub(super) fn go_on(&mut self) {
        for under_way in self.under_way.iter_mut().filter(|under_way| under_way.question.is_busy()) {
            under_way.question.go_on();
        }
    }

    /// Whether one of the questions waits for the connection for reads in bulk.
    pub(super) fn wait_for_bulk(&self) -> bool {
        self.under_way.iter().any(|under_way| under_way.question.waits_for_bulk())
    }

    /// Whether nothing is known of the buckets but the registry.
    pub(super) fn know_nothing(&self) -> bool {
        self.shelf.is_empty()
    }

    /// Forgets what is known of the buckets.
    pub(super) fn forget(&self) {
        self.shelf.clear();
    }

    /// The question `id`, if it is still under way.
    pub(super) fn question(&mut self, id: u64) -> Option<&mut Question> {
        self.under_way
            .iter_mut()
            .find(|under_way| under_way.id == id)
            .map(|under_way| &mut under_way.question)
    }

    /// How many of the questions keep a long list of keys.
    pub(super) fn long_lists(&self) -> usize {
        self.under_way.iter().filter(|under_way| under_way.question.keeps_long_list()).count()
    }

    /// Takes out one that has its answer.
    pub(super) fn answered(&mut self) -> Option<Answered> {
        let (at, outcome) = self
            .under_way
            .iter_mut()
            .enumerate()
            .find_map(|(at, under_way)| Some((at, under_way.question.outcome()?)))?;
        let UnderWay { id, askers, mut question, .. } = self.under_way.remove(at);
        self.askers -= askers.len();
        self.changed = true;
        self.registry = question.take_registry().or_else(|| self.registry.take());
        Some(Answered { id, askers, outcome })
    }

    /// When the first of them has waited too long, for its answer or for reads in bulk.
    pub(super) fn due(&self) -> Option<Duration> {
        let oldest = self.under_way.iter().filter_map(|under_way| under_way.askers.front());
        let late =
            oldest.chain(self.waiting.front().map(|(_, asker)| asker)).map(|asker| asker.since + PATIENCE);
        late.chain(self.under_way.iter().filter_map(UnderWay::slow_at)).min()
    }

    /// Ends with what they have by now the questions whose time is up.
    pub(super) fn cut_short(&mut self, now: Duration) {
        let is_due = |under_way: &&mut UnderWay| {
            under_way.askers.front().is_some_and(|asker| now >= asker.since + PATIENCE)
        };
        self.under_way.iter_mut().filter(is_due).for_each(|under_way| under_way.question.cut_short());
    }

    /// Takes out one that has waited too long, with the id of its question if nobody else waits for that, and with
    /// what it waited for.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<(Option<u64>, Asker, Refusal)> {
        let is_due = |asker: Option<&Asker>| asker.is_some_and(|asker| now >= asker.since + PATIENCE);
        let seconds = PATIENCE.as_secs();
        let taken = if is_due(self.waiting.front().map(|(_, asker)| asker)) {
            let (_, asker) = self.waiting.pop_front()?;
            let message = format!("the request waited {seconds} s for its turn: ask again later");
            (None, asker, Refusal::too_late(message))
        } else {
            let at = self.under_way.iter().position(|under_way| is_due(under_way.askers.front()))?;
            let under_way = &mut self.under_way[at];
            let asker = under_way.askers.pop_front()?;
            let message = format!(
                "not read within {seconds} s: {}: ask again, for less at a time, or look at the load of the nats-server",
                under_way.question.progress()
            );
            let id = under_way.askers.is_empty().then_some(under_way.id);
            if id.is_some() {
                self.under_way.remove(at);
                self.changed = true;
            }
            (id, asker, Refusal::too_late(message))
        };
        self.askers -= 1;
        Some(taken)
    }

    /// Takes all out, for a seat that ends.
    pub(super) fn take_all(&mut self) -> Vec<Asker> {
        self.begin_anew();
        self.askers = 0;
        self.waiting.drain(..).map(|(_, asker)| asker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::request::What;
    use mesh_service::identity::Identity;
    use std::collections::{BTreeMap, BTreeSet};

    fn frame() -> Frame {
        Frame {
            page_bytes: 1024,
            seat: Identity { id: String::new(), version: String::new() },
            bulk: BTreeSet::new(),
            few_keys: 0,
            shelf: Rc::default(),
            value_bytes: BTreeMap::new(),
            clock: Duration::ZERO,
        }
    }

    fn asker(reply: &str, seconds: u64) -> Asker {
        Asker { reply: reply.to_owned(), since: Duration::from_secs(seconds) }
    }

    #[test]
    fn equal_requests_share_a_question_that_has_not_begun() {
        let mut requests = Requests::default();
        let take =
            |requests: &mut Requests, what, reply| requests.take(Ask::new(what), asker(reply, 0)).unwrap();
        take(&mut requests, What::Registry, "a");
        requests.begin(&frame());
        take(&mut requests, What::Registry, "b");
        take(&mut requests, What::Needs, "c");
        take(&mut requests, What::Registry, "d");
        requests.begin(&frame());
        assert_eq!(requests.ids(), [1, 2], "b and d wait for the question that began before they came");
        let replies: Vec<Vec<&str>> = requests
            .under_way
            .iter()
            .map(|under_way| under_way.askers.iter().map(|asker| asker.reply.as_str()).collect())
            .collect();
        assert_eq!(replies, [vec!["a"], vec!["c"]]);
        requests.begin_anew();
        requests.begin(&frame());
        assert_eq!(requests.under_way[0].askers.len(), 3);
        assert_eq!(requests.len(), 4);
    }

    #[test]
    fn each_request_has_its_own_patience() {
        let mut requests = Requests::default();
        requests.take(Ask::new(What::Registry), asker("a", 0)).unwrap();
        requests.take(Ask::new(What::Registry), asker("b", 1)).unwrap();
        requests.begin(&frame());
        assert_eq!(requests.due(), Some(Duration::from_secs(4)));
        assert_eq!(requests.overdue(Duration::from_millis(3999)), None);
        let (id, late, refusal) = requests.overdue(Duration::from_secs(4)).unwrap();
        assert_eq!((id, late.reply.as_str(), refusal.reason.code()), (None, "a", 504));
        let (id, late, _) = requests.overdue(Duration::from_secs(5)).unwrap();
        assert_eq!((id, late.reply.as_str()), (Some(1), "b"));
        assert_eq!(requests.len(), 0);
    }

    #[test]
    fn beyond_its_bounds_it_takes_nothing() {
        let mut requests = Requests::default();
        for at in 0..MAX_UNDER_WAY + MAX_WAITING {
            let ask = Ask { node: Some(at.to_string()), ..Ask::new(What::Needs) };
            requests.take(ask, asker("a", 0)).unwrap();
            requests.begin(&frame());
        }
        assert_eq!(requests.ids().len(), MAX_UNDER_WAY);
        let refusal = requests.take(Ask::new(What::Registry), asker("a", 0)).unwrap_err();
        assert_eq!(refusal.reason.code(), 503);
        assert!(refusal.message.starts_with("the seat is full"), "{}", refusal.message);
    }
}

//! Queries under way and requests that wait. Identical requests share a query only if it has not started yet, so a
//! response never shows state older than its request.

use super::query::Query;
use super::query::context::QueryContext;
use super::read::cache::CacheStore;
use super::read::snapshot::Snapshot;
use crate::seat::limits::{CACHES_KEPT, MAX_SHARING, MAX_UNDER_WAY, MAX_WAITING, QUERY_DEADLINE};
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::Refusal;
use mesh_provisioner_api::reason::Reason;
use mesh_provisioner_api::request::Ask;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::rc::Rc;
use std::time::Duration;

/// A client that waits for a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    /// Its reply subject.
    pub(super) reply: String,
    /// When its request arrived.
    pub(super) since: Duration,
}

/// A query under way, and its clients.
#[derive(Debug)]
struct UnderWay {
    id: u64,
    work: Ask,
    asks: Vec<Ask>,
    /// In the order in which they came; each with the position of its ask among those that the query answers.
    clients: VecDeque<(usize, Client)>,
    query: Query,
}

impl UnderWay {
    fn is_due(&self, now: Duration) -> bool {
        self.clients.front().is_some_and(|(_, client)| now >= client.since + QUERY_DEADLINE)
    }
}

/// An ask that has its response.
#[derive(Debug)]
pub(super) struct Answered {
    /// The query, if it is done.
    pub(super) id: Option<u64>,
    pub(super) clients: Vec<Client>,
    pub(super) outcome: Result<String, Refusal>,
    /// The state in which the query read the registry, if it did.
    pub(super) registry: Option<State>,
}

/// Queries under way, and requests that wait, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Queries {
    under_way: Vec<UnderWay>,
    waiting: VecDeque<(Ask, Client)>,
    /// The number of clients, including those that wait.
    clients: usize,
    /// Whether a waiting request may start now.
    changed: bool,
    last_id: u64,
    /// The latest registry snapshot.
    registry: Option<Rc<Snapshot>>,
    /// The caches of the other buckets.
    store: Rc<CacheStore>,
    /// Since when there is no query, while there are caches.
    idle_since: Option<Duration>,
}

impl Queries {
    /// Accepts a request, or returns why not.
    pub(super) fn accept(&mut self, ask: Ask, client: Client) -> Result<(), Refusal> {
        if self.clients >= MAX_UNDER_WAY + MAX_WAITING {
            return Err(Refusal::new(
                Reason::Full,
                format!(
                    "the seat is full: {MAX_UNDER_WAY} requests are under way and {MAX_WAITING} wait: try again later"
                ),
            ));
        }
        self.clients += 1;
        self.waiting.push_back((ask, client));
        self.changed = true;
        Ok(())
    }

    /// The number of clients, including those that wait.
    pub(super) const fn len(&self) -> usize {
        self.clients
    }

    /// What holds after every event.
    pub(super) fn assert_invariants(&self) {
        assert!(self.under_way.len() <= MAX_UNDER_WAY, "too many queries under way");
        assert!(self.clients <= MAX_UNDER_WAY + MAX_WAITING, "too many clients");
        let served: usize = self.under_way.iter().map(|under_way| under_way.clients.len()).sum();
        assert_eq!(self.clients, served + self.waiting.len(), "a client was lost, or counted twice");
        for under_way in &self.under_way {
            assert!(!under_way.clients.is_empty(), "a query that nobody waits for");
            assert!(under_way.asks.len() <= MAX_SHARING, "too many requests share a query");
        }
    }

    /// Whether the query `id` is under way.
    pub(super) fn is_under_way(&self, id: u64) -> bool {
        self.under_way.iter().any(|under_way| under_way.id == id)
    }

    /// Whether a waiting request may start now.
    pub(super) const fn may_begin(&self) -> bool {
        self.changed
    }

    /// Starts waiting queries up to the limit; identical requests share one. A request that is identical to a query
    /// under way waits until that is finished.
    pub(super) fn begin(&mut self, context: &QueryContext) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        while self.under_way.len() < MAX_UNDER_WAY {
            // Reports of the whole mesh keep many rows: there is room for one at a time.
            let is_whole = self.under_way.iter().any(|under_way| under_way.work.is_of_the_whole_mesh());
            let may_begin = |ask: &Ask| {
                let work = ask.work();
                self.under_way.iter().all(|under_way| under_way.work != work)
                    && !(is_whole && work.is_of_the_whole_mesh())
            };
            let Some(at) = self.waiting.iter().position(|(ask, _)| may_begin(ask)) else { return };
            let work = self.waiting[at].0.work();
            let (mut asks, mut clients) = (Vec::new(), VecDeque::new());
            self.waiting.retain(|(ask, client)| {
                if ask.work() != work {
                    return true;
                }
                let snapshot = asks.iter().position(|other| other == ask);
                if snapshot.is_none() && asks.len() == MAX_SHARING {
                    return true;
                }
                clients.push_back((snapshot.unwrap_or(asks.len()), client.clone()));
                if snapshot.is_none() {
                    asks.push(ask.clone());
                }
                false
            });
            self.last_id += 1;
            let query = Query::new(&asks, context.clone(), self.registry.clone());
            self.under_way.push(UnderWay { id: self.last_id, work, asks, clients, query });
        }
    }

    /// The connection is lost: all queries wait again, and restart if there is still time.
    pub(super) fn begin_anew(&mut self) {
        let mut again: Vec<(Ask, Client)> = self
            .under_way
            .drain(..)
            .flat_map(|UnderWay { asks, clients, .. }| {
                clients.into_iter().map(move |(at, client)| (asks[at].clone(), client))
            })
            .collect();
        again.extend(self.waiting.drain(..));
        again.sort_by_key(|(_, client)| client.since);
        self.waiting = again.into();
        // The next connection may lead to another NATS system.
        self.registry = None;
        self.store.clear();
        self.changed = true;
    }

    /// The queries under way.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.under_way.iter().map(|under_way| under_way.id).collect()
    }

    /// The caches of the buckets.
    pub(super) fn store(&self) -> Rc<CacheStore> {
        Rc::clone(&self.store)
    }

    /// Makes all queries read `bucket` key by key from now on.
    pub(super) fn leave_bulk(&mut self, bucket: Bucket) {
        self.under_way.iter_mut().for_each(|under_way| under_way.query.leave_bulk(bucket));
    }

    /// The buckets that cannot be cached, as queries found, and why.
    pub(super) fn take_uncacheable(&self) -> BTreeMap<Bucket, &'static str> {
        self.store.take_uncacheable()
    }

    /// Whether a query has more to do without a reply.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.iter().any(|under_way| under_way.query.is_busy())
    }

    /// Has one busy query do a slice, another one each `turn`, so that other events wait for one slice at most.
    pub(super) fn poll(&mut self, turn: usize) {
        let mut busy: Vec<&mut UnderWay> =
            self.under_way.iter_mut().filter(|under_way| under_way.query.is_busy()).collect();
        if !busy.is_empty() {
            let at = turn % busy.len();
            busy[at].query.poll();
        }
    }

    /// Drops the caches after [`CACHES_KEPT`] without a query.
    pub(super) fn forget_if_idle(&mut self, now: Duration) {
        if self.clients > 0 || self.store.is_empty() {
            self.idle_since = None;
        } else if now >= *self.idle_since.get_or_insert(now) + CACHES_KEPT {
            self.idle_since = None;
            self.store.clear();
        }
    }

    /// When the caches are dropped.
    pub(super) fn idle_until(&self) -> Option<Duration> {
        self.idle_since.map(|since| since + CACHES_KEPT)
    }

    /// The query `id`, if it is still under way.
    pub(super) fn query(&mut self, id: u64) -> Option<&mut Query> {
        self.under_way.iter_mut().find(|under_way| under_way.id == id).map(|under_way| &mut under_way.query)
    }

    /// How many keys of lists the queries keep.
    pub(super) fn listed_keys(&self) -> usize {
        self.under_way.iter().map(|under_way| under_way.query.listed_keys()).sum()
    }

    /// Removes the clients whose response is ready.
    pub(super) fn answered(&mut self) -> Option<Answered> {
        let outcome = |(at, under_way): (usize, &mut UnderWay)| Some((at, under_way.query.outcome()?));
        let (at, (asked, outcome)) = self.under_way.iter_mut().enumerate().find_map(outcome)?;
        let under_way = &mut self.under_way[at];
        let registry = under_way.query.take_registry().map(|(state, snapshot)| {
            self.registry = snapshot.or_else(|| self.registry.take());
            state
        });
        let (answered, rest): (Vec<_>, Vec<_>) =
            mem::take(&mut under_way.clients).into_iter().partition(|(of, _)| *of == asked);
        under_way.clients = rest.into();
        self.clients -= answered.len();
        let id = under_way.query.is_done().then_some(under_way.id);
        if id.is_some() {
            self.under_way.remove(at);
            self.changed = true;
        }
        let clients = answered.into_iter().map(|(_, client)| client).collect();
        Some(Answered { id, clients, outcome, registry })
    }

    /// When the first client has waited too long.
    pub(super) fn due(&self) -> Option<Duration> {
        let oldest = self.under_way.iter().filter_map(|under_way| under_way.clients.front());
        let oldest = oldest.map(|(_, client)| client).chain(self.waiting.front().map(|(_, client)| client));
        oldest.map(|client| client.since + QUERY_DEADLINE).min()
    }

    /// Ends the queries whose time is up, with what they have read.
    pub(super) fn cut_short(&mut self, now: Duration) {
        let due = self.under_way.iter_mut().filter(|under_way| under_way.is_due(now));
        due.for_each(|under_way| under_way.query.cut_short());
    }

    /// Removes one client whose time is up, with the id of its query if no other client waits for it, and with the
    /// error.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<(Option<u64>, Client, Refusal)> {
        let is_due =
            |client: Option<&Client>| client.is_some_and(|client| now >= client.since + QUERY_DEADLINE);
        let seconds = QUERY_DEADLINE.as_secs();
        let taken = if is_due(self.waiting.front().map(|(_, client)| client)) {
            let (_, client) = self.waiting.pop_front()?;
            let message = format!("the request waited {seconds} s for its turn: try again later");
            (None, client, Refusal::too_late(message))
        } else {
            let at = self.under_way.iter().position(|under_way| under_way.is_due(now))?;
            let under_way = &mut self.under_way[at];
            let (_, client) = under_way.clients.pop_front()?;
            let message = format!(
                "not read within {seconds} s: {}: try again with a narrower query, or check the load of the nats-server",
                under_way.query.progress()
            );
            let id = under_way.clients.is_empty().then_some(under_way.id);
            if id.is_some() {
                self.under_way.remove(at);
                self.changed = true;
            }
            (id, client, Refusal::too_late(message))
        };
        self.clients -= 1;
        Some(taken)
    }

    /// Removes all clients, for a seat that exits.
    pub(super) fn take_all(&mut self) -> Vec<Client> {
        self.begin_anew();
        self.clients = 0;
        self.waiting.drain(..).map(|(_, client)| client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_provisioner_api::request::What;
    use mesh_service::identity::Identity;
    use std::collections::{BTreeMap, BTreeSet};

    fn context() -> QueryContext {
        QueryContext {
            page_bytes: 1024,
            seat: Identity { id: String::new(), version: String::new() },
            bulk: BTreeSet::new(),
            part_bytes: 0,
            unlisted: BTreeSet::new(),
            max_keys_one_by_one: 0,
            store: Rc::default(),
            value_bytes: BTreeMap::new(),
            clock: Duration::ZERO,
        }
    }

    fn client(reply: &str, seconds: u64) -> Client {
        Client { reply: reply.to_owned(), since: Duration::from_secs(seconds) }
    }

    #[test]
    fn equal_requests_share_a_question_that_has_not_begun() {
        let mut queries = Queries::default();
        let take =
            |queries: &mut Queries, what, reply| queries.accept(Ask::new(what), client(reply, 0)).unwrap();
        take(&mut queries, What::Registry, "a");
        queries.begin(&context());
        take(&mut queries, What::Registry, "b");
        take(&mut queries, What::Needs, "c");
        take(&mut queries, What::Registry, "d");
        queries.begin(&context());
        assert_eq!(queries.ids(), [1, 2], "b and d wait for the question that began before they came");
        let replies: Vec<Vec<&str>> = queries
            .under_way
            .iter()
            .map(|under_way| under_way.clients.iter().map(|(_, client)| client.reply.as_str()).collect())
            .collect();
        assert_eq!(replies, [vec!["a"], vec!["c"]]);
        queries.begin_anew();
        queries.begin(&context());
        assert_eq!(queries.under_way[0].clients.len(), 3);
        assert_eq!(queries.len(), 4);
    }

    #[test]
    fn each_request_has_its_own_patience() {
        let mut queries = Queries::default();
        queries.accept(Ask::new(What::Registry), client("a", 0)).unwrap();
        queries.accept(Ask::new(What::Registry), client("b", 1)).unwrap();
        queries.begin(&context());
        assert_eq!(queries.due(), Some(Duration::from_secs(4)));
        assert_eq!(queries.overdue(Duration::from_millis(3999)), None);
        let (id, late, refusal) = queries.overdue(Duration::from_secs(4)).unwrap();
        assert_eq!((id, late.reply.as_str(), refusal.reason.code()), (None, "a", 504));
        let (id, late, _) = queries.overdue(Duration::from_secs(5)).unwrap();
        assert_eq!((id, late.reply.as_str()), (Some(1), "b"));
        assert_eq!(queries.len(), 0);
    }

    #[test]
    fn beyond_its_bounds_it_takes_nothing() {
        let mut queries = Queries::default();
        for at in 0..MAX_UNDER_WAY + MAX_WAITING {
            let ask = Ask { node: Some(at.to_string()), ..Ask::new(What::Needs) };
            queries.accept(ask, client("a", 0)).unwrap();
            queries.begin(&context());
        }
        assert_eq!(queries.ids().len(), MAX_UNDER_WAY);
        let refusal = queries.accept(Ask::new(What::Registry), client("a", 0)).unwrap_err();
        assert_eq!(refusal.reason.code(), 503);
        assert!(refusal.message.starts_with("the seat is full"), "{}", refusal.message);
    }
}

//! Asking verbs, and what their answers change.

use std::time::Duration;

use log::Level;
use mesh_jetstream::message::Outgoing;
use mesh_model::host_api::Request;
use mesh_model::standing::{Why, consumers_name};
use mesh_service::follow::Reading;
use std::collections::{BTreeMap, BTreeSet};

use super::asks::{self, Answer, Asked, Held, MOST, PATIENT, backoff};
use super::link::PATIENCE;
use super::{Call, Client, REVISIONS, Task, Topic};
use mesh_runtime::Action;

impl Client {
    /// Asks for what is wanted, as many at a time as may be.
    pub(super) fn ask(&mut self) {
        if !self.link.is_up() {
            return;
        }
        let now = self.now;
        let told = self.is_told();
        let mut under_way = self.asks.values().filter(|ask| ask.call.is_some()).count();
        let mut by_provider: BTreeMap<String, usize> = BTreeMap::new();
        for ask in self.asks.values().filter(|ask| ask.call.is_some()) {
            *by_provider.entry(ask.provider.clone()).or_default() += 1;
        }
        let wanted: Vec<Asked> = self
            .asks
            .iter()
            .filter(|(_, ask)| ask.is_wanted(now, told))
            .map(|(asked, _)| asked.clone())
            .collect();
        for asked in wanted {
            if under_way >= MOST {
                break;
            }
            let Some(ask) = self.asks.get(&asked) else { continue };
            let (verb, provider) = (ask.verb.clone(), ask.provider.clone());
            let mine = by_provider.entry(provider.clone()).or_default();
            if self.providers.room(&provider, *mine, now) == 0 {
                continue;
            }
            *mine += 1;
            under_way += 1;
            let body = asks::request(&self.settings.node, &asked);
            let message = Outgoing { subject: verb, reply: None, headers: Vec::new(), body: body.into() };
            let number = self.call(message, Call::Verb(asked.clone()), PATIENCE);
            self.counters.asks += 1;
            if let Some(ask) = self.asks.get_mut(&asked) {
                ask.call = Some((number, now));
                ask.tries += 1;
            }
        }
        self.impatient();
    }

    /// Whether the bucket tells of new revisions: it was read, and is read, or is being listed again.
    fn is_told(&self) -> bool {
        self.was_read.contains(&REVISIONS)
            && matches!(self.follows[REVISIONS].reading(), Reading::Current | Reading::Listing)
    }

    /// An ask that is under way for long is one that waits, as far as its need is concerned.
    fn impatient(&mut self) {
        let now = self.now;
        for ((module, _, _), ask) in &mut self.asks {
            let long = ask.call.is_some_and(|(_, since)| since + PATIENT <= now);
            if long && ask.held.is_none() && ask.why.is_none() {
                ask.why = Some(Why::Silent);
                self.dirty.insert(module.clone());
            }
        }
    }

    /// When asking has something to do again.
    pub(super) fn ask_deadline(&self) -> Option<Duration> {
        if !self.link.is_up() {
            return None;
        }
        let told = self.is_told();
        let under_way: BTreeSet<&str> =
            self.asks.values().filter(|ask| ask.call.is_some()).map(|ask| ask.provider.as_str()).collect();
        let room = self.asks.values().filter(|ask| ask.call.is_some()).count() < MOST;
        let mut first: Option<Duration> = None;
        let mut at = |time: Duration| first = Some(first.map_or(time, |first| first.min(time)));
        for ask in self.asks.values() {
            if let Some((_, since)) = ask.call {
                if ask.held.is_none() && ask.why.is_none() {
                    at(since + PATIENT);
                }
                continue;
            }
            let until = self.providers.0.get(&ask.provider).map(|provider| provider.until);
            let is_free = until.is_none_or(|until| until <= self.now);
            let busy =
                self.providers.0.contains_key(&ask.provider) && under_way.contains(ask.provider.as_str());
            if busy || !room {
                continue;
            }
            let wants = match &ask.held {
                None => Some(ask.not_before),
                Some(held) if ask.newest > held.revision || ask.needs_bytes && held.given.is_none() => {
                    Some(ask.not_before)
                }
                Some(_) if !told => ask.again.map(|again| again.max(ask.not_before)),
                Some(_) => None,
            };
            if let Some(wants) = wants {
                at(if is_free { wants } else { wants.max(until.unwrap_or_default()) });
            }
        }
        first
    }

    /// The bucket tells of a revision.
    pub(super) fn revision(&mut self, module: String, name: String, revision: u64) {
        let kinds = ["secret", "consumers"];
        for kind in kinds {
            let asked_name = match (kind, name.strip_prefix("consumers:")) {
                ("consumers", Some(provision)) => provision.to_owned(),
                ("secret", None) => name.clone(),
                _ => continue,
            };
            if let Some(ask) = self.asks.get_mut(&(module.clone(), kind.to_owned(), asked_name)) {
                let is_news = ask.held.as_ref().is_none_or(|held| revision > held.revision);
                if is_news && revision != ask.newest {
                    // Whatever was refused before, there is something now.
                    ask.not_before = Duration::ZERO;
                    ask.refusals = 0;
                }
                ask.newest = revision;
            }
        }
        self.revisions.insert((module, name), revision);
    }

    pub(super) fn verb_answered(&mut self, asked: &Asked, no_responders: bool, failed: bool, body: &[u8]) {
        if no_responders {
            return self.verb_failed(asked, Why::NoResponder, "no responders");
        }
        let sequence = self.declaration.as_ref().map_or(0, |(_, declaration)| declaration.sequence);
        let answer = asks::parse(&self.settings.node, asked, body, failed, sequence);
        let own_place = self.own_place();
        let jitter = self.jitter();
        let now = self.now;
        let Some(ask) = self.asks.get_mut(asked) else { return };
        ask.call = None;
        self.providers.answered(&ask.provider.clone());
        self.dirty.insert(asked.0.clone());
        match answer {
            Answer::Value(value, again_after) => {
                let older = ask.held.as_ref().is_some_and(|held| held.revision > value.revision);
                ask.refusals = 0;
                // Give or take a fifth, by the node's own place, so that not all nodes ask at once.
                ask.again =
                    Some(now + again_after.max(Duration::from_secs(1)).mul_f64(0.8 + own_place * 0.4));
                if older || value.revision < ask.newest {
                    // The bucket knows of a newer one, which the vault does not give yet.
                    ask.not_before = now + backoff(0, jitter);
                    "an older revision than known".clone_into(&mut ask.last);
                    if older {
                        return;
                    }
                }
                ask.newest = ask.newest.max(value.revision);
                "the value".clone_into(&mut ask.last);
                ask.needs_bytes = false;
                ask.why = None;
                ask.held = Some(value);
            }
            Answer::Refused { drop, why, words } => {
                ask.not_before = now + backoff(ask.refusals, jitter);
                ask.refusals = ask.refusals.saturating_add(1);
                ask.last.clone_from(&words);
                ask.why = Some(why);
                let was_held = drop && ask.held.take().is_some();
                let key = format!("{}:{}", asked.1, asked.2);
                let line = format!("{key} of {}: {words}", asked.0);
                self.notice(Level::Warn, Topic::Verb, &key, &line);
                if was_held {
                    self.forget_done(&asked.0);
                }
                // Said with each refusal: the host may have been away the last time, or this program.
                if drop {
                    self.drop_copy(&asked.0, &key);
                }
            }
            Answer::Nonsense(words) => {
                ask.not_before = now + backoff(ask.refusals, jitter);
                ask.refusals = ask.refusals.saturating_add(1);
                ask.last.clone_from(&words);
                ask.why = Some(Why::Nonsense);
                let line =
                    format!("{} answers {}:{} of {} with {words}", ask.verb, asked.1, asked.2, asked.0);
                self.notice(Level::Warn, Topic::Verb, "nonsense", &line);
            }
        }
    }

    pub(super) fn verb_silent(&mut self, asked: &Asked) {
        self.verb_failed(asked, Why::Silent, "no answer within 5 s");
    }

    pub(super) fn verb_denied(&mut self, asked: &Asked) {
        self.verb_failed(asked, Why::Refused, "the bus denies the right to ask");
    }

    /// The provider is away.
    fn verb_failed(&mut self, asked: &Asked, why: Why, words: &str) {
        let jitter = self.jitter();
        let now = self.now;
        let Some(ask) = self.asks.get_mut(asked) else { return };
        ask.call = None;
        ask.why = Some(why);
        words.clone_into(&mut ask.last);
        let (provider, verb) = (ask.provider.clone(), ask.verb.clone());
        self.providers.failed(&provider, jitter, now);
        self.dirty.insert(asked.0.clone());
        self.notice(Level::Warn, Topic::Verb, &verb, &format!("{verb}: {words}; asking again"));
    }

    /// What was applied of a module had a value that is refused now.
    fn forget_done(&mut self, module: &str) {
        if self.only_looks() {
            return;
        }
        if let Some(remembered) = self.settings.memory.modules.get_mut(module) {
            remembered.done = None;
        }
        if let Some(module) = self.modules.get_mut(module) {
            module.with_host = None;
        }
    }

    /// The vault refused what the host may have a copy of: it is wiped there.
    fn drop_copy(&mut self, module: &str, key: &str) {
        if self.only_looks() {
            return;
        }
        let request = Request::Drop(BTreeMap::from([(module.to_owned(), vec![key.to_owned()])]));
        let memory = Some(self.settings.memory.to_text());
        self.host(&request, memory);
    }

    /// Sends a request to the host; its call's number.
    pub(super) fn host(&mut self, request: &Request, memory: Option<String>) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        let request = serde_json::to_vec(request).expect("a request is JSON");
        self.actions.push(Action::Do(Task::HandOver { call, memory, request }));
        call
    }

    /// The revisions of the secrets of a module that are held.
    pub(super) fn held_revisions(&self, module: &str) -> BTreeMap<String, u64> {
        let of = self.asks.iter().filter(|((of, _, _), _)| of == module);
        of.filter_map(|((_, kind, name), ask)| {
            let Held { revision, .. } = ask.held.as_ref()?;
            let name = if kind == "consumers" { consumers_name(name) } else { name.clone() };
            Some((name, *revision))
        })
        .collect()
    }
}

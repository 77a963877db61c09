//! Lists the keys of a bucket in order, after a given key, one piece at a time.
//!
//! The bus gives its list in pages of 100 000 keys, sorted by their bytes, each from an offset on. A place far down the list is
//! found by halving, and remembered for the next page. Pages overlap by one key: if that has moved, keys
//! were removed or added meanwhile, and the place is looked for again. A list that lacks a key is never given.
//!
//! Bytes that are not UTF-8 come as U+FFFD, so that keys with them stand in another order than the bus has. Keys that
//! begin alike up to there are a run, which is given whole or not at all.

use mesh_jetstream::bucket::Kv;
use mesh_jetstream::keys::{self, KeyPage};
use mesh_jetstream::message::Request;
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::Cause;

/// How often a place is looked for.
const MAX_TRIES: u32 = 16;

/// A piece of the list of a bucket's keys, and the state of the bucket it was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Listed {
    /// Sorted by bytes. Keys that are not UTF-8 may look alike and are then repeated. The list of one node also has
    /// the node's token itself, which may or may not be a key: reading it tells.
    pub(in crate::seat) keys: Vec<String>,
    /// Whether there are no keys after these.
    pub(in crate::seat) is_last: bool,
    /// How many bytes a message of the bucket takes on average; 0 if that is not known.
    pub(in crate::seat) mean_bytes: usize,
    /// The sequence of the bucket's last write.
    pub(in crate::seat) last_sequence: u64,
    /// Its time, as the server wrote it.
    pub(in crate::seat) last_at: Option<String>,
    /// The state to compare with later.
    pub(in crate::seat) state: Option<State>,
    /// The place of the piece in the server's list, if that has several pages: its first key and its offset.
    pub(in crate::seat) place: Option<(String, usize)>,
}

/// Lists the keys of a bucket.
#[derive(Debug)]
pub(in crate::seat) struct KeyLister {
    bucket: Bucket,
    node_token: Option<String>,
    /// Keys up to this one have been given, or are not asked for.
    after: Option<String>,
    offset: usize,
    /// At this offset the list begins with a key that is not after `after`; at `high` it begins with one that is.
    low: usize,
    high: Option<usize>,
    /// Whether the place has been found.
    is_found: bool,
    /// The end of the page before, which is given with the next one: its last key is that one's first, and it may be
    /// a run that goes on there.
    carried: Vec<String>,
    tries: u32,
    asked: bool,
    piece: Option<Listed>,
    is_done: bool,
}

impl KeyLister {
    /// Lists `bucket` after `after`, and only the keys of the node `node_token` if there is one. It looks at an offset
    /// first, where the place is likely to be.
    pub(in crate::seat) fn new(
        bucket: Bucket,
        node_token: Option<String>,
        after: Option<&str>,
        offset: usize,
    ) -> Self {
        KeyLister {
            bucket,
            node_token,
            after: after.map(str::to_owned),
            offset,
            low: 0,
            high: None,
            is_found: false,
            carried: Vec::new(),
            tries: 0,
            asked: false,
            piece: None,
            is_done: false,
        }
    }

    /// The next call, if there is one to send now.
    pub(in crate::seat) fn next_call(&mut self) -> Option<Request> {
        if self.asked || self.is_done || self.piece.is_some() {
            return None;
        }
        self.asked = true;
        Some(keys::list(Kv::new(self.bucket.name()), self.node_token.as_deref(), self.offset))
    }

    /// Takes a page.
    pub(in crate::seat) fn on_reply(&mut self, mut page: KeyPage) -> Result<(), Cause> {
        self.asked = false;
        let mut keys = std::mem::take(&mut page.keys);
        let (offset, count) = (self.offset, keys.len());
        let is_last = offset + count >= page.total;
        let is_broken = match self.carried.last() {
            Some(last) => keys.first() != Some(last),
            None => offset > 0 && count == 0,
        };
        if is_broken || !is_last && count < 2 {
            (self.is_found, self.low, self.high) = (false, 0, None);
            self.carried.clear();
            return self.look_at(0);
        }
        if !self.is_found {
            // The keys of the first run that are before this page are not known.
            keys.drain(..if offset > 0 { run_at_beginning(&keys) } else { 0 });
            let is_behind = |key: &String| self.after.as_ref().is_none_or(|after| key > after);
            if offset > 0 && keys.first().is_none_or(is_behind) {
                self.high = Some(offset);
                return self.look_between(count, page.total);
            }
            if !is_last && run_at_end(&keys) == 0 && !keys.last().is_some_and(is_behind) {
                self.low = offset + count - 1;
                return self.look_between(count, page.total);
            }
            self.is_found = true;
        }
        self.carried.pop();
        self.carried.append(&mut keys);
        let rest = if is_last { 0 } else { run_at_end(&self.carried).max(1) };
        let rest = self.carried.split_off(self.carried.len() - rest);
        let mut keys = std::mem::replace(&mut self.carried, rest);
        keys.sort_unstable();
        keys.retain(|key| self.after.as_ref().is_none_or(|after| key > after));
        // The filter matches the keys under the node's token, not the token itself as a key.
        let token = self.node_token.as_ref().filter(|_| offset == 0);
        if let Some(token) = token.filter(|token| self.after.as_ref().is_none_or(|after| *token > after)) {
            keys.insert(0, token.clone());
        }
        self.is_done = is_last;
        self.offset = offset + count - usize::from(!is_last);
        if let Some(last) = keys.last() {
            self.after = Some(last.clone());
        }
        if is_last || !keys.is_empty() {
            let first = keys.first().filter(|_| page.total > count);
            let place = first.map(|first| (first.clone(), offset));
            let KeyPage { mean_bytes, last_sequence, last_at, state, .. } = page;
            self.piece = Some(Listed { keys, is_last, mean_bytes, last_sequence, last_at, state, place });
        }
        Ok(())
    }

    /// Looks for the place in the middle of where it may be, or where all that is left fits a page of `count` keys.
    fn look_between(&mut self, count: usize, total: usize) -> Result<(), Cause> {
        let high = self.high.unwrap_or(total);
        if self.low >= high {
            (self.low, self.high) = (0, None);
            return self.look_at(0);
        }
        self.look_at(if high - self.low <= count { self.low } else { self.low.midpoint(high) })
    }

    const fn look_at(&mut self, offset: usize) -> Result<(), Cause> {
        self.offset = offset;
        self.tries += 1;
        if self.tries > MAX_TRIES { Err(Cause::Unsteady) } else { Ok(()) }
    }

    /// The next piece, once.
    pub(in crate::seat) const fn take(&mut self) -> Option<Listed> {
        self.piece.take()
    }
}

/// Up to where a key is ASCII, if it is not to its end.
fn ascii_beginning(key: &str) -> Option<&str> {
    let end = key.find(|c: char| !c.is_ascii())?;
    Some(&key[..end])
}

/// Whether two keys are in one run.
fn are_alike(beginning: &str, key: &str) -> bool {
    ascii_beginning(key) == Some(beginning)
}

/// How many keys at the beginning, or at the end, are of one run.
fn run_at_beginning(keys: &[String]) -> usize {
    let Some(beginning) = keys.first().and_then(|key| ascii_beginning(key)) else { return 0 };
    keys.iter().take_while(|key| are_alike(beginning, key)).count()
}

fn run_at_end(keys: &[String]) -> usize {
    let Some(beginning) = keys.last().and_then(|key| ascii_beginning(key)) else { return 0 };
    keys.iter().rev().take_while(|key| are_alike(beginning, key)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(keys: &[&str], total: usize) -> KeyPage {
        KeyPage {
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            total,
            subjects: None,
            mean_bytes: 0,
            last_sequence: 9,
            last_at: None,
            state: None,
        }
    }

    fn offset(request: &Request) -> usize {
        let body = serde_json::from_slice::<serde_json::Value>(&request.body).unwrap();
        usize::try_from(body["offset"].as_u64().unwrap()).unwrap()
    }

    /// All keys that are listed from a server with pages of `page` keys, and how many pages were requested.
    fn listed(all: &[Vec<u8>], a_page: usize, after: Option<&str>, hint: usize) -> (Vec<String>, usize) {
        let shown = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
        let mut lister = KeyLister::new(Bucket::Needs, None, after, hint);
        let (mut keys, mut pages) = (Vec::new(), 0);
        while let Some(request) = lister.next_call() {
            pages += 1;
            let from = offset(&request).min(all.len());
            let here: Vec<String> = all[from..(from + a_page).min(all.len())].iter().map(shown).collect();
            let here: Vec<&str> = here.iter().map(String::as_str).collect();
            lister.on_reply(page(&here, all.len())).unwrap();
            if let Some(piece) = lister.take() {
                keys.extend(piece.keys);
            }
        }
        (keys, pages)
    }

    #[test]
    fn a_list_follows_its_pages_with_one_key_of_overlap() {
        let mut lister = KeyLister::new(Bucket::Needs, None, None, 0);
        assert_eq!(offset(&lister.next_call().unwrap()), 0);
        assert_eq!(lister.next_call(), None, "one request at a time");
        lister.on_reply(page(&["a", "b", "c"], 5)).unwrap();
        let first = lister.take().unwrap();
        assert_eq!((first.keys, first.is_last), (vec!["a".to_owned(), "b".to_owned()], false));
        assert_eq!(offset(&lister.next_call().unwrap()), 2);
        lister.on_reply(page(&["c", "d", "e"], 5)).unwrap();
        let second = lister.take().unwrap();
        assert_eq!((second.keys, second.is_last), (["c", "d", "e"].map(str::to_owned).to_vec(), true));
        assert_eq!(lister.next_call(), None);
    }

    #[test]
    fn the_list_of_a_node_holds_its_token_as_a_key_that_may_be_there() {
        let mut lister = KeyLister::new(Bucket::Needs, Some("n1".to_owned()), None, 0);
        lister.next_call();
        lister.on_reply(page(&["n1.a", "n1.web.port.http"], 2)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["n1", "n1.a", "n1.web.port.http"]);
        let mut lister = KeyLister::new(Bucket::Needs, Some("n1".to_owned()), Some("n1.a"), 0);
        lister.next_call();
        lister.on_reply(page(&["n1.a", "n1.web.port.http"], 2)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["n1.web.port.http"]);
    }

    #[test]
    fn a_place_is_looked_for_again_when_keys_moved_between_pages() {
        let mut lister = KeyLister::new(Bucket::Needs, None, None, 0);
        lister.next_call();
        lister.on_reply(page(&["a", "b", "c"], 5)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["a", "b"]);
        lister.next_call();
        // "a" was removed: the page at offset 2 begins with "d", and without the overlap nobody would know.
        lister.on_reply(page(&["d", "e"], 4)).unwrap();
        assert_eq!(offset(&lister.next_call().unwrap()), 0);
        lister.on_reply(page(&["b", "c", "d", "e"], 4)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["c", "d", "e"]);
    }

    #[test]
    fn a_list_that_never_holds_still_is_an_error() {
        let mut lister = KeyLister::new(Bucket::Needs, None, None, 0);
        let mut outcome = Ok(());
        for round in 0..4 * MAX_TRIES {
            lister.next_call();
            outcome = lister.on_reply(page(if round % 2 == 0 { &["a", "b"] } else { &["x"] }, 9));
            lister.take();
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(Cause::Unsteady));
    }

    #[test]
    fn a_place_far_behind_is_found_by_halving_and_at_once_where_it_is_known() {
        let all: Vec<Vec<u8>> = (0..1_000).map(|at| format!("k{at:04}").into_bytes()).collect();
        let (keys, pages) = listed(&all, 10, Some("k0985"), 0);
        assert_eq!((keys.len(), keys[0].as_str()), (14, "k0986"));
        assert!(pages < 14, "{pages} pages");
        assert_eq!(listed(&all, 10, Some("k0985"), 980).1, 3);
    }

    proptest! {
        #[test]
        fn each_key_behind_the_place_is_given_once_in_order(
            keys in proptest::collection::btree_set(
                proptest::collection::vec(prop::sample::select(&b"ab.\xc3\xa9\xff\xf0"[..]), 1..4), 0..60),
            a_page in 2..9_usize,
            after in prop::option::of(proptest::collection::vec(prop::sample::select(&b"ab.\xc3\xa9\xff"[..]), 1..4)),
            hint in 0..60_usize,
        ) {
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let after = after.map(|after| String::from_utf8_lossy(&after).into_owned());
            let mut expected: Vec<String> =
                keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
            expected.retain(|key| after.as_ref().is_none_or(|after| key > after));
            expected.sort();
            let hint = if hint < keys.len() { hint } else { 0 };
            prop_assert_eq!(listed(&keys, a_page, after.as_deref(), hint).0, expected);
        }
    }
}

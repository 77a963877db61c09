//! The list of a bucket's keys. A list that is not whole is an error, never a short list.

use crate::seat::failure::Cause;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::keys;
use mesh_jetstream::keys::KeyPage;
use mesh_jetstream::message::Request;
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;

/// How often a list is begun again because the bucket changed between its pages.
const MAX_RESTARTS: u32 = 3;

/// The whole list of a bucket's keys, and the state of the bucket it was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Listed {
    /// Sorted by bytes. Keys that are not UTF-8 may look alike and then stand as often as there are. In the list of
    /// one node is the node's token too, which may or may not be a key: reading it tells.
    pub(in crate::seat) keys: Vec<String>,
    /// How many bytes a message of the bucket takes on average; 0 if that is not known.
    pub(in crate::seat) mean_bytes: usize,
    /// The sequence of the bucket's last write.
    pub(in crate::seat) last_sequence: u64,
    /// Its time, in the bus's words.
    pub(in crate::seat) last_at: Option<String>,
    /// What tells whether the bucket has changed since.
    pub(in crate::seat) state: Option<State>,
}

/// Lists the keys of a bucket, which the bus gives in pages.
#[derive(Debug)]
pub(in crate::seat) struct KeyLister {
    bucket: Bucket,
    node_token: Option<String>,
    keys: Vec<String>,
    offset: usize,
    asked: bool,
    restarts: u32,
    done: Option<Listed>,
}

impl KeyLister {
    /// Lists `bucket`, only the keys under the token `node_token` if there is one.
    pub(in crate::seat) const fn new(bucket: Bucket, node_token: Option<String>) -> Self {
        KeyLister { bucket, node_token, keys: Vec::new(), offset: 0, asked: false, restarts: 0, done: None }
    }

    /// The next request to send, if there is one to send now.
    pub(in crate::seat) fn next_call(&mut self) -> Option<Request> {
        if self.asked || self.done.is_some() {
            return None;
        }
        self.asked = true;
        Some(keys::list(Kv::new(self.bucket.name()), self.node_token.as_deref(), self.offset))
    }

    /// Takes a page. Pages after the first begin with the last key of the page before: if that key has moved, keys
    /// were removed or added meanwhile, one could be missing, and the list begins again.
    pub(in crate::seat) fn on_reply(&mut self, page: KeyPage) -> Result<(), Cause> {
        self.asked = false;
        let page_starts_where_the_last_ended = match (self.keys.last(), page.keys.first()) {
            (Some(last), first) => first == Some(last),
            (None, _) => true,
        };
        let reached = self.offset + page.keys.len();
        if !page_starts_where_the_last_ended || (reached < page.total && page.keys.len() < 2) {
            self.restarts += 1;
            if self.restarts > MAX_RESTARTS {
                return Err(Cause::Unsteady);
            }
            self.keys.clear();
            self.offset = 0;
            return Ok(());
        }
        let overlap = usize::from(!self.keys.is_empty());
        self.keys.extend(page.keys.into_iter().skip(overlap));
        if reached < page.total {
            self.offset = reached - 1;
        } else {
            let mut keys = std::mem::take(&mut self.keys);
            // The filter of a node's keys matches what is under its token, not the token as a whole key.
            keys.extend(self.node_token.clone());
            keys.sort_unstable();
            let KeyPage { mean_bytes, last_sequence, last_at, state, .. } = page;
            self.done = Some(Listed { keys, mean_bytes, last_sequence, last_at, state });
        }
        Ok(())
    }

    /// The whole list, once.
    pub(in crate::seat) const fn take(&mut self) -> Option<Listed> {
        self.done.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[&str], total: usize) -> KeyPage {
        KeyPage {
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            total,
            mean_bytes: 0,
            last_sequence: 9,
            last_at: None,
            state: None,
        }
    }

    fn offset(request: &Request) -> u64 {
        serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()["offset"].as_u64().unwrap()
    }

    #[test]
    fn a_list_follows_its_pages_with_one_key_of_overlap() {
        let mut lister = KeyLister::new(Bucket::Needs, None);
        assert_eq!(offset(&lister.next_call().unwrap()), 0);
        assert_eq!(lister.next_call(), None, "one request at a time");
        lister.on_reply(page(&["a", "b", "c"], 5)).unwrap();
        assert_eq!(offset(&lister.next_call().unwrap()), 2);
        lister.on_reply(page(&["c", "d", "e"], 5)).unwrap();
        assert_eq!(lister.next_call(), None);
        assert_eq!(lister.take().unwrap().keys, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn the_list_of_a_node_holds_its_token_as_a_key_that_may_be_there() {
        let mut lister = KeyLister::new(Bucket::Needs, Some("n1".to_owned()));
        lister.next_call();
        lister.on_reply(page(&["n1.web.port.http", "n1.a"], 2)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["n1", "n1.a", "n1.web.port.http"]);
    }

    #[test]
    fn a_list_begins_again_when_keys_moved_between_its_pages() {
        let mut lister = KeyLister::new(Bucket::Needs, None);
        lister.next_call();
        lister.on_reply(page(&["a", "b", "c"], 5)).unwrap();
        lister.next_call();
        // "a" was removed: the page at offset 2 begins with "d", and without the overlap nobody would know.
        lister.on_reply(page(&["d", "e"], 4)).unwrap();
        assert_eq!(offset(&lister.next_call().unwrap()), 0);
        lister.on_reply(page(&["b", "c", "d", "e"], 4)).unwrap();
        assert_eq!(lister.take().unwrap().keys, ["b", "c", "d", "e"]);
    }

    #[test]
    fn a_list_that_never_holds_still_is_an_error() {
        let mut lister = KeyLister::new(Bucket::Needs, None);
        let mut outcome = Ok(());
        for round in 0..10 {
            lister.next_call();
            outcome = lister.on_reply(page(if round % 2 == 0 { &["a", "b"] } else { &["x"] }, 9));
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(Cause::Unsteady));
        assert_eq!(lister.take(), None);
    }
}

//! A page of a response. Entries are rendered one by one, so that a page ends before it exceeds a message.

use super::type_name::response_type;
use crate::request::What;
use mesh_service::identity::Identity;
use mesh_service::json::json;

/// How many malformed keys a page lists. It ends before it would list more, as it does for entries.
pub const MAX_MALFORMED_LISTED: usize = 100;

/// The size of everything in a response except its entries: field names, numbers, the seat's id. A generous upper
/// bound.
const ENVELOPE_BYTES: usize = 2 * 1024;

/// A page of a response while it is filled, in the order of the keys.
#[derive(Debug)]
pub struct Page {
    budget: usize,
    limit: usize,
    used: usize,
    entries: Vec<String>,
    malformed: Vec<String>,
    malformed_total: usize,
    last_place: Option<String>,
    more: bool,
}

impl Page {
    /// An empty page of at most `limit` entries and `budget` bytes in all.
    pub fn new(limit: usize, budget: usize) -> Self {
        Page {
            budget,
            limit,
            used: ENVELOPE_BYTES,
            entries: Vec::new(),
            malformed: Vec::new(),
            malformed_total: 0,
            last_place: None,
            more: false,
        }
    }

    /// Whether an item of these rendered sizes fits an empty page.
    pub fn could_hold(&self, place: &str, bytes: usize) -> bool {
        ENVELOPE_BYTES + bytes + json_size(place) <= self.budget
    }

    /// Adds what is at `place`: an entry, malformed keys, or both. `false` means that the page is full and the item
    /// belongs to the next one. An item always fits an empty page.
    #[must_use]
    pub fn add(&mut self, place: &str, entry: Option<String>, complaints: Vec<String>) -> bool {
        let listed = complaints.len().min(MAX_MALFORMED_LISTED - self.malformed.len());
        let cost: usize = entry.iter().chain(&complaints[..listed]).map(|text| text.len() + 1).sum();
        let full = self.used + cost + json_size(place) > self.budget
            || (entry.is_some() && self.entries.len() >= self.limit)
            || listed < complaints.len();
        if full && !self.is_empty() && self.end_before(place) {
            return false;
        }
        // Endless keys that look alike would exceed the page: those that do not fit are only counted.
        let (listed, cost) = if full && self.ends_with(place) { (0, 0) } else { (listed, cost) };
        self.used += cost;
        self.entries.extend(entry);
        self.malformed_total += complaints.len();
        self.malformed.extend(complaints.into_iter().take(listed));
        self.pass(place);
        true
    }

    /// Counts malformed keys at the last place that are not listed because they look alike.
    pub const fn count_unlisted(&mut self, malformed: usize) {
        self.malformed_total += malformed;
    }

    /// Records that everything up to `place` was read.
    pub fn pass(&mut self, place: &str) {
        self.last_place = Some(place.to_owned());
    }

    /// Ends the page after `place`: there may be more.
    pub fn go_on_behind(&mut self, place: &str) {
        self.pass(place);
        self.more = true;
    }

    /// Ends the page before `place`; `false` if it cannot end there, because it has no place yet or its last place
    /// looks the same.
    #[must_use]
    pub fn end_before(&mut self, place: &str) -> bool {
        let may_end = self.last_place.is_some() && !self.ends_with(place);
        self.more |= may_end;
        may_end
    }

    /// Whether `place` looks like the last one. Two keys can look alike if their bytes are shown as U+FFFD. A page
    /// never ends between them, because the next one starts after both.
    fn ends_with(&self, place: &str) -> bool {
        self.last_place.as_deref() == Some(place)
    }

    /// Whether it has no entry and no malformed key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.malformed.is_empty()
    }

    /// Whether it has a malformed key or value.
    pub const fn has_malformed(&self) -> bool {
        self.malformed_total > 0
    }

    /// Whether there is more after the last place.
    pub const fn leaves_rest(&self) -> bool {
        self.more
    }

    /// Whether it has no entry.
    pub fn has_no_entries(&self) -> bool {
        self.entries.is_empty()
    }

    /// The response. `as_of` is JSON, because some queries cover several buckets.
    pub fn to_json(&self, what: What, ok: Option<bool>, as_of: &str, seat: &Identity) -> String {
        let word = what.word();
        let ok = ok.map_or_else(String::new, |ok| format!(r#","ok":{ok}"#));
        let next = match &self.last_place {
            Some(place) if self.more => format!(r#","next":{}"#, json(place)),
            _ => String::new(),
        };
        [
            &format!(r#"{{"type":"{}","what":"{word}"{ok},"entries":["#, response_type(word)),
            self.entries.join(",").as_str(),
            r#"],"malformed":["#,
            self.malformed.join(",").as_str(),
            &format!(
                r#"],"malformed_total":{}{next},"as_of":{as_of},"seat":{}}}"#,
                self.malformed_total,
                json(seat)
            ),
        ]
        .concat()
    }
}

/// The size of `text` as a JSON string, in bytes.
fn json_size(text: &str) -> usize {
    json(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::AsOf;

    #[test]
    fn a_page_ends_at_its_limit_and_says_where_to_go_on() {
        let seat = Identity { id: "i".to_owned(), version: "0.1.0".to_owned() };
        let mut page = Page::new(2, 64 * 1024);
        assert!(page.add("a", Some("1".to_owned()), vec![]));
        assert!(page.add("b", None, vec!["{}".to_owned()]));
        assert!(page.add("c", Some("2".to_owned()), vec![]));
        assert!(!page.add("d", Some("3".to_owned()), vec![]));
        let as_of = json(&AsOf { sequence: 7, at: None });
        assert_eq!(
            page.to_json(What::Needs, None, &as_of, &seat),
            r#"{"type":"io.mesh.provisioner.v1.needs_response","what":"needs","entries":[1,2],"malformed":[{}],"malformed_total":1,"next":"c","as_of":{"sequence":7},"seat":{"id":"i","version":"0.1.0"}}"#
        );
    }

    #[test]
    fn a_page_ends_before_it_outgrows_its_budget_but_always_gets_on() {
        let mut page = Page::new(100, ENVELOPE_BYTES + 100);
        assert!(page.add("a", Some("x".repeat(200)), vec![]), "an item always fits an empty page");
        assert!(!page.add("b", Some("y".to_owned()), vec![]));
        let mut page = Page::new(100, ENVELOPE_BYTES + 100);
        assert!(page.add("a", Some("x".repeat(50)), vec![]));
        assert!(page.add("b", Some("x".repeat(40)), vec![]));
        assert!(!page.add("c", Some("x".repeat(10)), vec![]));
    }

    #[test]
    fn a_page_ends_before_it_would_list_more_complaints_than_it_may() {
        let seat = Identity { id: "i".to_owned(), version: "0.1.0".to_owned() };
        let mut page = Page::new(1, 64 * 1024);
        for at in 0..99 {
            assert!(page.add(&format!("{at:03}"), None, vec!["0".to_owned()]));
        }
        assert!(page.add("x", Some("1".to_owned()), vec!["0".to_owned()]));
        assert!(!page.add("y", None, vec!["2".to_owned()]), "there is no room to list it");
        assert!(page.add("x", Some("3".to_owned()), vec!["4".to_owned()]), "the same place again");
        page.count_unlisted(2);
        let body = page.to_json(What::Needs, Some(false), "{}", &seat);
        assert!(body.contains(r#""ok":false,"entries":[1,3]"#), "{body}");
        assert!(body.contains(r#""malformed_total":103,"next":"x""#), "{body}");
        assert_eq!(body.matches("0,").count(), 99, "100 listed: {body}");
    }
}

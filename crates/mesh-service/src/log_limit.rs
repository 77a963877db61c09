//! Limits log lines to one a minute for each topic and text, with a count of those that were suppressed.
//!
//! Each topic has its own limit, so that a client that causes one kind of line without end hides no other kind.

use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// How many texts of one topic are remembered; all further ones share one entry.
const MAX_TEXTS: usize = 32;

/// Remembers when each line was last logged, and how often it was suppressed.
#[derive(Debug)]
pub struct LogLimiter<Topic> {
    topics: BTreeMap<Topic, BTreeMap<String, Logged>>,
}

#[derive(Debug)]
struct Logged {
    at: Duration,
    left_out: u64,
}

impl<Topic> Default for LogLimiter<Topic> {
    fn default() -> Self {
        LogLimiter { topics: BTreeMap::new() }
    }
}

impl<Topic: Copy + Ord> LogLimiter<Topic> {
    /// The line to log for `text`; `None` if a line of the same `topic` and `key` was logged within the last minute.
    /// A topic whose texts quote data from outside has one key for all of them.
    pub fn line(&mut self, topic: Topic, key: &str, text: &str, now: Duration) -> Option<String> {
        let keys = self.topics.entry(topic).or_default();
        if keys.len() >= MAX_TEXTS {
            keys.retain(|_, logged| now < logged.at + MINUTE);
        }
        let key = if keys.len() < MAX_TEXTS || keys.contains_key(key) { key } else { "" };
        let Some(logged) = keys.get_mut(key) else {
            keys.insert(key.to_owned(), Logged { at: now, left_out: 0 });
            return Some(text.to_owned());
        };
        if now < logged.at + MINUTE {
            logged.left_out += 1;
            return None;
        }
        let left_out = std::mem::take(&mut logged.left_out);
        logged.at = now;
        Some(match left_out {
            0 => text.to_owned(),
            left_out => format!("{text} (and {left_out} more like it since the last such line)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Topic {
        Lost,
        Errors,
        Writes,
    }

    #[test]
    fn the_same_line_is_logged_once_a_minute_with_a_count() {
        let mut limiter = LogLimiter::default();
        let mut overrun = |text: &str, at| limiter.line(Topic::Lost, "a", text, seconds(at));
        assert_eq!(overrun("first", 0).as_deref(), Some("first"));
        for _ in 0..1000 {
            assert_eq!(overrun("again", 59), None);
        }
        assert_eq!(
            overrun("later", 60).as_deref(),
            Some("later (and 1000 more like it since the last such line)")
        );
        assert_eq!(overrun("much later", 500).as_deref(), Some("much later"));
        assert_eq!(limiter.line(Topic::Lost, "b", "other", seconds(500)).as_deref(), Some("other"));
    }

    #[test]
    fn endless_new_texts_do_not_grow_it_and_hide_no_other_topic() {
        let mut limiter = LogLimiter::default();
        let mut logged = 0;
        for key in 0..10_000 {
            let line = limiter.line(Topic::Errors, &key.to_string(), "x", seconds(1));
            logged += usize::from(line.is_some());
        }
        assert!(logged <= MAX_TEXTS + 1, "{logged}");
        assert!(limiter.topics[&Topic::Errors].len() <= MAX_TEXTS + 1);
        assert_eq!(limiter.line(Topic::Writes, "a", "put", seconds(1)).as_deref(), Some("put"));
    }
}

//! Lines for the log, the same kind at most once a minute: what happens ten thousand times a second is said once,
//! with a count.

use super::action::Action;
use log::Level;
use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// How many kinds of lines are remembered; more than that share one.
const MAX_KINDS: usize = 64;

/// Remembers when each kind of line was last said, and how often it was not.
#[derive(Debug, Default)]
pub(super) struct Notices {
    kinds: BTreeMap<String, Kind>,
}

#[derive(Debug)]
struct Kind {
    said: Duration,
    unsaid: u64,
}

impl Notices {
    /// Says `text`, unless a line of the same `kind` was said within the last minute.
    pub(super) fn say(&mut self, level: Level, kind: &str, text: &str, now: Duration) -> Option<Action> {
        if self.kinds.len() >= MAX_KINDS {
            self.kinds.retain(|_, kind| now < kind.said + MINUTE);
        }
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(kind) { kind } else { "" };
        let Some(known) = self.kinds.get_mut(kind) else {
            self.kinds.insert(kind.to_owned(), Kind { said: now, unsaid: 0 });
            return Some(Action::Say(level, text.to_owned()));
        };
        if now < known.said + MINUTE {
            known.unsaid += 1;
            return None;
        }
        let unsaid = std::mem::take(&mut known.unsaid);
        known.said = now;
        let text = match unsaid {
            0 => text.to_owned(),
            unsaid => format!("{text} (and {unsaid} more like it since it was last said)"),
        };
        Some(Action::Say(level, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn say(notices: &mut Notices, kind: &str, text: &str, at: u64) -> Option<String> {
        match notices.say(Level::Warn, kind, text, seconds(at))? {
            Action::Say(Level::Warn, text) => Some(text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_kind_is_said_once_a_minute_with_a_count() {
        let mut notices = Notices::default();
        assert_eq!(say(&mut notices, "a", "first", 0).as_deref(), Some("first"));
        for _ in 0..1000 {
            assert_eq!(say(&mut notices, "a", "again", 59), None);
        }
        assert_eq!(say(&mut notices, "b", "other", 59).as_deref(), Some("other"));
        assert_eq!(
            say(&mut notices, "a", "later", 60).as_deref(),
            Some("later (and 1000 more like it since it was last said)")
        );
        assert_eq!(say(&mut notices, "a", "much later", 500).as_deref(), Some("much later"));
    }

    #[test]
    fn endless_new_kinds_do_not_grow_it() {
        let mut notices = Notices::default();
        for kind in 0..10_000 {
            notices.say(Level::Warn, &kind.to_string(), "x", seconds(1));
        }
        assert!(notices.kinds.len() <= MAX_KINDS + 1);
    }
}

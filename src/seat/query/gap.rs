//! What makes a need a gap: nobody answers its kind, or its value has not come.

use crate::seat::read::cache::read_time;
use mesh_model::need_state::Wait;
use std::time::Duration;

/// A need may wait this long before that is not well: values take a moment to arrive.
const WAITED_TOO_LONG: Duration = Duration::from_secs(60);

/// Why a need is a gap.
#[derive(Debug)]
pub(super) enum Gap {
    /// The registry has no entry for its kind.
    Unanswered(Option<Wait>),
    /// Its node says that it waits.
    Waiting(Wait),
}

impl Gap {
    /// The gap of a need with this value; `None` if there is none.
    pub(super) fn of(kind_is_answered: bool, value: &[u8]) -> Option<Self> {
        let wait = Wait::read(value);
        if kind_is_answered { wait.map(Gap::Waiting) } else { Some(Gap::Unanswered(wait)) }
    }

    /// Its word in responses.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Gap::Unanswered(_) => "unanswered",
            Gap::Waiting(_) => "waiting",
        }
    }

    /// Why it waits, in the words of its node.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Gap::Unanswered(wait) => wait.as_ref()?.why.as_deref(),
            Gap::Waiting(wait) => wait.why.as_deref(),
        }
    }

    /// Whether it waits only since a moment ago. `at` is the time of the need's last write, `clock` the time since 1970.
    pub(super) fn is_young(&self, at: &str, clock: Duration) -> bool {
        let waits = matches!(self, Gap::Waiting(_));
        let written = read_time(at).and_then(|at| u64::try_from(at.unix_timestamp()).ok());
        waits && written.is_none_or(|written| clock <= Duration::from_secs(written) + WAITED_TOO_LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_well_for_a_minute_and_a_kind_without_an_answer_never() {
        let waiting = Gap::of(true, br#"{"state":"waiting","why":"silent"}"#).unwrap();
        assert_eq!((waiting.word(), waiting.why()), ("waiting", Some("silent")));
        let at = "2023-11-14T22:13:20.5Z";
        assert!(waiting.is_young(at, Duration::from_secs(1_700_000_060)));
        assert!(!waiting.is_young(at, Duration::from_secs(1_700_000_061)));
        let unanswered = Gap::of(false, b"1").unwrap();
        assert_eq!((unanswered.word(), unanswered.why()), ("unanswered", None));
        assert!(!unanswered.is_young(at, Duration::from_secs(1_700_000_000)));
        assert!(Gap::of(true, b"1").is_none());
    }
}

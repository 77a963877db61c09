//! Which other programs hold the seat: found by asking them, and forgotten when they no longer answer.
//!
//! An answer comes to the seat's private inbox, to which only services may publish, and whose subject nobody else knows.
//! So an answer is believed, while the question of a stranger is only a reason to ask.

use mesh_service::identity::Identity;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long answers to a question are awaited.
const WAIT: Duration = Duration::from_secs(2);

/// How often to ask while another program is known to hold the seat.
const ASK_AGAIN: Duration = Duration::from_secs(20);

/// How long after the last question a stranger's question may cause the next one.
const SOONEST: Duration = Duration::from_secs(2);

/// When one that has not answered since is forgotten: it missed two questions.
const FORGET: Duration = Duration::from_secs(50);

/// How many other holders are remembered.
const MAX_OTHERS: usize = 16;

/// Another program that holds the seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherSeat {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Seconds since it last answered.
    pub seen_seconds_ago: u64,
}

/// The other seats.
#[derive(Debug, Default)]
pub(super) struct OtherSeats {
    /// When to ping next; `None` while there is no connection.
    due: Option<Duration>,
    /// When the last question was sent.
    asked: Option<Duration>,
    /// Until when answers to it are awaited.
    ends: Option<Duration>,
    /// By id: the version, and when it last answered.
    seen: BTreeMap<String, (String, Duration)>,
}

impl OtherSeats {
    /// Requests a ping at once.
    pub(super) const fn request(&mut self, now: Duration) {
        self.due = Some(now);
    }

    /// Stops pinging and expects no responses.
    pub(super) const fn interrupt(&mut self) {
        self.due = None;
        self.ends = None;
    }

    /// When to ask, to await no more answers, or to forget one that no longer answers.
    pub(super) fn due(&self) -> Option<Duration> {
        let forget = self.seen.values().map(|(_, at)| *at + FORGET);
        self.due.into_iter().chain(self.ends).chain(forget).min()
    }

    /// Forgets those that no longer answer, and tells whether to ask now; the next time is due `every` later at the
    /// latest.
    pub(super) fn begin(&mut self, now: Duration, every: Duration) -> bool {
        self.seen.retain(|_, (_, at)| now < *at + FORGET);
        let begins = self.due.is_some_and(|due| now >= due);
        if begins {
            self.asked = Some(now);
            self.ends = Some(now + WAIT);
            self.due = Some(now + if self.seen.is_empty() { every } else { every.min(ASK_AGAIN) });
        }
        begins
    }

    /// Whether a ping still awaits answers.
    pub(super) const fn is_asking(&self) -> bool {
        self.ends.is_some()
    }

    /// Whether the answers to the last question are all there.
    pub(super) fn end(&mut self, now: Duration) -> bool {
        self.ends.take_if(|ends| now >= *ends).is_some()
    }

    /// Another program asks who holds the seat: it may be new, so the next question comes soon. One that is known asks
    /// because it was asked: two seats would ask each other without end.
    pub(super) fn hint(&mut self, id: &str, now: Duration) {
        if self.seen.contains_key(id) {
            return;
        }
        let soonest = self.asked.map_or(now, |asked| now.max(asked + SOONEST));
        self.due = self.due.map(|due| due.min(soonest));
    }

    /// Remembers another holder that answered; tells whether it is new.
    pub(super) fn note(&mut self, other: Identity, now: Duration) -> bool {
        let is_new = !self.seen.contains_key(&other.id);
        if is_new && self.seen.len() >= MAX_OTHERS {
            return false;
        }
        self.seen.insert(other.id, (other.version, now));
        self.due = self.due.map(|due| due.min(now + ASK_AGAIN));
        is_new
    }

    /// The other holders.
    pub(super) fn others(&self, now: Duration) -> Vec<OtherSeat> {
        let other = |(id, (version, at)): (&String, &(String, Duration))| OtherSeat {
            identity: Identity { id: id.clone(), version: version.clone() },
            seen_seconds_ago: now.saturating_sub(*at).as_secs(),
        };
        self.seen.iter().map(other).collect()
    }
}

/// The report of `other`, a new seat next to this one of version `own`.
pub(super) fn tell(other: &Identity, own: &str) -> String {
    let Identity { id, version } = other;
    if version == own {
        format!("other seats are running: {id}, the same version: one is enough")
    } else {
        format!(
            "other seats are running: {id}, version {version} next to {own}: they may write different registries, stop one of them"
        )
    }
}

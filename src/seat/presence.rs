//! Who else holds the seat: asked at the start and once an interval, and the answers collected for a moment.

use crate::wire::answer::Identity;
use crate::wire::service::NOBODY;
use std::time::Duration;

/// How long answers are collected.
const WAIT: Duration = Duration::from_secs(2);

/// How many other holders are remembered. Anybody may pose as one, so there must be an end.
const MAX_OTHERS: usize = 16;

/// What is known of other holders of the seat.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// When to ask next; `None` while there is no connection.
    due: Option<Duration>,
    /// When the answers to the last question are all there.
    ends: Option<Duration>,
    heard: Vec<Identity>,
    known: Vec<Identity>,
}

impl Presence {
    /// Wants to ask at once.
    pub(super) const fn request(&mut self, now: Duration) {
        self.due = Some(now);
    }

    /// Asks no more, and expects no answers.
    pub(super) const fn interrupt(&mut self) {
        self.due = None;
        self.ends = None;
    }

    /// When to ask, or to count the answers.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.into_iter().chain(self.ends).min()
    }

    /// Whether to ask now; the next time is due `every` later.
    pub(super) fn begin(&mut self, now: Duration, every: Duration) -> bool {
        let begins = self.due.is_some_and(|due| now >= due);
        if begins {
            self.due = Some(now + every);
            self.ends = Some(now + WAIT);
        }
        begins
    }

    /// Remembers another holder that answered.
    pub(super) fn note(&mut self, other: Identity) {
        if !self.heard.contains(&other) && self.heard.len() < MAX_OTHERS {
            self.heard.push(other);
        }
    }

    /// Remembers another holder that asked, and wants to ask too if that one may not know of us yet: it is new, so it
    /// may have come after our last question; or our last question was long ago. Nobody is no holder and only
    /// wants to hear us ask.
    pub(super) fn note_question(&mut self, other: Identity, now: Duration) {
        if other.id == NOBODY {
            self.due = Some(now);
            return;
        }
        if self.ends.is_none() || !(self.heard.contains(&other) || self.known.contains(&other)) {
            self.due = Some(now);
        }
        self.note(other);
    }

    /// Once the answers are all there: the holders that were not known before.
    pub(super) fn end(&mut self, now: Duration) -> Option<Vec<Identity>> {
        self.ends.filter(|ends| now >= *ends)?;
        self.ends = None;
        let heard = std::mem::take(&mut self.heard);
        let before = std::mem::replace(&mut self.known, heard);
        Some(self.known.iter().filter(|other| !before.contains(other)).cloned().collect())
    }

    /// The other holders that answered last time.
    pub(super) fn others(&self) -> Vec<Identity> {
        self.known.clone()
    }
}

/// What to say of `others` that are new beside the seat of version `own`: one line at most for those of the same
/// version, and one for the rest.
pub(super) fn tell(others: &[Identity], own: &str) -> Vec<String> {
    let (same, different): (Vec<_>, Vec<_>) = others.iter().partition(|other| other.version == own);
    let line = |those: Vec<&Identity>, name: fn(&Identity) -> String, end: String| {
        let names: Vec<String> = those.into_iter().map(name).collect();
        (!names.is_empty()).then(|| format!("the seat is also held by {}{end}", names.join(", ")))
    };
    let harmless = ", the same version: they do each other no harm, but one is enough".to_owned();
    let harmful = format!(" beside {own}: they may write different registries, stop one of them");
    let named = |other: &Identity| format!("{}, version {}", other.id, other.version);
    [line(same, |other| other.id.clone(), harmless), line(different, named, harmful)]
        .into_iter()
        .flatten()
        .collect()
}

//! How the work on one resource ended, and why. One function says what each end counts as.

use serde::{Deserialize, Serialize};

/// What was different on the machine although this host had written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drift {
    /// It was gone.
    Gone,
    /// Its content was changed.
    Content,
    /// Its mode was changed.
    Mode,
    /// Its owner was changed.
    Owner,
    /// It was there and did not run, or ran although it should not.
    State,
    /// It no longer started at boot, or did although it should not.
    Boot,
    /// Its fixed configuration was changed.
    Configuration,
}

impl Drift {
    /// The word of the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Content => "content",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::State => "state",
            Self::Boot => "boot",
            Self::Configuration => "configuration",
        }
    }
}

/// Why nothing was attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// This action or run-once container of the same module failed.
    Failed(String),
    /// The guard of an adopted node could not be put up.
    Guard(String),
    /// The found firewall is not supported, or does not answer.
    Firewall,
}

/// How the work on one resource ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not there and is now.
    Created,
    /// It was there in another form.
    Updated,
    /// The machine no longer held what this host last wrote; it is as it was written again.
    Corrected(Drift),
    /// As declared already; nothing was touched.
    Unchanged,
    /// A create-once file that is present.
    KeptFile,
    /// No longer declared, but a person's hand or data is in it: left where it is, the record dropped.
    KeptOrphan,
    /// On an adopted node: what was found is left as it was found. Says whether it is news.
    Held {
        /// Held for the first time.
        news: bool,
    },
    /// No longer declared, and what this host made is undone.
    Removed,
    /// The record is dropped, and nothing on the machine is touched.
    Forgotten,
    /// It waits for a value, an image, or a time.
    Waiting,
    /// This kind is not applied here, as with `--root`.
    Skipped,
    /// It could not be made as declared.
    Failed,
    /// Whoever knows did not answer, so nothing was decided.
    NotAnswered,
    /// Not attempted, since something before it failed.
    NotAttempted(Gate),
}

/// What an outcome counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whether the machine moved: the report's `changed`.
    pub moved: bool,
    /// Whether a resource that names this id in `restart-on` or `reload-on` has to follow.
    pub triggers: bool,
}

impl Outcome {
    /// The one place that says what counts as moved, and what triggers.
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Created | Self::Updated | Self::Corrected(_) => Effect { moved: true, triggers: true },
            Self::Removed | Self::Forgotten | Self::KeptOrphan => Effect { moved: true, triggers: false },
            Self::Unchanged
            | Self::KeptFile
            | Self::Held { .. }
            | Self::Waiting
            | Self::Skipped
            | Self::Failed
            | Self::NotAnswered
            | Self::NotAttempted(_) => Effect { moved: false, triggers: false },
        }
    }

    /// The word of the report.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Corrected(_) => "corrected",
            Self::Unchanged => "unchanged",
            Self::KeptFile | Self::KeptOrphan => "kept",
            Self::Held { .. } => "held",
            Self::Removed => "removed",
            Self::Forgotten => "forgotten",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::NotAnswered => "not-answered",
            Self::NotAttempted(_) => "not-attempted",
        }
    }

    /// Whether the resource is as declared now, or cleanly gone.
    pub const fn is_well(&self) -> bool {
        !matches!(self, Self::Failed | Self::NotAnswered | Self::NotAttempted(_) | Self::Waiting)
    }
}

/// An outcome with the words that explain it. No field ever holds content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How it ended.
    pub outcome: Outcome,
    /// One clause for people; empty when there is nothing to add.
    pub detail: String,
    /// What was there: a digest, mode, state or owner.
    pub from: Option<String>,
    /// What is there now, in the same form.
    pub to: Option<String>,
}

impl Verdict {
    /// A verdict that needs no explanation.
    pub const fn plain(outcome: Outcome) -> Self {
        Self { outcome, detail: String::new(), from: None, to: None }
    }

    /// A verdict with its explanation.
    pub fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { outcome, detail: detail.into(), from: None, to: None }
    }

    /// The same, with what was and what is.
    #[must_use]
    pub fn moved(mut self, from: impl Into<Option<String>>, to: impl Into<Option<String>>) -> Self {
        self.from = from.into();
        self.to = to.into();
        self
    }
}

/// Why a step or a question did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was tried and failed, or must not be done: what, why, and what to do next.
    Failed(String),
    /// Nobody answered in time, so nothing is known.
    NotAnswered(String),
}

impl Failure {
    /// The failure as the end of a resource.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Failed(text) => Verdict::new(Outcome::Failed, text),
            Self::NotAnswered(text) => Verdict::new(Outcome::NotAnswered, text),
        }
    }

    /// What went wrong, in words.
    pub fn text(&self) -> &str {
        match self {
            Self::Failed(text) | Self::NotAnswered(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Drift, Gate, Outcome};

    #[test]
    fn only_what_was_made_or_mended_triggers() {
        let triggers = [Outcome::Created, Outcome::Updated, Outcome::Corrected(Drift::Mode)];
        for outcome in triggers {
            assert!(outcome.effect().moved && outcome.effect().triggers, "{outcome:?}");
        }
        for outcome in [Outcome::Removed, Outcome::Forgotten, Outcome::KeptOrphan] {
            assert!(outcome.effect().moved && !outcome.effect().triggers, "{outcome:?}");
        }
        let still = [
            Outcome::Unchanged,
            Outcome::KeptFile,
            Outcome::Held { news: true },
            Outcome::Waiting,
            Outcome::Skipped,
            Outcome::Failed,
            Outcome::NotAnswered,
            Outcome::NotAttempted(Gate::Firewall),
        ];
        for outcome in still {
            assert!(!outcome.effect().moved && !outcome.effect().triggers, "{outcome:?}");
        }
    }
}

//! How the mesh stands: what the client writes of its node's needs, and what client and vault write of applies and
//! secrets (PROTOCOL.md, "Standing").
//!
//! No value and no digest of a secret is in any of it. Writing is exact; reading is lenient, for a newer program may
//! say more.

use std::collections::BTreeMap;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::assignment::Need;
use crate::digest::Digest;
use crate::keys::SealingKey;
use crate::resource::words;

words!(
    /// Why a need waits.
    Why, "reason to wait" {
        /// The registry says nothing of its kind.
        NoEntry = "no entry",
        /// The registry's entry is of a form that is not known here.
        EntryNotUnderstood = "entry not understood",
        /// Nobody answers the verb.
        NoResponder = "no responder",
        /// A program subscribes to the verb, and no response came in time.
        Silent = "silent",
        /// The answer is a refusal.
        Refused = "refused",
        /// A person has to give the secret, and has not.
        NotAcceptedYet = "not accepted yet",
        /// The bucket that holds the value does not exist.
        BucketMissing = "bucket missing",
        /// The bucket is there, and the value is not.
        ValueMissing = "value missing",
        /// The value is JSON `null`.
        Null = "null",
        /// The provider has not written yet what the consumer needs.
        ProviderHasNotAnswered = "provider has not answered",
        /// The assignment or the settings are not those that the declaration names.
        DigestDoesNotFit = "digest does not fit",
        /// The answer is not of the form that was agreed.
        Nonsense = "nonsense",
    }
);

/// The value at `<node>.<module>.<kind>.<name>` of the needs: how the need stands, and the plan's own fields of it.
///
/// Without tries and times, so that it is written only when something is different.
///
/// ```
/// use mesh_model::assignment::Need;
/// use mesh_model::standing::{NeedValue, Why};
/// let need = Need::new("secret", "db");
/// let value = NeedValue { why: Some(Why::Silent), answered_by: Some("mesh-vault"), plan: "0123456789abcdef", need: &need };
/// assert_eq!(
///     serde_json::to_string(&value).unwrap(),
///     r#"{"state":"waiting","why":"silent","provider":"mesh-vault","plan":"0123456789abcdef"}"#
/// );
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NeedValue<'n> {
    /// Why it waits; nothing: it is filled.
    pub why: Option<Why>,
    /// The module whose domain answers it, where the need does not name its provider itself.
    pub answered_by: Option<&'n str>,
    /// 16 hex digits over both digests of the module: [`crate::declaration::Part::plan`].
    pub plan: &'n str,
    /// The need, as the assignment has it.
    pub need: &'n Need,
}

impl Serialize for NeedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", if self.why.is_some() { "waiting" } else { "filled" })?;
        if let Some(why) = &self.why {
            map.serialize_entry("why", why)?;
        }
        if let (Some(module), None) = (self.answered_by, &self.need.provider) {
            map.serialize_entry("provider", module)?;
        }
        map.serialize_entry("plan", self.plan)?;
        self.need.write_plan_fields(&mut map)?;
        map.end()
    }
}

/// What others read of a need's value: how it stands.
///
/// ```
/// use mesh_model::standing::{NeedState, Why};
/// let text = r#"{"state":"waiting","why":"no entry","plan":"0123456789abcdef","weight":1.50}"#;
/// let state: NeedState = serde_json::from_str(text).unwrap();
/// assert_eq!(state.why.as_deref(), Some("no entry"));
/// assert!(!state.filled());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NeedState {
    /// `filled` or `waiting`.
    pub state: String,
    /// Why it waits, in the client's words: a newer client may know more of them.
    #[serde(default)]
    pub why: Option<String>,
    /// What it was planned by.
    #[serde(default)]
    pub plan: Option<String>,
}

impl NeedState {
    /// Whether a value is held.
    pub fn filled(&self) -> bool {
        self.state == "filled"
    }
}

/// The value at `<node>.<module>` of what is applied. It is written after the host reported success.
///
/// ```
/// use mesh_model::standing::Applied;
/// let digest = mesh_model::digest::Digest::of(b"{}");
/// let text = format!(r#"{{"version":"2.4.1","sequence":17,"assignment":"{digest}","settings":"{digest}","resources":5,"changed":1,"needs":5,"secrets":{{"session-key":3}}}}"#);
/// let applied: Applied = serde_json::from_str(&text).unwrap();
/// assert_eq!(applied.secrets["session-key"], 3);
/// assert_eq!(serde_json::to_string(&applied).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The version of the module's manifest.
    pub version: String,
    /// The sequence of the declaration.
    pub sequence: u64,
    /// The digest of the assignment.
    pub assignment: Digest,
    /// The digest of the settings.
    pub settings: Digest,
    /// How many resources the module has.
    pub resources: u64,
    /// How many of them moved.
    pub changed: u64,
    /// How many needs the module has, so that nobody takes one without needs for an orphan.
    pub needs: u64,
    /// The revision of each secret that went in; a provider's consumers as `consumers:<provision>`.
    pub secrets: BTreeMap<String, u64>,
}

words!(
    /// Where a secret came from.
    Origin, "origin of a secret" {
        /// The vault made it.
        Made = "made",
        /// A person gave it.
        Accepted = "accepted",
    }
);

/// The value at `<node>.<module>.<name>` of the secrets' revisions: says that there is a new one, never what it is.
///
/// ```
/// use mesh_model::standing::{Origin, Revision};
/// let text = r#"{"revision":3,"origin":"made","recovery":null}"#;
/// let revision: Revision = serde_json::from_str(text).unwrap();
/// assert_eq!((revision.revision, revision.origin), (3, Origin::Made));
/// assert_eq!(serde_json::to_string(&revision).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Only grows.
    pub revision: u64,
    /// Where the secret came from.
    pub origin: Origin,
    /// The key that opens its second copy.
    pub recovery: Option<SealingKey>,
}

/// The name under which the revision of a provider's consumers is kept.
pub fn consumers_name(provision: &str) -> String {
    format!("consumers:{provision}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{At, Json, Read};

    #[test]
    fn a_needs_value_has_the_plans_own_fields() {
        let text = r#"{"kind":"bound","name":"database","provision":"postgres","provider":{"node":"cellar","module":"postgres"},"weight":1.50}"#;
        let need = Need::read(&Json::parse(text).unwrap(), &At::Root).unwrap();
        let value = NeedValue { why: None, answered_by: Some("postgres"), plan: "p", need: &need };
        assert_eq!(
            serde_json::to_string(&value).unwrap(),
            r#"{"state":"filled","plan":"p","provision":"postgres","provider":{"node":"cellar","module":"postgres"},"weight":1.50}"#
        );
    }

    #[test]
    fn there_are_twelve_reasons() {
        let words: Vec<&str> = Why::ALL.iter().map(|why| why.as_str()).collect();
        assert_eq!(
            words.join(" · "),
            "no entry · entry not understood · no responder · silent · refused · not accepted yet · bucket missing · value missing · null · provider has not answered · digest does not fit · nonsense"
        );
    }
}

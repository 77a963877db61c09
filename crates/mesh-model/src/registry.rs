//! The compiled-in registry: which domain answers which kind of placeholder, and where a client finds the values.

use crate::bucket::Bucket;
use crate::object::Object;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where the values of a kind are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Source<'a> {
    /// A verb, for requests.
    Verb {
        /// The verb's subject.
        verb: &'a str,
    },
    /// A bucket to read.
    Bucket {
        /// The bucket's name; `<provider-module>` is the name of the providing module.
        bucket: &'a str,
        /// The shape of its keys: `<…>` is the token of a name, `[…]` is optional.
        key: &'a str,
    },
}

/// One entry of the registry, as it is stored: compact JSON with the fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry<'a> {
    /// The kind of placeholder.
    pub kind: &'a str,
    /// The domain that answers it.
    pub domain: &'a str,
    /// The module that owns the domain.
    pub module: &'a str,
    /// Where its values are.
    #[serde(flatten)]
    pub source: Source<'a>,
}

impl Entry<'_> {
    /// The value as stored in the bucket.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an entry is strings only")
    }

    /// Whether `stored` has the same meaning. The order of fields, spacing and a final newline do not count; a
    /// repeated field, any other field, or text that is not JSON does.
    pub fn says_the_same_as(&self, stored: &[u8]) -> bool {
        let json = self.to_json();
        let ours = Object::parse(json.as_bytes()).map(|object| fields(&object));
        let theirs = Object::parse(stored).map(|object| fields(&object));
        matches!((ours, theirs), (Ok(Some(ours)), Ok(Some(theirs))) if ours == theirs)
    }
}

/// Whether `stored`, found under `kind`, has the shape of an entry: the fields of one, each a string, no others.
pub fn is_entry_of(kind: &str, stored: &Object<'_>) -> bool {
    fields(stored).is_some_and(|fields| {
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let shaped = matches!(
            names[..],
            ["domain", "kind", "module", "verb"] | ["bucket", "domain", "key", "kind", "module"]
        );
        shaped && fields["kind"] == kind
    })
}

/// The fields by name, if each is a string and none is repeated.
fn fields(object: &Object<'_>) -> Option<BTreeMap<String, String>> {
    let fields: BTreeMap<String, String> =
        object.0.iter().map(|(name, _)| Some((name.clone(), object.text(name)?))).collect::<Option<_>>()?;
    (fields.len() == object.0.len()).then_some(fields)
}

const COLLECT: Source<'static> =
    Source::Bucket { bucket: Bucket::Collect.name(), key: "<node>.<collection>.<contributor>" };
const ASSIGNMENTS: Source<'static> =
    Source::Bucket { bucket: "mesh-controller_assignments", key: "<node>.<module>" };

const fn collection(kind: &'static str) -> Entry<'static> {
    Entry { kind, domain: "collection", module: "mesh-provisioner", source: COLLECT }
}

const fn placement(kind: &'static str) -> Entry<'static> {
    Entry { kind, domain: "placement", module: "mesh-controller", source: ASSIGNMENTS }
}

/// The registry, in an order for people. A secret is never in a bucket.
pub const ENTRIES: [Entry<'static>; 13] = [
    Entry {
        kind: "config",
        domain: "configuration",
        module: "mesh-controller",
        source: Source::Bucket { bucket: "mesh-controller_settings", key: "<node>.<module>" },
    },
    Entry {
        kind: "secret",
        domain: "secrets",
        module: "mesh-vault",
        source: Source::Verb { verb: "mesh-vault.secret" },
    },
    Entry {
        kind: "consumers",
        domain: "secrets",
        module: "mesh-vault",
        source: Source::Verb { verb: "mesh-vault.consumers" },
    },
    Entry {
        kind: "bound",
        domain: "provision",
        module: "<provider-module>",
        source: Source::Bucket {
            bucket: "<provider-module>_bound",
            key: "<node>.<module>.<provision>[.<local>]",
        },
    },
    collection("collected"),
    collection("shell"),
    collection("environment"),
    collection("contribution"),
    placement("dir"),
    placement("access"),
    placement("port"),
    placement("seat"),
    placement("machine"),
];

/// The entry that answers `kind`.
pub fn entry(kind: &str) -> Option<&'static Entry<'static>> {
    ENTRIES.iter().find(|entry| entry.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Whether `shape` is names in angle brackets, joined by dots, with at most one optional end.
    fn key_shape_parses(shape: &str) -> bool {
        let (required, optional) = match shape.split_once('[') {
            Some((required, rest)) => {
                (required, rest.strip_suffix(']').and_then(|rest| rest.strip_prefix('.')))
            }
            None => (shape, None),
        };
        let named = |token: &str| {
            token.strip_prefix('<').and_then(|token| token.strip_suffix('>')).is_some_and(|name| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
            })
        };
        required.split('.').all(named)
            && optional.is_none_or(named)
            && shape.contains('[') == optional.is_some()
    }

    #[test]
    fn the_table_is_sound() {
        let kinds: BTreeSet<_> = ENTRIES.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds.len(), ENTRIES.len(), "no kind twice");
        for entry in &ENTRIES {
            crate::name::check(entry.kind).unwrap();
            assert!(!entry.domain.is_empty() && !entry.module.is_empty(), "{entry:?}");
            match &entry.source {
                Source::Verb { verb } => {
                    assert!(verb.starts_with(&format!("{}.", entry.module)), "{entry:?}");
                }
                Source::Bucket { bucket, key } => {
                    assert!(key_shape_parses(key), "{entry:?}");
                    assert!(bucket.starts_with(&format!("{}_", entry.module)), "{entry:?}");
                    assert_ne!(entry.domain, "secrets", "a secret is never in a bucket");
                }
            }
        }
    }

    #[test]
    fn the_lint_itself_can_fail() {
        for bad in ["", "<>", "node", "<node>.", "<node>.<module>[<x>]", "<node>[.<x>", "<Node>"] {
            assert!(!key_shape_parses(bad), "{bad}");
        }
    }

    #[test]
    fn spelling_does_not_make_a_difference_but_meaning_does() {
        let entry = entry("secret").unwrap();
        for same in [
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret"}"#,
            "{ \"verb\": \"mesh-vault.secret\",\n  \"kind\": \"secret\", \"domain\":\"secrets\",\"module\":\"mesh\\u002dvault\" }\n",
        ] {
            assert!(entry.says_the_same_as(same.as_bytes()), "{same}");
        }
        for other in [
            "",
            "null",
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret","verb":"mesh-vault.secret"}"#,
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret","more":1}"#,
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret","more":"x"}"#,
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault"}"#,
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.other"}"#,
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret"},"#,
        ] {
            assert!(!entry.says_the_same_as(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_stored_value_is_ours_only_with_our_fields() {
        let ours = |kind: &str, text: &str| is_entry_of(kind, &Object::parse(text.as_bytes()).unwrap());
        for entry in &ENTRIES {
            assert!(ours(entry.kind, &entry.to_json()), "{entry:?}");
        }
        assert!(ours("new", r#"{"kind":"new","domain":"d","module":"m","verb":"m.v"}"#));
        assert!(!ours("new", r#"{"kind":"old","domain":"d","module":"m","verb":"m.v"}"#));
        assert!(!ours("new", r#"{"kind":"new","domain":"d","module":"m","verb":"m.v","bucket":"b"}"#));
        assert!(!ours("new", r#"{"kind":"new","domain":"d","module":"m","verb":1}"#));
    }

    #[test]
    fn entries_are_stored_as_others_read_them() {
        assert_eq!(
            entry("secret").unwrap().to_json(),
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret"}"#
        );
        assert_eq!(
            entry("config").unwrap().to_json(),
            r#"{"kind":"config","domain":"configuration","module":"mesh-controller","bucket":"mesh-controller_settings","key":"<node>.<module>"}"#
        );
        assert_eq!(
            entry("bound").unwrap().to_json(),
            r#"{"kind":"bound","domain":"provision","module":"<provider-module>","bucket":"<provider-module>_bound","key":"<node>.<module>.<provision>[.<local>]"}"#
        );
        assert_eq!(
            entry("shell").unwrap().to_json(),
            r#"{"kind":"shell","domain":"collection","module":"mesh-provisioner","bucket":"mesh-provisioner_collect","key":"<node>.<collection>.<contributor>"}"#
        );
        assert_eq!(
            entry("machine").unwrap().to_json(),
            r#"{"kind":"machine","domain":"placement","module":"mesh-controller","bucket":"mesh-controller_assignments","key":"<node>.<module>"}"#
        );
        assert_eq!(entry("licence"), None);
    }
}

//! Who may be answered. The asker chooses the reply subject and needs no right on it, while ours would do the
//! publishing: without a guard any asker could have the seat write into its own bucket.

use crate::wire::{INBOX, SERVICE};

/// Whether a reply subject may be answered, given the prefixes that an operator allowed beside the usual ones.
pub(super) fn may_answer(reply: &str, prefixes: &[String]) -> bool {
    let mut tokens = reply.split('.');
    let first = tokens.next().unwrap_or_default();
    let is_pattern = reply.split('.').any(|token| token.is_empty() || token == "*" || token == ">");
    if is_pattern || first.starts_with('$') || first == SERVICE || first == INBOX {
        return false;
    }
    let usual = first.starts_with("_INBOX") || first.starts_with("_R_");
    usual
        || prefixes
            .iter()
            .any(|prefix| reply.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether `prefix` can be given as a further reply prefix.
pub fn check_prefix(prefix: &str) -> Result<(), String> {
    let bad = prefix.is_empty()
        || prefix.split('.').any(|token| token.is_empty() || token == "*" || token == ">")
        || prefix.contains(|c: char| c.is_whitespace() || c.is_control());
    let first = prefix.split('.').next().unwrap_or_default();
    if bad || first.starts_with('$') || first == SERVICE || first == INBOX {
        return Err(format!(
            "{prefix:?} is no reply prefix: give the first tokens of the askers' inboxes, such as _MYINBOX, without wildcards, not under $ or {SERVICE}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inboxes_are_answered_and_nothing_that_a_right_of_ours_could_harm() {
        let prefixes = vec!["_MY.inbox".to_owned()];
        for yes in ["_INBOX.a.b", "_INBOX_reader.x", "_R_.x.y", "_R_abc.1", "_MY.inbox.7"] {
            assert!(may_answer(yes, &prefixes), "{yes}");
        }
        for no in [
            "",
            "foo",
            "$KV.mesh-provisioner_registry.injected",
            "$JS.API.STREAM.DELETE.KV_mesh-provisioner_registry",
            "$SRV.PING",
            "mesh-provisioner.provisioning",
            "_INBOX_mesh-provisioner.abc.5",
            "_INBOX.*",
            "_INBOX.>",
            "_INBOX..a",
            "_MY.inbox",
            "_MY.inboxes.7",
            "a._INBOX.b",
        ] {
            assert!(!may_answer(no, &prefixes), "{no}");
        }
    }

    #[test]
    fn a_prefix_cannot_open_what_the_guard_closes() {
        assert_eq!(check_prefix("_MY.inbox"), Ok(()));
        for bad in [
            "",
            "$KV",
            "mesh-provisioner",
            "mesh-provisioner.x",
            "_INBOX_mesh-provisioner",
            "a.*",
            ">",
            "a b",
            "a.",
        ] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }
}

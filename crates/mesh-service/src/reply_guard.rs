//! Guard against a confused deputy: the client picks the reply subject, and the rights of the service publish to it.
//! Without a guard any client could have a service write into its own bucket.

use mesh_jetstream::subject::is_literal;
use mesh_model::rights::ANSWERED;

/// The longest reply subject, in bytes. The server repeats a denied subject in its `-ERR` line, and the client library
/// cannot read a line of more than 4096 bytes.
const MAX_REPLY_BYTES: usize = 512;

/// What a reply subject is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The verb.
    Verb,
    /// The services API, by which the instances of a service find each other.
    Monitoring,
}

/// Which reply subjects get responses.
#[derive(Debug, Clone, Copy)]
pub struct ReplyGuard {
    /// The service's name.
    pub service: &'static str,
    /// What the service's own inbox starts with.
    pub inbox: &'static str,
}

impl ReplyGuard {
    /// Whether a reply subject may be answered: it lies below a prefix that the service's rights cover, usually or by one
    /// of `prefixes`, and not below the inbox of the service itself.
    pub fn may_answer(&self, reply: &str, asked: Asked, prefixes: &[String]) -> bool {
        if !is_subject(reply) || (asked == Asked::Verb && is_below(reply, self.inbox)) {
            return false;
        }
        ANSWERED.iter().any(|prefix| is_below(reply, prefix))
            || prefixes.iter().any(|prefix| is_below(reply, prefix))
    }

    /// Whether `prefix` can be an additional reply prefix.
    pub fn check_prefix(&self, prefix: &str) -> Result<(), String> {
        let first = prefix.split('.').next().unwrap_or_default();
        if !is_subject(prefix)
            || first.starts_with('$')
            || first == self.service
            || prefix == self.inbox
            || is_below(prefix, self.inbox)
        {
            return Err(format!(
                "{prefix:?} cannot be a reply prefix: give the first tokens of the clients' inboxes, such as _MYINBOX, without wildcards, not below $ or {}",
                self.service
            ));
        }
        Ok(())
    }
}

/// Whether `text` is a subject of printable ASCII, without wildcards.
fn is_subject(text: &str) -> bool {
    text.len() <= MAX_REPLY_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic()) && is_literal(text)
}

fn is_below(subject: &str, prefix: &str) -> bool {
    subject.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: ReplyGuard = ReplyGuard { service: "mesh-provisioner", inbox: "_INBOX_mesh.provisioner" };

    #[test]
    fn inboxes_are_answered_and_nothing_that_a_right_of_ours_could_harm() {
        let prefixes = vec!["_MY.inbox".to_owned()];
        let longest = format!("_INBOX.{}", "a".repeat(505));
        for yes in ["_INBOX.a.b", "_INBOX_mesh.node.attic.x", "_R_.x.y", "_MY.inbox.7", &longest] {
            assert!(GUARD.may_answer(yes, Asked::Verb, &prefixes), "{yes}");
        }
        for no in [
            "",
            "foo",
            "$KV.mesh-provisioner_registry.injected",
            "$JS.API.STREAM.DELETE.KV_mesh-provisioner_registry",
            "$SRV.PING",
            "mesh-provisioner.provisioning",
            "_INBOX.*",
            "_INBOX.>",
            "_INBOX..a",
            "_INBOX",
            "_INBOX_reader.x",
            "_R_abc.1",
            "_MY.inbox",
            "_MY.inboxes.7",
            "a._INBOX.b",
            "_INBOX.a\u{a0}b",
            "_INBOX.é",
            "_INBOX.a b",
            "_INBOX.a\u{1}",
            &format!("{longest}a"),
            &format!("_INBOX_{}", "\"".repeat(3990)),
        ] {
            assert!(!GUARD.may_answer(no, Asked::Verb, &prefixes), "{no}");
            assert!(!GUARD.may_answer(no, Asked::Monitoring, &prefixes), "{no}");
        }
    }

    #[test]
    fn only_the_services_api_answers_into_the_inbox_of_a_seat() {
        let inbox = "_INBOX_mesh.provisioner.abc.5";
        assert!(!GUARD.may_answer(inbox, Asked::Verb, &[]));
        assert!(GUARD.may_answer(inbox, Asked::Monitoring, &[]));
    }

    #[test]
    fn a_prefix_that_would_open_the_guard_is_refused() {
        for good in ["_MYINBOX", "_MY.inbox", "inbox"] {
            assert_eq!(GUARD.check_prefix(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            "a..b",
            "*",
            "a.>",
            "$KV",
            "mesh-provisioner",
            "mesh-provisioner.x",
            "_INBOX_mesh.provisioner",
            "_INBOX_mesh.provisioner.x",
            "a b",
            "a\r\nPUB b",
        ] {
            assert!(GUARD.check_prefix(bad).unwrap_err().contains("cannot be a reply prefix"), "{bad}");
        }
    }
}

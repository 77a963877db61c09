//! Malformed keys, and the commands that delete them.

use mesh_jetstream::bucket::Kv;
use mesh_model::bucket::Bucket;
use mesh_model::provisioner::SERVICE;

/// The bucket of that short name.
pub(crate) fn bucket(suffix: &str) -> Option<Bucket> {
    Bucket::ALL.into_iter().find(|bucket| bucket.suffix() == suffix)
}

/// The command that deletes a key, for a shell. `None` if no command line can name the key alone.
pub(crate) fn delete_command(bucket: Bucket, key: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-/_=.".contains(c);
    let has_ends = key.starts_with('.') || key.ends_with('.') || key.contains("..");
    if !key.is_empty() && !has_ends && key.chars().all(is_plain) {
        return Some(format!("nats kv del {bucket} {key} --force"));
    }
    // The tool's own words for a key are fewer than the bus takes. A subject with a wildcard would name others too.
    let is_alone = key.split('.').all(|token| !token.is_empty() && token != "*" && token != ">");
    let has_unseen = key.contains(|c: char| c == char::REPLACEMENT_CHARACTER || c.is_control());
    let kv = Kv::new(bucket.name());
    (is_alone && !has_unseen).then(|| {
        let subject = format!("{}{key}", kv.subject_prefix());
        format!("nats stream purge {} --subject {} --force", kv.stream(), quote(&subject))
    })
}

/// A word as a shell takes it.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What to do about a key that no command line can name alone.
pub(crate) fn unnameable() -> String {
    format!(
        "a key that no command line can name is deleted by the client that wrote it, or with its bucket ({SERVICE} init makes a new one)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_the_command_that_deletes_it_and_no_other() {
        for (key, command) in [
            ("attic.web.port", Some("nats kv del mesh-provisioner_needs attic.web.port --force")),
            ("a=zz.b", Some("nats kv del mesh-provisioner_needs a=zz.b --force")),
            (
                "a b.it's",
                Some(
                    r"nats stream purge KV_mesh-provisioner_needs --subject '$KV.mesh-provisioner_needs.a b.it'\''s' --force",
                ),
            ),
            ("a.*", None),
            (">", None),
            ("a.\u{fffd}", None),
            ("a..b", None),
        ] {
            assert_eq!(delete_command(Bucket::Needs, key).as_deref(), command, "{key}");
        }
    }
}

//! What goes wrong while a connection is made, in words that say what to do.

use crate::probe::Greeting;
use std::fs::File;
use std::path::Path;

/// The words in the reason of an end that comes from the server's denial of who we say that we are.
pub const REFUSES_CREDENTIALS: &str = "the server refuses the credentials";

/// Whether a file that the settings name can be read; the client library's own error would not name it. It was
/// there when the program started, but it is read anew for each connection.
pub(super) fn look_at(what: &str, path: &Path) -> Result<(), String> {
    let opened = File::open(path);
    opened.map(drop).map_err(|error| format!("the {what} {} cannot be read: {error}", path.display()))
}

/// The client library's error in words that say what to do.
pub(super) fn explain(error: &str, greeting: &Greeting) -> String {
    // The library shows the server's refusal as its own internal value.
    let refused = error.split_once("Err(\"").and_then(|(_, rest)| rest.rsplit_once("\")"));
    let error = refused.map_or(error, |(words, _)| words);
    let has = |part: &str| error.contains(part);
    if has("Authorization Violation") || has("Authentication") {
        return format!("{REFUSES_CREDENTIALS} ({error}): check user, password, creds or nkey");
    }
    if has("platform certs") {
        return format!(
            "{error}: SSL_CERT_FILE or SSL_CERT_DIR names a file that is not there: unset it or mend it"
        );
    }
    if has("invalid peer certificate") || has("UnknownIssuer") {
        let next = if has("Expired") {
            "the server's certificate has expired: renew it"
        } else if has("NotValidForName") {
            "the server's certificate is not for the name in --server: use a name that it is for"
        } else {
            "the server's certificate is not signed by a known CA: name its CA with --tls-ca"
        };
        return format!("TLS: {next} ({error})");
    }
    // An alert comes from the other side. Which one it is depends on the version of TLS and of the server.
    if has("fatal alert") && ["Certificate", "UnknownCA", "AccessDenied"].iter().any(|alert| has(alert)) {
        return format!(
            "TLS: the server wants a client certificate that it knows: give --tls-cert and --tls-key ({error})"
        );
    }
    if greeting.tls_required && (has("closed") || has("reset")) {
        return format!(
            "TLS: the server ended the handshake ({error}): it may want a client certificate (--tls-cert, --tls-key)"
        );
    }
    error.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::parse_info;

    #[test]
    fn a_refusal_is_said_in_the_servers_words_and_not_the_librarys() {
        let greeting =
            parse_info(br#"INFO {"server_id":"S","version":"2.9.10","go":"go1","host":"h","port":4222,"proto":1,"client_id":1,"max_payload":1048576,"headers":true}"#)
                .unwrap();
        let error = r#"unexpected line while connecting: Err("Authorization Violation")"#;
        assert_eq!(
            explain(error, &greeting),
            "the server refuses the credentials (Authorization Violation): check user, password, creds or nkey"
        );
        let error = r#"unexpected line while connecting: Err("maximum connections exceeded")"#;
        assert_eq!(explain(error, &greeting), "maximum connections exceeded");
    }
}

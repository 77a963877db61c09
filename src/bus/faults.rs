//! What goes wrong while a connection is made, in words that say what to do.

use super::probe::Greeting;
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

//! How seats reach their server in a run of the tests: `MESH_TEST_TRANSPORT` is `plain`, `tls`, or `split`, which is
//! through a proxy that forwards small pieces. What a test has to see in plain text stays plain.

use std::env;
use std::sync::OnceLock;

use crate::proxy::Proxy;
use crate::tls::{Authority, Issued, Term};

/// About how many bytes a split connection forwards at a time: hardly a line of the protocol comes in one piece.
const PIECE: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Plain,
    Tls,
    Split,
}

impl Transport {
    #[track_caller]
    fn chosen() -> Self {
        match env::var("MESH_TEST_TRANSPORT").as_deref() {
            Err(_) | Ok("" | "plain") => Self::Plain,
            Ok("tls") => Self::Tls,
            Ok("split") => Self::Split,
            Ok(other) => panic!("MESH_TEST_TRANSPORT is {other:?}: set it to plain, tls or split"),
        }
    }
}

/// The authority of all servers of a run, and their certificate.
fn authority() -> &'static (Authority, Issued) {
    static AUTHORITY: OnceLock<(Authority, Issued)> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let authority = Authority::new();
        let issued = authority.issue("server", "127.0.0.1", Term::Valid);
        (authority, issued)
    })
}

/// The configuration of a server, with what the transport needs. One that has TLS already keeps its own.
pub(crate) fn configuration(text: &str) -> String {
    if Transport::chosen() != Transport::Tls || text.contains("tls {") {
        return text.to_owned();
    }
    let Issued { certificate, key } = &authority().1;
    format!("{text}\ntls {{ cert_file: {certificate:?}, key_file: {key:?} }}\nallow_non_tls: true\n")
}

/// How a program reaches these servers over the transport: the URLs to give it, and the CA that it has to trust.
pub fn reach(urls: &str) -> (String, Option<String>) {
    match Transport::chosen() {
        Transport::Plain => (urls.to_owned(), None),
        Transport::Tls => (urls.replace("nats://", "tls://"), Some(authority().0.file())),
        Transport::Split => (urls.split(',').map(split).collect::<Vec<_>>().join(","), None),
    }
}

/// The URL of a proxy that lasts as long as the run, in front of this one.
fn split(url: &str) -> String {
    let Some(target) = url.strip_prefix("nats://").and_then(|place| place.parse().ok()) else {
        return url.to_owned();
    };
    let proxy: &'static Proxy = Box::leak(Box::new(Proxy::to(target)));
    proxy.keep_nothing();
    proxy.split(PIECE);
    proxy.client_url()
}

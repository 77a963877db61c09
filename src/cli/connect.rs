//! How one-shot commands reach the bus and say why they cannot.

use crate::wire;
use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config::{self, BusConfig, Flags};
use mesh_bus::gate::REFUSES_CREDENTIALS;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;

/// The environment's variables.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The name under which commands connect.
pub(super) const CLIENT: &str = "mesh-provisioner command";

/// Where everybody's answers go, and where the account of `reader` and of an administrator may listen.
const INBOX: &str = "_INBOX";

/// Where answers may come: under the prefix that was given, else under the first of the command's own that the bus
/// lets this account listen on.
pub(super) struct Inbox<'a> {
    given: Option<&'a str>,
    own: &'static [&'static str],
}

impl<'a> Inbox<'a> {
    /// For a command that readers and administrators use.
    pub(super) fn usual(given: Option<&'a String>) -> Self {
        Inbox { given: given.map(String::as_str), own: &[INBOX] }
    }

    /// For a command that the seat's account may run too, which has an inbox of its own and no other.
    pub(super) fn seat_or_usual(given: Option<&'a String>) -> Self {
        Inbox { given: given.map(String::as_str), own: &[wire::INBOX, INBOX] }
    }

    fn prefixes(&self) -> &[&'a str] {
        self.given.as_ref().map_or(self.own, std::slice::from_ref)
    }
}

/// Reads `--inbox-prefix`.
pub(super) fn parse_inbox_prefix(text: &str) -> Result<String, String> {
    let token = |token: &str| {
        !token.is_empty()
            && !token.contains(|c: char| matches!(c, '*' | '>') || c.is_whitespace() || c.is_control())
    };
    if text.split('.').all(token) && !text.starts_with('$') {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is no inbox prefix: give the first tokens of an inbox that the account may subscribe, such as _INBOX_mesh.node.attic, without wildcards"
        ))
    }
}

/// Connects as the flags and the environment say; says why not.
pub(super) fn connect(
    flags: &Flags,
    environment: Environment<'_>,
    inbox: &Inbox<'_>,
) -> Result<Client, Exit> {
    let settings = settings(flags, environment)?;
    Client::connect(settings, CLIENT, inbox.prefixes(), &nuid::next()).map_err(|error| match error {
        ConnectError::Unreachable(why) => {
            complain(&format!("the bus cannot be reached: {why}"));
            if why.contains(REFUSES_CREDENTIALS) { Exit::Denied } else { Exit::Unavailable }
        }
        ConnectError::NoInbox(words) => {
            complain(&format!(
                "no answer could be heard: the bus says: {words}: name an inbox that this account may subscribe, with --inbox-prefix, or use another account"
            ));
            Exit::Denied
        }
    })
}

/// How to connect, as the flags and the environment say; says what is wrong with it.
pub(super) fn settings(flags: &Flags, environment: Environment<'_>) -> Result<BusConfig, Exit> {
    let settings = config::load(flags, environment).map_err(|error| {
        complain(&error.to_string());
        Exit::Configuration
    })?;
    for warning in config::warnings(&settings) {
        complain(&format!("warning: {warning}"));
    }
    Ok(settings)
}

/// Says why a request to `what` has no answer, and which exit code that is.
pub(super) fn explain(error: &CallError, what: &str, nobody: &str) -> Exit {
    let (why, exit) = match error {
        CallError::Denied(words) => (
            format!(
                "the bus says: {words}: use an account that may, or grant the right: mesh-provisioner permissions shows it"
            ),
            Exit::Denied,
        ),
        CallError::NoResponders => (nobody.to_owned(), Exit::Unavailable),
        CallError::Silent => ("no answer came in time".to_owned(), Exit::Unavailable),
        CallError::Lost(why) => (format!("the connection broke: {why}"), Exit::Unavailable),
    };
    complain(&format!("{what}: {why}"));
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_prefix_is_tokens_without_wildcards() {
        for good in ["_INBOX", "_INBOX_mesh.node.attic", "_MY.inbox"] {
            assert_eq!(parse_inbox_prefix(good), Ok(good.to_owned()));
        }
        for bad in ["", ".", "_INBOX.", "_INBOX.>", "*", "a b", "$SYS", "a\r\nPUB b"] {
            assert!(parse_inbox_prefix(bad).is_err(), "{bad}");
        }
    }
}

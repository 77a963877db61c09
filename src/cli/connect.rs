//! How one-shot commands reach the bus and say why they cannot.

use super::output::complain;
use crate::bus::caller::{CallError, Caller};
use crate::config::{self, Flags};
use crate::exit::Exit;

/// The environment's variables.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Connects as the flags and the environment say; says why not.
pub(super) fn connect(flags: &Flags, environment: Environment<'_>) -> Result<Caller, Exit> {
    let settings = config::connection(flags, environment).map_err(|error| {
        complain(&error.to_string());
        Exit::Configuration
    })?;
    for warning in config::warnings(&settings) {
        complain(&format!("warning: {warning}"));
    }
    Caller::connect(settings, format!("_INBOX.{}", nuid::next())).map_err(|why| {
        complain(&format!("the bus cannot be reached: {why}"));
        if why.contains("credentials") { Exit::Denied } else { Exit::Unavailable }
    })
}

/// Says why a request to `what` has no answer, and which exit code that is.
pub(super) fn explain(error: &CallError, what: &str, nobody: &str) -> Exit {
    let (why, exit) = match error {
        CallError::Denied(words) => (
            format!(
                "the bus says {words:?}: use an account that may, or grant the right: mesh-provisioner permissions shows it"
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

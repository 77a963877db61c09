//! How one-shot commands reach the bus and say why they cannot.

use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config::{self, Auth, BusConfig, Flags};
use mesh_bus::gate::REFUSES_CREDENTIALS;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;
use mesh_model::provisioner;

/// The environment's variables.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The name under which commands connect.
pub(super) const CLIENT: &str = "mesh-provisioner command";

/// Where everybody's answers go, and where the account of `reader` and of an administrator may listen.
const INBOX: &str = "_INBOX";

/// Where answers may come: under the prefix that was given, else under that of the context, else under the first of the
/// command's own that the bus lets this account listen on.
pub struct Inbox<'a> {
    given: Option<&'a str>,
    own: &'static [&'static str],
}

impl<'a> Inbox<'a> {
    /// For a command that readers and administrators use.
    pub fn usual(given: Option<&'a String>) -> Self {
        Inbox { given: given.map(String::as_str), own: &[INBOX] }
    }

    /// For a command that the seat's account may run too, which has an inbox of its own and no other.
    pub fn seat_or_usual(given: Option<&'a String>) -> Self {
        Inbox { given: given.map(String::as_str), own: &[provisioner::INBOX, INBOX] }
    }

    fn prefixes(&self, config: &'a BusConfig) -> Vec<&'a str> {
        match self.given.or(config.inbox_prefix.as_deref()) {
            Some(prefix) => vec![prefix],
            None => self.own.to_vec(),
        }
    }
}

/// Reads `--inbox-prefix`.
pub fn parse_inbox_prefix(text: &str) -> Result<String, String> {
    config::check_inbox_prefix(text).map(|()| text.to_owned())
}

/// Connects as the flags and the environment say; says why not.
pub fn connect(flags: &Flags, environment: Environment<'_>, inbox: &Inbox<'_>) -> Result<Client, Exit> {
    let config = settings(flags, environment)?;
    let prefixes = inbox.prefixes(&config);
    Client::connect(config.clone(), CLIENT, &prefixes, &nuid::next()).map_err(|error| match error {
        ConnectError::Unreachable(why) if why.contains(REFUSES_CREDENTIALS) => {
            complain(&refused(&why, &config));
            Exit::Denied
        }
        ConnectError::Unreachable(why) => {
            complain(&format!("the bus cannot be reached: {why} (--server names another)"));
            Exit::Unavailable
        }
        ConnectError::NoInbox(words) => {
            complain(&format!(
                "no response can be received: the bus says: {words}: name an inbox that this account may subscribe, with --inbox-prefix, or use another account"
            ));
            Exit::Denied
        }
    })
}

/// Why the bus does not let us in.
fn refused(why: &str, config: &BusConfig) -> String {
    match config.auth {
        Auth::None => format!(
            "the bus requires credentials, and none were given: set NATS_USER and NATS_PASSWORD, or name a file with --creds or --nkey, or a context with --context ({why})"
        ),
        _ => format!("the bus does not let {} in: {why}", account(config)),
    }
}

/// Who we are on the bus, for messages.
pub(super) fn account(config: &BusConfig) -> String {
    match &config.auth {
        Auth::None => "an account without credentials".to_owned(),
        Auth::UserPassword { user, .. } => format!("the user {user:?}"),
        Auth::Token(_) => "the token".to_owned(),
        Auth::Creds(path) => format!("the user of {}", path.display()),
        Auth::Nkey(path) => format!("the key of {}", path.display()),
        Auth::Seed(_) => "the key that was given".to_owned(),
    }
}

/// How to connect, as the flags and the environment say; says what is wrong with it.
pub(super) fn settings(flags: &Flags, environment: Environment<'_>) -> Result<BusConfig, Exit> {
    let settings = config::load(flags, environment).map_err(|error| {
        complain(&error.to_string());
        Exit::Configuration
    })?;
    for warning in config::warnings(flags, &settings) {
        complain(&format!("warning: {warning}"));
    }
    Ok(settings)
}

/// Says why a request to `what` has no answer, and which exit code that is.
///
/// `nobody` is the text if nobody answers; `role` is the role of `permissions` that has the rights.
pub fn explain(error: &CallError, what: &str, nobody: &str, role: &str) -> Exit {
    let (why, exit) = match error {
        CallError::Denied(words) => (
            format!(
                "the bus says: {words}: use an account that may, or grant the right; mesh-provisioner permissions {role} prints what it takes"
            ),
            Exit::Denied,
        ),
        CallError::NoResponders => (nobody.to_owned(), Exit::Unavailable),
        CallError::Silent => (
            "no response came in time: check the load of the nats-server, and the log of the program that answers there"
                .to_owned(),
            Exit::Unavailable,
        ),
        CallError::Lost(why) => (format!("the connection broke: {why}: try again"), Exit::Unavailable),
    };
    complain(&format!("{what}: {why}"));
    exit
}

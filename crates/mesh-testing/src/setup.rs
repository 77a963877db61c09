//! What a nats-server is started with: the shipped configuration, or a text of the test's own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::accounts::{self, Account};
use crate::server::Server;
use crate::transport;

/// The configuration that is shipped.
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/bus/nats-server.conf");

/// Where a configuration that says more about `jetstream` than "on" finds its store.
const STORE_VARIABLE: &str = "MESH_STORE_DIR";

/// A server's configuration, before it starts and between its starts.
///
/// Address, ports, log and store are the test's, whatever the text says about them.
#[derive(Clone)]
pub struct Setup {
    text: String,
    env: Vec<(String, String)>,
    trace: bool,
}

/// One of a user's two lists of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Publish,
    Subscribe,
}

impl Setup {
    /// The configuration under `packaging/bus` with the passwords of [`accounts`], and one more user, the
    /// [`accounts::TESTER`].
    ///
    /// The rule behind it: what the shipped accounts may not do must not be needed.
    #[track_caller]
    pub fn shipped() -> Self {
        const USERS: &str = "\n    users: [\n";
        let text = fs::read_to_string(SHIPPED).unwrap_or_else(|error| panic!("{SHIPPED}: {error}"));
        let setup = Self { env: accounts::passwords(), ..Self::custom(&text) };
        setup.replace(USERS, &format!("{USERS}      {}\n", accounts::tester_block()))
    }

    /// A configuration of the test's own. `jetstream: enabled` gives it streams; a block with more in it
    /// also says `store_dir: $MESH_STORE_DIR`.
    pub fn custom(text: &str) -> Self {
        Self { text: text.to_owned(), env: Vec::new(), trace: false }
    }

    /// Puts `with` instead of `what`; panics if it is not there, so that no test changes nothing.
    #[track_caller]
    #[must_use]
    pub fn replace(mut self, what: &str, with: &str) -> Self {
        assert!(self.text.contains(what), "the configuration does not hold {what:?}:\n{}", self.text);
        self.text = self.text.replace(what, with);
        self
    }

    /// The shipped configuration without the rights to read in bulk: the seat reads one by one.
    #[track_caller]
    pub fn one_by_one() -> Self {
        let needs = Self::shipped().deny(&accounts::SEAT, Right::Publish, &direct_get("needs"));
        let applied = needs.deny(&accounts::SEAT, Right::Publish, &direct_get("applied"));
        applied.deny(&accounts::SEAT, Right::Publish, &direct_get("collect"))
    }

    /// Takes one right away from one user; panics if the configuration does not give it.
    #[track_caller]
    #[must_use]
    pub fn deny(mut self, account: &Account, right: Right, subject: &str) -> Self {
        let list = match right {
            Right::Publish => "publish: [",
            Right::Subscribe => "subscribe: [",
        };
        let entry = format!("\"{subject}\"");
        let place = || {
            let user = self.text.find(&format!("user: {}\n", account.user))?;
            let start = user + self.text[user..].find(list)?;
            let end = start + self.text[start..].find(']')?;
            Some(start + self.text[start..end].find(&entry)?)
        };
        let Some(at) = place() else {
            panic!("the configuration gives {} no {right:?} of {subject:?}:\n{}", account.user, self.text)
        };
        self.text.replace_range(at..at + entry.len(), "");
        self
    }

    /// Leaves the server without TLS, also in a run of the tests over TLS.
    #[must_use]
    pub fn without_tls(self) -> Self {
        // A text that mentions such a block is left as it is.
        self.append("# No tls {} here.")
    }

    /// Adds lines at the end. A setting that is there already is overridden as a whole, blocks too.
    #[must_use]
    pub fn append(mut self, lines: &str) -> Self {
        self.text = format!("{}\n{lines}\n", self.text);
        self
    }

    /// Sets a variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Has every protocol line in the server's log.
    #[must_use]
    pub fn trace(mut self) -> Self {
        self.trace = true;
        self
    }

    /// Starts a server with it.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::start_with(self)
    }

    /// Writes the text into a server's `directory`; gives its path.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        let path = directory.join("nats-server.conf");
        fs::write(&path, transport::configuration(&self.text)).expect("a configuration file");
        path
    }

    /// The part of the command line that is ours and does not depend on ports.
    pub(crate) fn arguments(&self, directory: &Path) -> Vec<String> {
        let mut arguments = vec!["--log".to_owned(), text(&log(directory))];
        // Where the text has a store too, the server refuses to start: "Duplicate 'store_dir' configuration".
        if !self.text.contains("store_dir") {
            arguments.extend(["--store_dir".to_owned(), text(&store(directory))]);
        }
        if self.trace {
            arguments.push("-DV".to_owned());
        }
        arguments
    }

    pub(crate) fn environment(&self, directory: &Path) -> Vec<(String, String)> {
        // The server reads the value as configuration, so it has quotes.
        let store = format!("\"{}\"", text(&store(directory)));
        self.env.iter().cloned().chain([(STORE_VARIABLE.to_owned(), store)]).collect()
    }
}

fn direct_get(bucket: &str) -> String {
    format!("$JS.API.DIRECT.GET.KV_mesh-provisioner_{bucket}")
}

pub(crate) fn log(directory: &Path) -> PathBuf {
    directory.join("nats-server.log")
}

fn store(directory: &Path) -> PathBuf {
    directory.join("store")
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

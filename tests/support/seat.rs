//! The seat as a child process: `mesh-provisioner serve`.

use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::json;

use super::accounts::{READER, SEAT};
use super::client::Client;
use super::process::Process;
use super::program::Program;
use super::proxy::Proxy;
use super::server::Server;
use super::transcript::Transcript;
use super::transport;
use super::verb::{Answer, VERB};
use super::wait::{self, PATIENCE, tail};

/// How many kinds the registry answers.
pub(crate) const KINDS: usize = 13;

/// A running seat. Dropping it kills it.
pub(crate) struct Seat {
    process: Process,
    transcript: Transcript,
    /// Where [`Seat::wait_ready`] asks: the server itself, even for a seat behind a proxy.
    asked_at: SocketAddr,
}

impl Seat {
    /// Starts a seat at this server, as the shipped account, with further arguments to `serve`.
    #[track_caller]
    pub(crate) fn start(server: &Server, args: &[&str]) -> Self {
        Self::spawn(&Self::program(&server.client_url()).args(args), server)
    }

    /// Starts a seat that reaches the server only through the proxy, which sees what they say: without TLS, whatever
    /// the run's transport.
    #[track_caller]
    pub(crate) fn start_through(proxy: &Proxy, server: &Server, args: &[&str]) -> Self {
        Self::spawn(&Self::plain_program(&proxy.client_url()).args(args), server)
    }

    /// What [`Seat::start`] runs, to be changed and given to [`Seat::spawn`].
    pub(crate) fn program(url: &str) -> Program {
        let (url, ca) = transport::reach(url);
        let program = Self::plain_program(&url);
        match ca {
            Some(ca) => program.env("NATS_CA", &ca),
            None => program,
        }
    }

    /// The same over the very connection that the URL says, whatever the run's transport.
    pub(crate) fn plain_program(url: &str) -> Program {
        Program::new(&["serve", "--server", url]).account(&SEAT)
    }

    /// Starts a program that holds the seat at this server.
    #[track_caller]
    pub(crate) fn spawn(program: &Program, server: &Server) -> Self {
        let (process, transcript) = program.spawn("seat");
        Self { process, transcript, asked_at: server.address() }
    }

    /// Waits until the seat answers with the whole registry, asking as a reader.
    #[track_caller]
    pub(crate) fn wait_ready(&mut self) {
        let mut asking = None;
        wait::until("the seat to answer with the whole registry", PATIENCE, || {
            if let Some(status) = self.process.status() {
                panic!("the seat ended before it was ready, {status}:\n{}", tail(&self.log()));
            }
            // The server may come and go meanwhile.
            let client = match asking.take_if(|client: &mut Client| !client.is_closed()) {
                Some(client) => client,
                None => Client::try_connect(self.asked_at, &READER)?,
            };
            registry_is_whole(asking.insert(client))
        });
    }

    /// What it wrote so far, on both of its outputs.
    pub(crate) fn log(&self) -> String {
        self.transcript.text()
    }

    /// A place in the log, for [`Seat::wait_for_log_since`].
    pub(crate) fn mark(&self) -> usize {
        self.transcript.mark()
    }

    /// Waits for a line that holds `needle`, wherever it stands in the log.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, needle: &str, within: Duration) -> String {
        self.wait_for_log_since(0, needle, within)
    }

    /// Waits for a line that holds `needle` and was written after `mark`.
    #[track_caller]
    pub(crate) fn wait_for_log_since(&self, mark: usize, needle: &str, within: Duration) -> String {
        self.transcript.wait_for("seat", mark, needle, within)
    }

    /// Closes the reading end of its outputs, as a log collector that died would.
    #[track_caller]
    pub(crate) fn close_log(&mut self) {
        self.transcript.hang_up();
    }

    /// Sends a signal by its short name: `HUP`, `INT`.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// SIGTERM, and how it ended; panics with its log if it does not `within` that time.
    #[track_caller]
    pub(crate) fn terminate(&mut self, within: Duration) -> ExitStatus {
        self.signal("TERM");
        self.wait_exit(within)
    }

    /// Waits for its end; panics with its log if it does not come `within` that time.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let Some(status) = self.process.ended(within) else {
            panic!(
                "waited {within:?} for the seat to end; it still runs, and its log ends with\n{}",
                tail(&self.log())
            )
        };
        self.transcript.finish();
        status
    }

    /// How it ended, if it has.
    #[track_caller]
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.process.status()
    }

    /// Its process id, past any wrapper.
    #[track_caller]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGSTOP: a machine that hangs.
    #[track_caller]
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on after [`Seat::freeze`].
    #[track_caller]
    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.process.kill();
        wait::show_if_failing("seat", || self.log());
    }
}

fn registry_is_whole(client: &Client) -> Result<(), String> {
    // An ask that went to a connection which broke is never answered, so none is waited for long.
    const EACH: Duration = Duration::from_secs(1);
    let asked = json!({"what": "registry"}).to_string();
    let answer = client.request(VERB, asked, EACH).map_err(|error| error.to_string())?;
    let answer = Answer::of(&answer);
    if answer.code().is_none() && answer.entries().len() == KINDS {
        return Ok(());
    }
    Err(answer.text())
}

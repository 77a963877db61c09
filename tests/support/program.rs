//! The built binary, run in an environment that holds only what the test put there.

use std::collections::BTreeMap;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::accounts::Account;
use super::process::Process;
use super::server::Server;
use super::transcript::Transcript;
use super::wait::PATIENCE;

/// One run of `mesh-provisioner`, before it starts.
///
/// The environment is empty but for what is said here: no context, no `HOME` and no `NATS_…` of the person
/// who runs the tests can reach the program.
#[derive(Clone)]
pub(crate) struct Program {
    binary: String,
    wrapper: Vec<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// How a one-shot command ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// `mesh-provisioner` with these arguments.
    pub(crate) fn new(args: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_mesh-provisioner").to_owned();
        Self { binary, wrapper: Vec::new(), args: Vec::new(), env: BTreeMap::new() }.args(args)
    }

    /// Runs this file in place of the one that was built with the tests.
    pub(crate) fn binary(mut self, path: &str) -> Self {
        path.clone_into(&mut self.binary);
        self
    }

    /// Further arguments, at the end.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Sets a variable of the program's environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs as this account: `NATS_USER` and `NATS_PASSWORD`.
    pub(crate) fn account(self, account: &Account) -> Self {
        self.env("NATS_USER", &account.user).env("NATS_PASSWORD", &account.password)
    }

    /// Runs against this server: `NATS_URL`.
    pub(crate) fn server(self, server: &Server) -> Self {
        self.env("NATS_URL", &server.client_url())
    }

    /// Runs as the child of another program, such as `unshare -pf --mount-proc`; signals still go to ours.
    pub(crate) fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(ToString::to_string).collect();
        self
    }

    /// The run as the standard library has it, for a test that wants the pipes for itself.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.wrapper.clone();
        words.push(self.binary.clone());
        words.extend(self.args.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(&self.env);
        command
    }

    /// Starts it, with both outputs in one transcript.
    #[track_caller]
    pub(crate) fn spawn(&self, name: &str) -> (Process, Transcript) {
        let (transcript, writer) = Transcript::open();
        let mut command = self.command();
        command.stdout(writer.try_clone().expect("a second end of the pipe")).stderr(writer);
        (self.start(name, &mut command), transcript)
    }

    /// Runs it to its end. Panics with what it wrote when it takes longer than [`PATIENCE`].
    #[track_caller]
    pub(crate) fn run(&self) -> Finished {
        self.run_within(PATIENCE)
    }

    /// Runs it to its end, within a bound of the caller's.
    #[track_caller]
    pub(crate) fn run_within(&self, within: Duration) -> Finished {
        let (mut stdout, stdout_writer) = Transcript::open();
        let (mut stderr, stderr_writer) = Transcript::open();
        let mut command = self.command();
        command.stdout(stdout_writer).stderr(stderr_writer);
        let mut process = self.start("mesh-provisioner", &mut command);
        // Our copies of the pipes' ends go with it.
        drop(command);
        let Some(status) = process.ended(within) else {
            let args = self.args.join(" ");
            panic!(
                "waited {within:?} for `mesh-provisioner {args}` to end, and it wrote\n{}{}",
                stdout.text(),
                stderr.text()
            );
        };
        stdout.finish();
        stderr.finish();
        Finished { status, stdout: stdout.text(), stderr: stderr.text() }
    }

    #[track_caller]
    fn start(&self, name: &str, command: &mut Command) -> Process {
        if self.wrapper.is_empty() {
            Process::start(name, command)
        } else {
            Process::start_wrapped(name, command)
        }
    }
}

impl Finished {
    /// The exit code; panics for a program that a signal ended.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    /// Panics with everything that was written unless the exit code is this one.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        let Self { status, stdout, stderr } = &self;
        assert!(
            status.code() == Some(code),
            "expected exit code {code}, got {status}\n--- stdout\n{stdout}--- stderr\n{stderr}---"
        );
        self
    }
}

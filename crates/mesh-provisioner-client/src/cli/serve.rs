//! `serve`, `once` and `plan`: the same machine with another end.

use std::path::PathBuf;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};
use log::{error, info, warn};
use mesh_daemon::exit::Exit;
use mesh_daemon::{duration, status};

use super::{Environment, flags, pin, site};
use crate::machine::{Mode, Settings};
use crate::shell;

/// fill, hand over and report until TERM or INT; HUP looks at everything again at once
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "serve", example = "{command_name}")]
pub(super) struct Serve {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the bus's servers: URLs, comma-separated [NATS_URL; what joining wrote]
    #[argh(option, arg_name = "urls")]
    server: Option<String>,

    /// the CA that signed the server certificates [NATS_CA; ca.pem beside the settings]
    #[argh(option, arg_name = "file")]
    tls_ca: Option<String>,

    /// status file to write [$RUNTIME_DIRECTORY/status.json, if there is one]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,
}

/// one pass to its end: exit 0 done, 3 something waits, 5 the host failed, 69 no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "once", example = "{command_name} --timeout 30s")]
pub(super) struct Once {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the bus's servers: URLs, comma-separated [NATS_URL; what joining wrote]
    #[argh(option, arg_name = "urls")]
    server: Option<String>,

    /// the CA that signed the server certificates [NATS_CA; ca.pem beside the settings]
    #[argh(option, arg_name = "file")]
    tls_ca: Option<String>,

    /// how long to wait for values and for the host [60s]
    #[argh(option, arg_name = "time", default = "LIMIT", from_str_fn(parse_time))]
    timeout: Duration,
}

/// what one pass would do, without an effect: exit 0 nothing, 2 something
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "plan", example = "{command_name} --diff")]
pub(super) struct Plan {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the bus's servers: URLs, comma-separated [NATS_URL; what joining wrote]
    #[argh(option, arg_name = "urls")]
    server: Option<String>,

    /// the CA that signed the server certificates [NATS_CA; ca.pem beside the settings]
    #[argh(option, arg_name = "file")]
    tls_ca: Option<String>,

    /// also say what differs from what was applied last; no value is printed
    #[argh(switch)]
    diff: bool,

    /// how long to wait for values and for the host [60s]
    #[argh(option, arg_name = "time", default = "LIMIT", from_str_fn(parse_time))]
    timeout: Duration,
}

const LIMIT: Duration = Duration::from_secs(60);

fn parse_time(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_millis(100)..=Duration::from_secs(24 * 3600))
}

/// What the three have in common.
struct Common<'c> {
    root: Option<&'c PathBuf>,
    server: Option<&'c String>,
    tls_ca: Option<&'c String>,
    mode: Mode,
    tells_differences: bool,
    status_file: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let own = self.root.as_ref().map(|root| site(Some(root)).status_path());
        let status_file = self.status_file.clone().or_else(|| status::default_path(environment)).or(own);
        let common = Common {
            root: self.root.as_ref(),
            server: self.server.as_ref(),
            tls_ca: self.tls_ca.as_ref(),
            mode: Mode::Serve,
            tells_differences: false,
            status_file,
        };
        common.run(environment).0
    }
}

impl Once {
    pub(super) fn run(self, environment: Environment<'_>) -> u8 {
        let common = Common {
            root: self.root.as_ref(),
            server: self.server.as_ref(),
            tls_ca: self.tls_ca.as_ref(),
            mode: Mode::Once(self.timeout),
            tells_differences: false,
            status_file: None,
        };
        let (exit, code) = common.run(environment);
        code.unwrap_or(exit.code())
    }
}

impl Plan {
    pub(super) fn run(self, environment: Environment<'_>) -> u8 {
        let common = Common {
            root: self.root.as_ref(),
            server: self.server.as_ref(),
            tls_ca: self.tls_ca.as_ref(),
            mode: Mode::Plan(self.timeout),
            tells_differences: self.diff,
            status_file: None,
        };
        let (exit, code) = common.run(environment);
        code.unwrap_or(exit.code())
    }
}

impl Common<'_> {
    fn run(self, environment: Environment<'_>) -> (Exit, Option<u8>) {
        let site = site(self.root);
        let joined = site.joined();
        let servers = joined.as_ref().map(|joined| joined.servers.clone()).unwrap_or_default();
        let flags = flags(&site, &servers, self.server, self.tls_ca, environment);
        let started = match (&joined, mesh_runtime::start(&flags, environment)) {
            (Ok(joined), Ok(mut started)) => {
                pin(joined, self.server, environment, &mut started.connection);
                started
            }
            // The log runs by now.
            (Err(why), _) => {
                error!("{why}");
                return (Exit::Configuration, None);
            }
            (_, Err(exit)) => return (exit, None),
        };
        let Ok(joined) = joined else { return (Exit::Configuration, None) };
        // A plan has no effect, so it may run beside the one that serves.
        let _lock = match self.mode {
            Mode::Plan(_) => None,
            Mode::Serve | Mode::Once(_) => match site.lock() {
                Ok(Some(lock)) => Some(lock),
                Ok(None) => {
                    error!(
                        "another client serves {}: stop it first, or use plan, explain and status beside it",
                        site.state().display()
                    );
                    return (Exit::Stuck, None);
                }
                Err(error) => {
                    error!("{} cannot be locked: {error}", site.state().display());
                    return (Exit::Configuration, None);
                }
            },
        };
        let opened = match self.mode {
            Mode::Plan(_) => site.look(&nuid::next()).map(|(memory, problem)| (None, memory, problem)),
            Mode::Serve | Mode::Once(_) => {
                let opened = site.journal(&mesh_runtime::secret());
                opened.map(|(journal, memory, problem)| (Some(journal), memory, problem))
            }
        };
        let (journal, memory, problem) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                error!("what is remembered in {} cannot be read: {error}", site.state().display());
                return (Exit::Configuration, None);
            }
        };
        if let Some(problem) = problem {
            warn!("{problem}");
        }
        let nonce = mesh_runtime::secret();
        let seed =
            nonce.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        info!("mesh-provisioner-client {} for the node {}", env!("CARGO_PKG_VERSION"), joined.node);
        let settings = Settings {
            mesh: joined.mesh,
            mesh_key: joined.mesh_key,
            node: joined.node,
            nonce,
            seed,
            mode: self.mode,
            tells_differences: self.tells_differences,
            memory,
        };
        if let Some(folder) = self.status_file.as_ref().and_then(|file| file.parent())
            && self.root.is_some()
            && let Err(error) = std::fs::create_dir_all(folder)
        {
            warn!("{} cannot be made: {error}", folder.display());
        }
        shell::run(&site, journal, started, settings, self.status_file)
    }
}

//! A real nats-server on loopback, with a store of its own, that can be killed, frozen and started again.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::accounts::Account;
use crate::client::Client;
use crate::process::Process;
use crate::setup::{self, Setup};
use crate::wait::{self, PATIENCE, tail};

/// A server with monitoring. Address and store stay the same over [`Server::restart`].
pub struct Server {
    /// Killed before the directory below is removed: fields are dropped in this order.
    process: Option<Process>,
    /// What it starts with the next time: change it, then [`Server::restart`] or [`Server::reload`].
    pub setup: Setup,
    ports: Ports,
    version: (u32, u32, u32),
    directory: TempDir,
}

/// Where it listens. -1 is "any that is free", before the first start.
#[derive(Clone, Copy)]
struct Ports {
    client: i32,
    monitor: i32,
    /// Only there if the configuration has a `cluster` block that listens.
    cluster: Option<i32>,
}

impl Server {
    /// One with the shipped configuration.
    #[track_caller]
    pub fn start() -> Self {
        Setup::shipped().start()
    }

    #[track_caller]
    pub(crate) fn start_with(setup: Setup) -> Self {
        let mut server = Self {
            process: None,
            setup,
            ports: Ports { client: -1, monitor: -1, cluster: None },
            version: version(),
            directory: tempfile::Builder::new().prefix("mesh-bus-").tempdir().expect("a directory"),
        };
        server.launch();
        server
    }

    /// SIGKILL: gone without a goodbye, and without writing anything more.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Kills it if it runs, and starts it again with the same ports and the same store.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Has the running server read [`Server::setup`] again; returns once it has.
    ///
    /// Panics if it refuses. Whether there are streams at all cannot be changed so: [`Server::restart`] does.
    #[track_caller]
    pub fn reload(&self) {
        const DONE: &str = "Reloaded server configuration";
        const REFUSED: &str = "Failed to reload";
        let before = self.log().len();
        self.setup.write(self.directory.path());
        self.signal("HUP");
        wait::until("the server to reload its configuration", PATIENCE, || {
            let log = self.log();
            let since = &log[before..];
            assert!(!since.contains(REFUSED), "the server did not take the configuration:\n{}", tail(since));
            since.contains(DONE).then_some(()).ok_or_else(|| tail(since))
        });
    }

    /// SIGSTOP: it keeps its connections and says nothing any more.
    #[track_caller]
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Lets it go on after [`Server::freeze`].
    #[track_caller]
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Sends a signal by its short name; `USR2` is the lame duck.
    #[track_caller]
    pub fn signal(&self, signal: &str) {
        self.process().signal(signal);
    }

    /// Major, minor, patch; for what only newer servers have.
    pub fn version(&self) -> (u32, u32, u32) {
        self.version
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        loopback(self.ports.client)
    }

    /// Where clients connect, without user information.
    pub fn client_url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Where another server's `routes` lead. For a configuration that has a `cluster` block.
    #[track_caller]
    pub fn cluster_url(&self) -> String {
        format!("nats://{}", loopback(self.ports.cluster.expect("a cluster block that listens")))
    }

    /// A client of this account.
    #[track_caller]
    pub fn client(&self, account: &Account) -> Client {
        Client::connect(self.address(), account)
    }

    /// The directory of its configuration, log and store.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What it logged since its first start.
    pub fn log(&self) -> String {
        let log = fs::read(setup::log(self.directory.path())).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Waits for a line of its log.
    #[track_caller]
    pub fn wait_for_log(&self, needle: &str, within: Duration) -> String {
        wait::until(&format!("{needle:?} in the server's log"), within, || {
            let log = self.log();
            log.lines().find(|line| line.contains(needle)).map(str::to_owned).ok_or_else(|| tail(&log))
        })
    }

    /// Asks the monitoring port: `/connz?subs=1`, `/varz`, `/jsz`.
    #[track_caller]
    pub fn monitor(&self, path: &str) -> Value {
        let answer =
            get(loopback(self.ports.monitor), path).unwrap_or_else(|error| panic!("GET {path}: {error}"));
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|error| panic!("GET {path}: {error} in {answer}"))
    }

    /// The open connections of one user, as `/connz` has them. A `cid` that stays is a connection that was
    /// kept.
    #[track_caller]
    pub fn connections_of(&self, user: &str) -> Vec<Value> {
        let all = self.monitor("/connz?auth=1&subs=1&limit=10000");
        let all = all["connections"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|connection| connection["authorized_user"] == user).collect()
    }

    #[track_caller]
    fn process(&self) -> &Process {
        self.process.as_ref().expect("a server that was not killed")
    }

    /// Starts the program until it listens. The ports it had may be in use for a moment longer.
    #[track_caller]
    fn launch(&mut self) {
        let directory = self.directory.path().to_owned();
        let configuration = self.setup.write(&directory);
        let ports = self.ports;
        let mut command = Command::new(program());
        command
            .args([
                "--config".as_ref(),
                configuration.as_os_str(),
                "--ports_file_dir".as_ref(),
                directory.as_os_str(),
            ])
            .args([
                "--addr",
                "127.0.0.1",
                "--port",
                &ports.client.to_string(),
                "-m",
                &ports.monitor.to_string(),
            ])
            .args(self.setup.arguments(&directory))
            .envs(self.setup.environment(&directory))
            .stdout(Stdio::null())
            // What is wrong with a configuration is said here, before there is a log.
            .stderr(fs::File::create(directory.join("stderr")).expect("a file"));
        if let Some(port) = ports.cluster {
            command.args(["--cluster", &format!("nats://127.0.0.1:{port}")]);
        }
        let mut process = Process::start("nats-server", &mut command);
        self.ports = wait::until("nats-server to listen", PATIENCE, || {
            if let Some(status) = process.status() {
                let said = fs::read_to_string(directory.join("stderr")).unwrap_or_default();
                let log = self.log();
                let in_use = log.contains("address already in use");
                assert!(in_use, "nats-server ended at its start, {status}: {said}\n{}", tail(&log));
                process = Process::start("nats-server", &mut command);
            }
            let ports = read_ports(&directory, process.id())?;
            greeting(loopback(ports.client)).map_err(|error| format!("no INFO: {error}"))?;
            Ok(ports)
        });
        self.process = Some(process);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        wait::show_if_failing("server", || self.log());
    }
}

/// The nats-server to test against: `NATS_SERVER`, or the distribution's, which the scripts fetch the first time.
#[track_caller]
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = env::var("NATS_SERVER").ok().filter(|path| !path.is_empty());
        named.unwrap_or_else(|| {
            let mut fetch = Command::new("bash");
            fetch.args(["-c", "source packaging/lib/servers.sh && packaged_server"]);
            let fetched =
                fetch.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).output().expect("bash");
            let said = String::from_utf8_lossy(&fetched.stderr);
            assert!(
                fetched.status.success(),
                "there is no nats-server: {said}Set NATS_SERVER to the path of one"
            );
            String::from_utf8(fetched.stdout).expect("a path in UTF-8").trim_end().to_owned()
        })
    })
}

#[track_caller]
fn version() -> (u32, u32, u32) {
    let program = program();
    let output = Command::new(program)
        .arg("--version")
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program:?}: {error}. NATS_SERVER names another"));
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.trim().rsplit('v').next().unwrap_or_default();
    let mut numbers = numbers.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch),
        _ => panic!("{program:?} --version says {text:?}"),
    }
}

fn loopback(port: i32) -> SocketAddr {
    let port = u16::try_from(port).expect("a port that is known");
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Reads the file in which the server says where it listens: `nats-server_<pid>.ports`.
fn read_ports(directory: &Path, id: u32) -> Result<Ports, String> {
    let end = format!("_{id}.ports");
    let file = fs::read_dir(directory)
        .map_err(|error| error.to_string())?
        .flatten()
        .find(|file| file.file_name().to_string_lossy().ends_with(&end))
        .ok_or("no ports file yet")?;
    let text = fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
    // It may be seen while it is still being written.
    let said: Value = serde_json::from_str(&text).map_err(|error| format!("{error} in {text:?}"))?;
    let port = |what: &str| said[what][0].as_str()?.rsplit_once(':')?.1.parse().ok();
    Ok(Ports {
        client: port("nats").ok_or_else(|| format!("no client port in {text:?}"))?,
        monitor: port("monitoring").ok_or_else(|| format!("no monitoring port in {text:?}"))?,
        cluster: port("cluster"),
    })
}

/// The first line that the server sends to a client.
fn greeting(address: SocketAddr) -> std::io::Result<String> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.starts_with("INFO ") { Ok(line) } else { Err(std::io::Error::other(line)) }
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

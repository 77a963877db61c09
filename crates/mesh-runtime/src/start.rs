//! What every `serve` does before its loop starts.

use crossbeam_channel::Receiver;
use log::{error, warn};
use mesh_bus::config::{self, BusConfig, Flags};
use mesh_bus::library;
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::output::complain;
use mesh_daemon::signals::{self, Signal};
use mesh_daemon::{log as daemon_log, panic};

/// What the loop needs from its surroundings.
#[derive(Debug)]
pub struct Started {
    /// How to connect.
    pub connection: BusConfig,
    /// Signals as messages.
    pub signals: Receiver<Signal>,
    /// The service manager.
    pub notify: Notify,
}

/// Takes signals, starts the log, and reads the settings of the connection. A failure is logged, and its exit code is
/// returned.
pub fn start(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Started, Exit> {
    // First of all: as PID 1 a signal without a handler does nothing.
    let signals = signals::start().map_err(|error| {
        complain(&format!("signals cannot be taken: {error}"));
        Exit::Bug
    })?;
    daemon_log::start(environment);
    panic::end_process(library::owns_panic);
    let connection = config::load(flags, environment).map_err(|error| {
        error!("{error}");
        Exit::Configuration
    })?;
    for warning in config::warnings(flags, &connection) {
        warn!("{warning}");
    }
    let notify = Notify::from_environment(environment).map_err(|error| {
        error!("NOTIFY_SOCKET: {error}");
        Exit::Configuration
    })?;
    Ok(Started { connection, signals, notify })
}

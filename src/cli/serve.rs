//! `serve`: holds the seat.

use super::connecting;
use crate::seat;
use crate::seat::limits::{CHECK_EVERY, MAX_KEYS_ONE_BY_ONE};
use crate::shell;
use ::log::info;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::time::rfc3339;
use mesh_daemon::{duration, status};
use mesh_provisioner_cli::connect::Environment;
use mesh_provisioner_cli::parse_prefix;
use mesh_service::identity::Identity;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

connecting! {
    /// run the seat until TERM or INT; HUP checks the registry at once
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(subcommand, name = "serve", example = "{command_name} --creds /etc/mesh-provisioner/seat.creds --status-file /run/mesh-provisioner/status.json")]
    pub(super) struct Serve {
        /// how often the registry is checked, such as 90s, 1h30m or 1d [1h]
        #[argh(option, arg_name = "time", default = "EVERY", from_str_fn(parse_time))]
        every: Duration,

        /// answer under this subject too, besides _INBOX and _R_; may be repeated
        #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
        reply_prefix: Vec<String>,

        /// status file to write [$RUNTIME_DIRECTORY/status.json, if there is one]
        #[argh(option, arg_name = "file")]
        status_file: Option<PathBuf>,
    }
}

const EVERY: Duration = Duration::from_secs(3600);

impl Serve {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let started = match mesh_runtime::start(&self.flags(), environment) {
            Ok(started) => started,
            Err(exit) => return exit,
        };
        let identity =
            Identity { id: nuid::next().to_string(), version: env!("CARGO_PKG_VERSION").to_owned() };
        info!("mesh-provisioner {} takes the seat as {}", identity.version, identity.id);
        let status_file = self.status_file.or_else(|| status::default_path(environment));
        let settings = seat::Settings {
            jitter_seed: seed(&identity.id),
            inbox: mesh_runtime::secret(),
            identity,
            started: rfc3339(SystemTime::now()),
            every: self.every,
            reply_prefixes: self.reply_prefix,
            check_every: CHECK_EVERY,
            max_keys_one_by_one: MAX_KEYS_ONE_BY_ONE,
        };
        shell::serve(settings, started, status_file)
    }
}

/// Another number for each id.
fn seed(id: &str) -> u64 {
    id.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_millis(100)..=Duration::from_secs(366 * 24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_gives_a_seed_of_its_own() {
        let ids = ["SJeRsHlKvfnnOMyQTG9YX9", "SJeRsHlKvfnnOMyQTG9YXA", "zzzzzzzzzzzzzzzzzzzzzz", ""];
        let seeds: std::collections::BTreeSet<u64> = ids.into_iter().map(seed).collect();
        assert_eq!(seeds.len(), ids.len());
    }
}

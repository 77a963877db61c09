//! `serve`: runs the controller.

use super::connecting;
use super::context::{Ended, Environment, OrEnd, paths};
use crate::broker::load::Reload;
use crate::serve::wire::REPLIES;
use crate::serve::{self, Settings, reads};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::status;
use std::path::PathBuf;

connecting! {
    /// run the controller until TERM or INT: joins, reports, mirrors, accounts; HUP looks at the store at once
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "serve",
        note = "One at a time serves: a second one stands by until the lease is free. Without --reload-pid and\n--reload-command the file of users is written, and the server is reloaded by hand.\n\nExit status: 0 stopped on request; 64 the command line is wrong; 70 a bug; 75 the connection is stuck;\n78 the configuration is wrong, or there is no store.",
        example = "{command_name} --nkey /etc/mesh/keys/controller.nk --users-file /etc/nats/users.conf --reload-pid /run/nats/nats.pid"
    )]
    pub(super) struct Serve {
        /// the file of users that the server includes [users.conf beside the store]
        #[argh(option, arg_name = "file")]
        users_file: Option<PathBuf>,

        /// the server's process id, or a file that holds it: it gets HUP when the file of users has changed
        #[argh(option, arg_name = "pid")]
        reload_pid: Option<String>,

        /// a program with its arguments, without a shell, that has the server load its configuration again
        #[argh(option, arg_name = "command")]
        reload_command: Option<String>,

        /// answer under this subject too, besides _INBOX and _R_; may be repeated
        #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
        reply_prefix: Vec<String>,

        /// status file to write [$RUNTIME_DIRECTORY/status.json, if there is one]
        #[argh(option, arg_name = "file")]
        status_file: Option<PathBuf>,
    }
}

fn parse_prefix(prefix: &str) -> Result<String, String> {
    REPLIES.check_prefix(prefix).map(|()| prefix.to_owned())
}

impl Serve {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let started = mesh_runtime::start(&self.flags(), environment)?;
        let settings = Settings {
            paths: paths(environment)?,
            users_file: self.users_file,
            reload: Reload::of(self.reload_command.as_deref(), self.reload_pid.as_deref()).or_end()?,
            status_file: self.status_file.or_else(|| status::default_path(environment)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reply_prefixes: self.reply_prefix,
            read: reads::read,
        };
        Ok(serve::serve(started, settings))
    }
}

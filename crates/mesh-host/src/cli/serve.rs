//! `serve`, and what it starts for each connection.

use super::site;
use crate::serve;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;
use std::path::PathBuf;
use std::time::Duration;

/// listen on the socket, and apply what was accepted last at boot and at the interval
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "serve")]
pub(super) struct Serve {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// seconds between two applies of the own copy, 3600 if it is left out
    #[argh(option, arg_name = "seconds", default = "3600")]
    every: u64,
}

/// answer the connection on the standard input; started by serve
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "answer")]
pub(super) struct Answer {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,
}

/// apply the own copy again; started by serve
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "reapply")]
pub(super) struct Reapply {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(&self) -> Exit {
        if !(1..=7 * 24 * 3600).contains(&self.every) {
            complain(&format!("--every {}: expected from 1 second to 604800", self.every));
            return Exit::Usage;
        }
        let every = Duration::from_secs(self.every);
        match serve::serve(&site(self.root.as_ref()), self.root.clone(), every) {
            Ok(exit) => exit,
            Err(error) => {
                complain(&format!("cannot serve: {error}"));
                Exit::Failed
            }
        }
    }
}

impl Answer {
    pub(super) fn run(&self) -> Exit {
        serve::answer(&site(self.root.as_ref()))
    }
}

impl Reapply {
    pub(super) fn run(&self) -> Exit {
        serve::reapply(&site(self.root.as_ref()))
    }
}

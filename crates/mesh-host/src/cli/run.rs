//! `run`: fires one scheduled resource now.

use super::{site, trouble};
use crate::session;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use std::path::PathBuf;

/// run one scheduled container now, to its end
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "run")]
pub(super) struct Run {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the id of the resource
    #[argh(positional)]
    id: String,
}

impl Run {
    pub(super) fn run(&self) -> Exit {
        match session::run_now(&site(self.root.as_ref()), &self.id) {
            Ok(()) => Exit::Done,
            Err(why) => trouble(&why),
        }
    }
}

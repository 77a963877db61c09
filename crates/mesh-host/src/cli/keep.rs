//! `forget`, `restore` and `confirm`: what a person decides.

use super::{site, trouble};
use crate::session;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;

/// drop the record of a resource, and touch nothing on the machine
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "forget")]
pub(super) struct Forget {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the id of the resource
    #[argh(positional)]
    id: String,
}

/// put back the file that was there before this host first wrote over it
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "restore")]
pub(super) struct Restore {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the id of the resource, or the path
    #[argh(positional)]
    id: String,
}

/// keep closed what was closed by hand, which a timer would let in again
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "confirm")]
pub(super) struct Confirm {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,
}

impl Confirm {
    pub(super) fn run(&self) -> Exit {
        match session::confirm_by_hand(&site(self.root.as_ref())) {
            Ok(()) => print("confirmed    what was closed stays closed\n"),
            Err(why) => trouble(&why),
        }
    }
}

impl Forget {
    pub(super) fn run(&self) -> Exit {
        match session::forget(&site(self.root.as_ref()), &self.id) {
            Ok(targets) if targets.is_empty() => {
                complain(&format!("nothing is remembered of {}: see mesh-host status", self.id));
                Exit::Failed
            }
            Ok(targets) => {
                let line = |target| format!("forgotten    {}  {target}\n", self.id);
                print(&targets.iter().map(line).collect::<String>())
            }
            Err(why) => trouble(&why),
        }
    }
}

impl Restore {
    pub(super) fn run(&self) -> Exit {
        match session::restore(&site(self.root.as_ref()), &self.id) {
            Ok(path) => print(&format!("restored     {path}\n")),
            Err(why) => trouble(&why),
        }
    }
}

//! `key`: the sealing key of this machine.

use super::{site, trouble};
use crate::session;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;

/// make or show the key that secrets are sealed to
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "key")]
pub(super) struct Key {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// make: a new key, if there is none yet; show: the public half
    #[argh(positional)]
    what: String,
}

impl Key {
    pub(super) fn run(&self) -> Exit {
        let site = site(self.root.as_ref());
        let key = match self.what.as_str() {
            "make" => match session::lock(&site) {
                Ok(_lock) => site.make_sealing_key().map(Some),
                Err(why) => return trouble(&why),
            },
            "show" => site.sealing_key(),
            other => {
                complain(&format!("unknown word {other:?}: expected make or show"));
                return Exit::Usage;
            }
        };
        match key {
            Ok(Some(key)) => print(&format!("{}\n", key.public_key())),
            Ok(None) => {
                complain("there is no sealing key: make one with mesh-host key make");
                Exit::Failed
            }
            Err(error) => {
                complain(&format!("the sealing key cannot be used: {error}"));
                Exit::Failed
            }
        }
    }
}

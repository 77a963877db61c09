//! `take`: a person takes over what is held of a module.

use super::apply::{finish, teller};
use super::{site, trouble};
use crate::session;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;

/// take over what is held of a module on an adopted machine
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "take")]
pub(super) struct Take {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the digest of the preview, without which nothing is done
    #[argh(option, arg_name = "digest")]
    yes: Option<String>,

    /// the module
    #[argh(positional)]
    module: String,
}

impl Take {
    pub(super) fn run(&self) -> Exit {
        let site = site(self.root.as_ref());
        let preview = match session::preview(&site, &self.module, &mut teller(false)) {
            Ok(preview) => preview,
            Err(why) => return trouble(&why),
        };
        let Some(yes) = &self.yes else {
            return print(&format!(
                "taking {module} over changes this; to do it: mesh-host take {module} --yes {}\n",
                preview.short(),
                module = self.module
            ));
        };
        if !preview.is(yes) {
            complain(&format!(
                "the digest is {} now: look at what changed, and give that one",
                preview.short()
            ));
            return Exit::Failed;
        }
        match session::take(&site, &self.module, &mut teller(false)) {
            Ok(report) => {
                finish(&report, false);
                if report.first_failure.is_some() { Exit::NotOk } else { Exit::Done }
            }
            Err(why) => trouble(&why),
        }
    }
}

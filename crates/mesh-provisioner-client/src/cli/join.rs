//! `join`: this machine becomes a node.

use std::io::Read as _;
use std::path::PathBuf;

use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use zeroize::Zeroizing;

use super::{Environment, site};
use crate::join::{self, How};

/// make this machine a node of a mesh, with a token of mesh-controller token issue
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "join",
    note = "As root, once. Run it again with the same token when the answer was lost: the keys stay the same.",
    example = "{command_name} -",
    example = "{command_name} --root /tmp/attic -"
)]
pub(super) struct Join {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the CA that signed the server certificates; it is kept beside the settings
    #[argh(option, arg_name = "file")]
    tls_ca: Option<PathBuf>,

    /// the program mesh-host [beside this program, else on the path]
    #[argh(option, arg_name = "file")]
    mesh_host: Option<PathBuf>,

    /// the user that the client runs as [mesh-client]
    #[argh(option, arg_name = "name", default = "\"mesh-client\".to_owned()")]
    user: String,

    /// the token, or - for stdin [MESH_TOKEN]
    #[argh(positional)]
    token: Option<String>,
}

impl Join {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let word = match self.token {
            Some(dash) if dash == "-" => {
                let mut word = Zeroizing::new(String::new());
                if let Err(error) = std::io::stdin().take(64 << 10).read_to_string(&mut word) {
                    complain(&format!("the token cannot be read from stdin: {error}"));
                    return Exit::Usage;
                }
                word
            }
            Some(word) => {
                complain(
                    "warning: every user of this machine can read the token in the arguments: give it on stdin with join -",
                );
                Zeroizing::new(word)
            }
            None => match environment("MESH_TOKEN") {
                Some(word) => Zeroizing::new(word),
                None => {
                    complain("no token is given: give it on stdin with join -, or in MESH_TOKEN");
                    return Exit::Usage;
                }
            },
        };
        let how = How {
            site: site(self.root.as_ref()),
            ca: self.tls_ca,
            mesh_host: self.mesh_host,
            user: self.user,
        };
        match join::join(&how, &word) {
            Ok(done) => print(&done),
            Err((exit, why)) => {
                complain(&why);
                exit
            }
        }
    }
}

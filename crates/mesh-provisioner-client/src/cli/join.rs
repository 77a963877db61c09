//! `join`: this machine becomes a node.

use super::{Environment, site};
use crate::join::{self, Failure, Source, Wanted, read_token};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::duration;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;
use std::time::Duration;

/// make this machine a node of a mesh, with a token of mesh-controller token issue
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "join",
    note = "As root, once. The keys of this machine are made here and stay here; settings of both programs are written when\nthe mesh has answered. Run it again with the same token when the answer was lost: the keys stay the same.\n\nExit status: 0 joined; 1 something on this machine is in the way, or the controller refuses; 64 no token; 69 nobody\nanswers; 77 the bus does not let the token's account ask.",
    example = "{command_name} -",
    example = "{command_name} --root /tmp/attic -"
)]
pub(super) struct Join {
    /// a tree that is not the machine; an ordinary user may
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the user that the client runs as [mesh-provisioner-client]
    #[argh(option, arg_name = "name")]
    user: Option<String>,

    /// where this node is reached [the address from which it speaks to the bus]
    #[argh(option, arg_name = "address")]
    address: Option<String>,

    /// the CA that signed the server certificates: kept, and trusted in place of the token's pin
    #[argh(option, arg_name = "file")]
    tls_ca: Option<PathBuf>,

    /// the program mesh-host [beside this program, else on the path]
    #[argh(option, arg_name = "file")]
    host_program: Option<PathBuf>,

    /// how long to ask, such as 90s or 10m [1m]
    #[argh(option, arg_name = "time", default = "WITHIN", from_str_fn(parse_time))]
    timeout: Duration,

    /// the token, or - for the standard input [MESH_TOKEN]
    #[argh(positional)]
    token: Option<String>,
}

const WITHIN: Duration = Duration::from_secs(60);

fn parse_time(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_secs(1)..=Duration::from_secs(24 * 3600))
}

impl Join {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let (token, source) = match read_token(self.token, environment, &mut std::io::stdin()) {
            Some(Ok(read)) => read,
            Some(Err(why)) => {
                complain(&why);
                return Exit::Usage;
            }
            None => {
                complain("no token is given: give it on the standard input with join -, or in MESH_TOKEN");
                return Exit::Usage;
            }
        };
        if source == Source::Argument {
            complain(
                "warning: every user of this machine can read the token in the arguments: give it on the standard input with join -",
            );
        }
        let wanted = Wanted {
            site: site(self.root.as_ref()),
            token,
            user: self.user,
            address: self.address,
            host: self.host_program,
            ca: self.tls_ca,
            within: self.timeout,
        };
        match join::join(&wanted, &mut complain) {
            Ok(joined) => {
                let next = if wanted.site.is_machine() {
                    "systemctl enable --now mesh-host mesh-provisioner-client"
                } else {
                    "mesh-host serve and mesh-provisioner-client serve, each with the same --root"
                };
                print(&format!("joined the mesh {} as {}\nnow: {next}\n", joined.mesh, joined.node))
            }
            Err(failure) => {
                complain(failure.why());
                match failure {
                    Failure::Here(_) | Failure::Refused(_) => Exit::Failed,
                    Failure::Denied(_) => Exit::Denied,
                    Failure::Unavailable(_) => Exit::Unavailable,
                }
            }
        }
    }
}

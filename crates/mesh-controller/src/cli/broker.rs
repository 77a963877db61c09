//! `broker`: where the bus is, and its accounts.

use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use crate::broker::{self, gather, load};
use crate::store::now;
use argh::{ArgsInfo, FromArgs};
use mesh_bus::config;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;

connecting! {
    /// say where the bus is and whether it has the newest accounts; or, with users, write those
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "broker",
        note = "Exit status: 0 the server has the newest file of users; 1 it has not; 78 the configuration is wrong.",
        example = "{command_name} --server tls://bus.example:4222"
    )]
    pub(super) struct BrokerCommand {
        #[argh(subcommand)]
        command: Option<Which>,
    }
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Which {
    Users(Users),
}

/// write all accounts with their rights, as a file that the server's configuration includes
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "users",
    note = "No seed is in the file. Include it inside the mesh's account by a relative path, as packaging/bus/mesh.conf does,\nand have no other users there.",
    example = "{command_name} --keys /etc/mesh/keys --out /etc/nats/users.conf"
)]
struct Users {
    /// the file, replaced as a whole [stdout]
    #[argh(option, arg_name = "file")]
    out: Option<PathBuf>,

    /// a folder for the seeds of administrator, controller, reader, seat and vault; those that are missing are made, 0600
    #[argh(option, arg_name = "folder")]
    keys: Option<PathBuf>,
}

impl BrokerCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Some(Which::Users(users)) => users.run(environment),
            None => self.look(environment),
        }
    }

    fn look(&self, environment: Environment<'_>) -> Ended {
        let connection = config::load(&self.flags(), environment).map_err(|why| {
            complain(&why.to_string());
            Exit::Configuration
        })?;
        let store = store(environment)?;
        let signer = crate::identity::open(&store).or_end()?;
        let body = gather::body(&store, &signer, now()).or_end()?;
        let servers: Vec<String> = connection.servers.iter().map(ToString::to_string).collect();
        let proven = load::prove(&connection, &signer.sentinel(&body.digest()));
        print(&format!(
            "server  {}\nusers   {}\nfile    {}\n",
            servers.join(","),
            body.users(),
            body.digest()
        ));
        match proven {
            Ok(()) => {
                print("loaded  yes: the sentinel is let in\n");
                Ok(Exit::Done)
            }
            Err(why) => {
                print(&format!(
                    "loaded  no: the sentinel is not let in: {why}\n        write the file with broker users --out FILE and reload the server, or let serve do it\n"
                ));
                Err(Exit::Failed)
            }
        }
    }
}

impl Users {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let signer = crate::identity::open(&store).or_end()?;
        let doing = Doing::new(environment, "broker users", "keys of the programs");
        let made = broker::users(&mut store, &signer, self.keys.as_deref(), &doing.act()).or_end()?;
        for seed in &made.seeds {
            complain(&format!("made {}", seed.display()));
        }
        if !made.missing.is_empty() {
            complain(&format!(
                "warning: no key is known for {}: --keys FOLDER makes them",
                made.missing.join(", ")
            ));
        }
        match &self.out {
            None => Ok(print(&made.text)),
            Some(path) => {
                load::write(path, &made.text, 0o644).map_err(|why| {
                    complain(&why);
                    Exit::Failed
                })?;
                complain(&format!("{}: {} users", path.display(), made.users));
                Ok(Exit::Done)
            }
        }
    }
}

//! `broker`: where the bus is, and its accounts.

use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use crate::broker::{self, gather, load, users};
use crate::store::now;
use argh::{ArgsInfo, FromArgs};
use mesh_bus::config;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::path::PathBuf;
use std::str::FromStr;

connecting! {
    /// say where the bus is and whether it has the newest accounts; or, as broker users, write those
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "broker",
        note = "broker users writes all accounts with their rights as one file. No seed is in it. Include it inside the mesh's\naccount by a relative path, as packaging/bus/mesh.conf does, and have no other users there.\n\nExit status: 0 done, or the server has the newest file; 1 it has not; 78 the configuration is wrong.",
        example = "{command_name} --server tls://bus.example:4222",
        example = "{command_name} users --keys /etc/mesh/keys --out /etc/nats/users.conf"
    )]
    pub(super) struct BrokerCommand {
        /// users: the file, replaced as a whole [stdout]
        #[argh(option, arg_name = "file")]
        out: Option<PathBuf>,

        /// users: a folder for the seeds of administrator, controller, reader, seat and vault; missing ones are made, 0600
        #[argh(option, arg_name = "folder")]
        keys: Option<PathBuf>,

        /// users: take other keys than those that are known, and lock out whom the store does not know
        #[argh(switch)]
        replace: bool,

        /// users, to write the accounts
        #[argh(positional, arg_name = "users")]
        users: Option<Users>,
    }
}

/// The one word that may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Users;

impl FromStr for Users {
    type Err = String;

    fn from_str(word: &str) -> Result<Users, String> {
        if word == "users" { Ok(Users) } else { Err(format!("{word:?} is not users")) }
    }
}

impl BrokerCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.users {
            Some(Users) => self.write(environment),
            None if self.out.is_some() || self.keys.is_some() || self.replace => {
                complain("--out, --keys and --replace are of broker users");
                Err(Exit::Usage)
            }
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

    fn write(&self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let signer = crate::identity::open(&store).or_end()?;
        let doing = Doing::new(environment, "broker users", "keys of the programs");
        let made =
            broker::users(&mut store, &signer, self.keys.as_deref(), self.replace, &doing.act()).or_end()?;
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
                let there = std::fs::read_to_string(path).unwrap_or_default();
                let lost = users::locked_out(&there, &made.text, &gather::gone(&store).or_end()?);
                if !lost.is_empty() && !self.replace {
                    complain(&format!(
                        "{} has accounts that this store never had, and they would be locked out: {}: bring the right store back, or say --replace",
                        path.display(),
                        lost.join(", ")
                    ));
                    return Err(Exit::Failed);
                }
                for name in lost {
                    complain(&format!("locked out: {name}"));
                }
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

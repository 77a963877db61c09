//! `token`: one-time rights to join.

use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use super::show;
use crate::join::tokens::{self, Standing, Wanted};
use crate::store::{Error, identity, lease, now};
use crate::{rekey, snapshot};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::{config, pin};
use mesh_daemon::duration;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print, print_on};
use mesh_daemon::table::Table;
use mesh_model::digest::Digest;
use mesh_model::token::Token;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// one-time rights to join
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "token")]
pub(super) struct TokenCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, for as long as the command runs")]
enum Which {
    Issue(Issue),
    List(List),
    Revoke(Revoke),
}

connecting! {
    /// print the command by which a machine joins; it is told once, and the store keeps no secret of it
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "issue",
        note = "The token names the servers as they are given here: give addresses that the machine reaches. It is good\nonce, for that name, and a node that has joined needs none again.",
        example = "{command_name} --new attic --server tls://bus.example:4222 --certificate bus.pem",
        example = "{command_name} --node attic --valid 10m --out attic.token"
    )]
    struct Issue {
        /// for a node that is known
        #[argh(option, arg_name = "name")]
        node: Option<String>,

        /// for a node that the mesh knows from its join on
        #[argh(option, arg_name = "name")]
        new: Option<String>,

        /// the new node's machine was in use before: what is found there is left alone
        #[argh(switch)]
        adopted: bool,

        /// how long it is good, up to 24h [1h]
        #[argh(option, arg_name = "time", default = "tokens::VALID", from_str_fn(parse_valid))]
        valid: Duration,

        /// the server's certificate: the machine takes only a server that has its key
        #[argh(option, arg_name = "file")]
        certificate: Option<PathBuf>,

        /// write the token alone into a new file of mode 0600, and print nothing
        #[argh(option, arg_name = "file")]
        out: Option<PathBuf>,
    }
}

/// list every token that was issued, without any secret
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "list")]
struct List {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

/// take a token back; one that was used or taken back before stays as it is
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "revoke")]
struct Revoke {
    /// the token's id, or what it begins with
    #[argh(positional, arg_name = "id")]
    id: String,
}

fn parse_valid(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_secs(1)..=tokens::MAX_VALID)
}

impl TokenCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Which::Issue(command) => command.run(environment),
            Which::List(command) => command.run(environment),
            Which::Revoke(command) => command.run(environment),
        }
    }
}

impl Issue {
    fn run(self, environment: Environment<'_>) -> Ended {
        let (node, is_new) = match (&self.node, &self.new) {
            (Some(node), None) => (node, false),
            (None, Some(node)) => (node, true),
            _ => {
                complain("give either --node NAME, for a node that is known, or --new NAME");
                return Err(Exit::Usage);
            }
        };
        let connection = config::load(&self.flags(), environment).map_err(|why| {
            complain(&why.to_string());
            Exit::Configuration
        })?;
        let pin = self.certificate.as_deref().map(pin::of_file).transpose().map_err(|why| {
            complain(&why);
            Exit::Configuration
        })?;
        let pin = pin.map(|bytes| {
            format!("sha256:{}", data_encoding::HEXLOWER.encode(&bytes))
                .parse::<Digest>()
                .unwrap_or_else(|why| unreachable!("32 bytes: {why}"))
        });
        let servers: Vec<String> = connection.servers.iter().map(ToString::to_string).collect();
        let here =
            |server: &config::address::Address| server.host == "localhost" || server.host.starts_with("127.");
        if connection.servers.iter().all(here) {
            complain(
                "warning: the token names a server of this machine alone: --server names one that others reach",
            );
        }
        if pin.is_some() && connection.servers.iter().any(|server| !server.tls) {
            complain("warning: without tls:// the certificate is not looked at");
        }
        let mut store = store(environment)?;
        let signer = crate::identity::open(&store).or_end()?;
        let doing = Doing::new(environment, "token issue", node.clone());
        let wanted =
            Wanted { node, is_new, adopted: self.adopted, valid: self.valid, servers: &servers, pin };
        let hand_over = |token: &Token| match &self.out {
            Some(path) => write(path, token),
            None => print_on(&format!("MESH_TOKEN={} mesh-provisioner-client join\n", *token.to_word()))
                .map_err(|_| Error::Broken("the token could not be printed, and there is none".into())),
        };
        let row = tokens::issue(&mut store, &signer, &wanted, &doing.act(), hand_over).or_end()?;
        complain(&format!("{}: good once for {node}, until {}", row.id, show::at(row.until)));
        let snapshot = snapshot::read(store.inventory(), store.identity()).or_end()?;
        for note in rekey::notes(&snapshot, &[row], now()).into_values() {
            complain(&note);
        }
        if !lease::row(store.inventory()).or_end()?.is_held(now()) {
            complain("warning: serve does not run here, and nobody answers a join without it");
        }
        Ok(Exit::Done)
    }
}

fn write(path: &Path, token: &Token) -> Result<(), Error> {
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let written = file
            .write_all(token.to_word().as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all());
        if written.is_err() {
            std::fs::remove_file(path).ok();
        }
        written
    };
    write().map_err(|why| {
        Error::Broken(format!("{} cannot be written: {why}: no token was issued", path.display()))
    })
}

fn words(standing: Standing) -> String {
    match standing {
        Standing::Used(at) | Standing::Revoked(at) => format!("{} {}", standing.word(), show::at(at)),
        Standing::Good | Standing::Expired => standing.word().to_owned(),
    }
}

impl List {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let all = identity::tokens(store.identity()).or_end()?;
        let at = now();
        if self.json {
            let rows: Vec<Value> = all
                .iter()
                .map(|token| {
                    json!({"id": token.id, "node": token.node, "adopted": token.adopted, "issued": token.issued,
                        "until": token.until, "standing": tokens::standing(token, at).word(), "used": token.used,
                        "used_by": token.used_by, "revoked": token.revoked})
                })
                .collect();
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        let mut table = Table::new(["ID", "NODE", "STANDING", "ISSUED", "UNTIL", "USED BY"]);
        for token in &all {
            table.row([
                token.id.clone(),
                token.node.clone(),
                words(tokens::standing(token, at)),
                show::at(token.issued),
                show::at(token.until),
                token.used_by.clone().unwrap_or_default(),
            ]);
        }
        Ok(print(&show::table(&table)))
    }
}

impl Revoke {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "token revoke", self.id.clone());
        let (token, before) = tokens::revoke(&mut store, &self.id, &doing.act()).or_end()?;
        let what = match before {
            Standing::Good => "was good, and is taken back".to_owned(),
            Standing::Expired => "was expired, and is taken back".to_owned(),
            Standing::Used(at) => {
                format!("was used by {} at {}", token.used_by.as_deref().unwrap_or("a node"), show::at(at))
            }
            Standing::Revoked(at) => format!("was taken back at {} before", show::at(at)),
        };
        Ok(print(&format!("{} for {}: {what}\n", token.id, token.node)))
    }
}

//! Joining a mesh (MESH.md, section 10): keys are made on this machine, a token is spent once, and the settings of both
//! programs are written, both or none.
//!
//! Whatever can fail is tried before the token is spent. The keys stay over a failure, so that asking again is asking
//! with the same keys, and gets the same answer.

mod accounts;
mod ask;
mod facts;
mod files;
mod keys;
mod token;

pub use token::{Source, read as read_token};

use crate::site::{Joined, Site};
use accounts::Owner;
use files::Pending;
use mesh_model::join::{Answer, Request};
use mesh_model::json::Json;
use mesh_model::token::Token;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Why a machine has not joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Something on this machine: files, users, the host.
    Here(String),
    /// The controller refuses.
    Refused(String),
    /// The bus does not let us ask.
    Denied(String),
    /// Nobody answered.
    Unavailable(String),
}

impl Failure {
    /// In words.
    pub fn why(&self) -> &str {
        match self {
            Failure::Here(why) | Failure::Refused(why) | Failure::Denied(why) | Failure::Unavailable(why) => {
                why
            }
        }
    }
}

/// How to join.
pub struct Wanted {
    /// Where everything is.
    pub site: Site,
    /// The right to join.
    pub token: Token,
    /// Who the client runs as. Absent: the user of the package.
    pub user: Option<String>,
    /// Where this node is reached. Absent: the address from which it speaks to the bus.
    pub address: Option<String>,
    /// The program that makes the sealing key. Absent: the one beside this program, else that of the path.
    pub host: Option<PathBuf>,
    /// The CA that signed the bus's certificates: it is kept, and trusted in place of the token's pin.
    pub ca: Option<PathBuf>,
    /// How long to ask, in all.
    pub within: Duration,
}

/// The host's settings.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct HostSettings<'a> {
    mesh: &'a str,
    mesh_key: &'a str,
    vault: &'a str,
    node: &'a str,
    client_uid: u32,
}

/// Joins. `say` is told what is waited for.
pub fn join(wanted: &Wanted, say: &mut dyn FnMut(&str)) -> Result<Joined, Failure> {
    let Wanted { site, token, .. } = wanted;
    expect_same_mesh(site, token)?;
    let owner = accounts::owner(site, wanted.user.as_deref()).map_err(Failure::Here)?;
    let bus = keys::bus(site, &owner).map_err(Failure::Here)?;
    let sealing = keys::sealing(site, wanted.host.as_deref()).map_err(Failure::Here)?;
    let pending = prepare(wanted).map_err(Failure::Here)?;
    let bus_key = bus.public_key().parse().map_err(Failure::Here)?;
    let facts = facts::facts(wanted.address.as_deref(), &token.servers);
    let request = Request::new(&token.id, token.mesh.as_str(), &token.node, bus_key, sealing, facts);
    let answer = ask::ask(wanted, &request, &bus, say)?;
    expect_same_id(site, &answer)?;
    write(pending, wanted, &answer, &owner).map_err(Failure::Here)
}

/// A machine that has joined stays in its mesh, and under its name.
fn expect_same_mesh(site: &Site, token: &Token) -> Result<(), Failure> {
    if !site.joined_path().exists() {
        return Ok(());
    }
    let joined = site.joined().map_err(Failure::Here)?;
    if joined.mesh_key == token.mesh && joined.node == token.node {
        return Ok(());
    }
    Err(Failure::Here(format!(
        "this machine is the node {} of the mesh {} already, and the token is for {} of {}: to move it, have the old mesh remove the node, and remove {} and {}",
        joined.node,
        joined.mesh_key,
        token.node,
        token.mesh,
        site.settings().display(),
        site.state().display(),
    )))
}

fn expect_same_id(site: &Site, answer: &Answer) -> Result<(), Failure> {
    match site.joined() {
        Ok(joined) if joined.mesh != answer.mesh => Err(Failure::Here(format!(
            "the mesh says that its id is {}, and this machine joined {}",
            answer.mesh, joined.mesh
        ))),
        _ => Ok(()),
    }
}

/// The files to write. That they can be written is known from here on.
struct Prepared {
    client: Pending,
    host: Pending,
    /// With its text.
    ca: Option<(Pending, String)>,
}

fn prepare(wanted: &Wanted) -> Result<Prepared, String> {
    let site = &wanted.site;
    let ca = wanted.ca.as_ref().map(|path| {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("the CA file {} cannot be read: {error}", path.display()))?;
        Ok::<_, String>((Pending::new(&site.ca_path())?, text))
    });
    Ok(Prepared {
        client: Pending::new(&site.joined_path())?,
        host: Pending::new(&site.host_settings_path())?,
        ca: ca.transpose()?,
    })
}

fn write(prepared: Prepared, wanted: &Wanted, answer: &Answer, owner: &Owner) -> Result<Joined, String> {
    let token = &wanted.token;
    let joined = Joined {
        mesh: answer.mesh.clone(),
        mesh_key: token.mesh.clone(),
        node: answer.node.clone(),
        servers: token.servers.clone(),
        pin: token.pin,
    };
    let host = HostSettings {
        mesh: &answer.mesh,
        mesh_key: token.mesh.as_str(),
        vault: answer.vault.as_str(),
        node: &answer.node,
        client_uid: owner.uid,
    };
    let text = |value: serde_json::Result<String>| value.expect("texts and numbers") + "\n";
    let Prepared { client: mut client_file, host: mut host_file, ca } = prepared;
    client_file.fill(&text(serde_json::to_string_pretty(&joined)))?;
    host_file.fill(&text(serde_json::to_string_pretty(&host)))?;
    let mut files = vec![client_file, host_file];
    if let Some((mut file, text)) = ca {
        file.fill(&text)?;
        files.push(file);
    }
    files::put_all(files)?;
    Ok(joined)
}

/// What a request says of this machine.
fn text_members(members: Vec<(&str, Option<String>)>) -> Json {
    let known = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Json::text(value?))));
    Json::Object(known.collect())
}

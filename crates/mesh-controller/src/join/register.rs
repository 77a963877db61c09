//! Requests to join, judged and written down: many in one transaction, because each would wait for the disk.

use crate::broker::gather;
use crate::identity::Signer;
use crate::join::judge::{Known, Refusal, Verdict, judge};
use crate::store::{Change, Error, Moment, Store, acts::Act, identity, nodes};
use mesh_model::join::{Answer, Proven, Request};
use mesh_model::json::{Json, Read as _};
use mesh_model::keys::BusKey;
use mesh_model::signed::PayloadType;
use rusqlite::Connection;
use serde::Serialize;

/// The largest request, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// What became of one request.
pub type Outcome = Result<Welcome, Refusal>;

/// An answer, good once the server has the node's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The node.
    pub node: String,
    /// Whether its keys were registered now.
    pub is_new: bool,
    /// The body of the answer.
    pub body: String,
}

/// Judges the requests and registers what is new; an answer for each, in their order.
pub fn register(
    store: &mut Store,
    signer: &Signer,
    bodies: &[Vec<u8>],
    at: Moment,
) -> Result<Vec<Outcome>, Error> {
    let joiners = joiners(signer, at);
    let read = |body: &Vec<u8>| read(body).and_then(|request| expect_own_key(request, &joiners));
    let requests: Vec<Result<Proven, Refusal>> = bodies.iter().map(read).collect();
    let mesh = identity::expect_mesh(store.identity())?;
    let mut outcomes = Vec::new();
    let mut joined = Vec::new();
    let is_new = |connection: &Connection, request: &Proven| -> Result<bool, Error> {
        Ok(matches!(judged(connection, &mesh, request, at)?, Ok((_, Verdict::Register(_)))))
    };
    let mut any_new = false;
    for request in requests.iter().flatten() {
        any_new |= is_new(store.identity(), request)?;
    }
    if any_new {
        let act = Act { at, who: "mesh-controller serve", command: "join", what: "", why: None };
        let change = store.change_identity(&act)?;
        for request in &requests {
            outcomes.push(match request {
                Err(refusal) => Err(refusal.clone()),
                Ok(request) => one(&change, &mesh, request, at, &mut joined)?,
            });
        }
        let names: Vec<&str> = joined.iter().map(|join: &Joined| join.node.as_str()).collect();
        change.execute(
            "UPDATE acts SET what = ?1 WHERE id = ?2",
            rusqlite::params![names.join(" "), change.act],
        )?;
        change.commit()?;
    } else {
        for request in &requests {
            outcomes.push(match request {
                Err(refusal) => Err(refusal.clone()),
                Ok(request) => {
                    judged(store.identity(), &mesh, request, at)?.map(|(request, _)| (request.clone(), false))
                }
            });
        }
    }
    know_nodes(store, &outcomes, &joined, at)?;
    outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Ok((request, is_new)) => Ok(Ok(welcome(&mesh, signer, request, is_new)?)),
            Err(refusal) => Ok(Err(refusal)),
        })
        .collect()
}

struct Joined {
    node: String,
    adopted: bool,
}

fn read(body: &[u8]) -> Result<Proven, Refusal> {
    if body.len() > MAX_BYTES {
        return Err(Refusal::new(413, "too_large", format!("a request has at most {MAX_BYTES} bytes")));
    }
    Proven::from_json_bytes(body)
        .map_err(|why| Refusal::new(400, "bad_request", format!("the request: {why}")))
}

/// The keys of those who join, of the days around `at`: every token holds one.
pub fn joiners(signer: &Signer, at: Moment) -> [String; 3] {
    let days = [at.saturating_sub(gather::DAY), at, at.saturating_add(gather::DAY)];
    days.map(|at| signer.joiner(&gather::day(at)).public_key())
}

/// Refuses a machine that gives the joiner's key as its own: a key that stands twice keeps the server from taking any.
fn expect_own_key(request: Proven, joiners: &[String]) -> Result<Proven, Refusal> {
    if joiners.iter().any(|joiner| joiner == request.bus().as_str()) {
        return Err(Refusal::new(
            409,
            "conflict",
            "this key belongs to the account that joins: make a key of your own",
        ));
    }
    Ok(request)
}

fn judged<'r>(
    connection: &Connection,
    mesh: &identity::Mesh,
    request: &'r Proven,
    at: Moment,
) -> Result<Result<(&'r Request, Verdict), Refusal>, Error> {
    let token = identity::token(connection, request.token())?;
    let node = token.as_ref().map_or("", |token| token.node.as_str());
    let keys = identity::keys_of(connection, node)?;
    let owner = owner(connection, request.bus())?;
    let known = Known {
        mesh,
        token: token.as_ref(),
        keys: keys.as_ref(),
        owner: owner.as_ref().map(|(node, is)| (node.as_str(), *is)),
        epoch: identity::highest_epoch(connection, node)?,
        at,
    };
    Ok(judge(request, known))
}

/// Whose a key is or was. Two accounts with one key would keep the server from taking any.
fn owner(connection: &Connection, key: &BusKey) -> Result<Option<(String, bool)>, Error> {
    if let Some(node) = identity::owner_of(connection, key)? {
        return Ok(Some(node));
    }
    let account = identity::accounts(connection)?.into_iter().find(|account| account.key == *key);
    Ok(account.map(|account| (format!("the account {} {}", account.module, account.node), true)))
}

fn one(
    change: &Change<'_>,
    mesh: &identity::Mesh,
    request: &Proven,
    at: Moment,
    joined: &mut Vec<Joined>,
) -> Result<Result<(Request, bool), Refusal>, Error> {
    let (request, verdict) = match judged(change, mesh, request, at)? {
        Ok(judged) => judged,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if let Verdict::Register(epoch) = verdict {
        if !identity::spend_token(change, &request.token, &request.bus)? {
            return Ok(Err(Refusal::new(503, "busy", "the token changed just now: try again")));
        }
        identity::put_node_keys(change, &keys(request, epoch, at))?;
        let adopted = identity::token(change, &request.token)?.is_some_and(|token| token.adopted);
        joined.push(Joined { node: request.node.clone(), adopted });
    }
    Ok(Ok((request.clone(), verdict != Verdict::Known)))
}

fn keys(request: &Request, epoch: u64, at: Moment) -> identity::NodeKeys {
    let fact = |name: &str| match &request.facts {
        Json::Object(members) => members.iter().find_map(|(key, value)| match value {
            Json::Text(text) if key == name && is_fact(text) => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    };
    identity::NodeKeys {
        node: request.node.clone(),
        epoch,
        bus: request.bus.clone(),
        sealing: request.sealing.clone(),
        token: request.token.clone(),
        joined: at,
        address: fact("address"),
        arch: fact("arch"),
        facts: request.facts.to_string(),
    }
}

/// The longest fact that goes into a node's record, in bytes.
const MAX_FACT: usize = 255;

/// Whether it is as an address or an architecture is written. An address stands in commands and files of other nodes, so
/// that nothing in it may mean more there.
fn is_fact(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:_%-".contains(&byte);
    (1..=MAX_FACT).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Adds the nodes that the inventory does not know yet: also one whose join was cut short between the two files.
fn know_nodes(
    store: &mut Store,
    outcomes: &[Result<(Request, bool), Refusal>],
    joined: &[Joined],
    at: Moment,
) -> Result<(), Error> {
    let mut missing: Vec<&str> = Vec::new();
    for (request, _) in outcomes.iter().flatten() {
        if !missing.contains(&request.node.as_str())
            && nodes::get(store.inventory(), &request.node)?.is_none()
        {
            missing.push(&request.node);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = missing.into_iter().map(str::to_owned).collect();
    let what = missing.join(" ");
    let act = Act { at, who: "mesh-controller serve", command: "join", what: &what, why: None };
    let change = store.change_inventory(&act)?;
    for node in &missing {
        let adopted = joined.iter().any(|join| join.node == *node && join.adopted);
        nodes::add(&change, node, adopted, None, None)?;
    }
    change.commit()
}

fn welcome(mesh: &identity::Mesh, signer: &Signer, request: Request, is_new: bool) -> Result<Welcome, Error> {
    #[derive(Serialize)]
    struct Body<T> {
        answer: T,
    }
    let vault = mesh.vault.clone().ok_or_else(|| {
        Error::Unfit("the mesh has no vault yet: tell it with mesh-controller init --vault X…".into())
    })?;
    let Request { node, bus, sealing, token, .. } = request;
    let answer = Answer { mesh: mesh.id.clone(), node: node.clone(), bus, sealing, vault, token };
    let answer = signer.sign(PayloadType::JoinAnswer, &answer)?;
    let body = serde_json::to_string(&Body { answer }).map_err(|why| Error::Broken(why.to_string()))?;
    Ok(Welcome { node, is_new, body })
}

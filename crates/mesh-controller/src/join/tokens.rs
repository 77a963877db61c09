//! Tokens: issued, listed, taken back. The store has the public half of a token's key; the token itself is told once.

use crate::broker;
use crate::identity::Signer;
use crate::store::{Error, Moment, Store, acts::Act, identity, nodes};
use mesh_model::digest::Digest;
use mesh_model::keys::MeshKey;
use mesh_model::token::{Seed, Token};
use nkeys::KeyPair;
use std::time::Duration;

/// How long a token is good where nothing else is said.
pub const VALID: Duration = Duration::from_secs(60 * 60);
/// The longest. The account for joining stays for the rest of the day and the next one.
pub const MAX_VALID: Duration = Duration::from_secs(24 * 60 * 60);

/// What `token issue` is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'w> {
    /// The node that may join with it.
    pub node: &'w str,
    /// Whether the mesh is to know that node only from its join on.
    pub is_new: bool,
    /// Whether the machine was in use before. For a node that is known already its own record says so.
    pub adopted: bool,
    /// How long it is good.
    pub valid: Duration,
    /// Where the bus is.
    pub servers: &'w [String],
    /// The pin of the bus's certificate.
    pub pin: Option<Digest>,
}

/// Issues a token. `hand_over` gets it before anything is written down: if that fails, there is none.
pub fn issue(
    store: &mut Store,
    signer: &Signer,
    wanted: &Wanted<'_>,
    act: &Act<'_>,
    hand_over: impl FnOnce(&Token) -> Result<(), Error>,
) -> Result<identity::Token, Error> {
    let mesh = identity::expect_mesh(store.identity())?;
    let vault = mesh.vault.clone().ok_or_else(|| {
        Error::Unfit("the mesh has no vault yet: tell it with mesh-controller init --vault X…".into())
    })?;
    let adopted = expect_node(store, wanted)?;
    if wanted.valid.is_zero() || wanted.valid > MAX_VALID {
        return Err(Error::Refused("--valid: from 1s to 24h".into()));
    }
    let pair = KeyPair::new_user();
    let valid = Moment::try_from(wanted.valid.as_millis()).unwrap_or(Moment::MAX);
    let row = identity::Token {
        id: nuid::next().to_string(),
        node: wanted.node.to_owned(),
        key: pair.public_key(),
        adopted,
        issued: act.at,
        until: act.at.saturating_add(valid),
        used: None,
        used_by: None,
        revoked: None,
    };
    let token = Token {
        id: row.id.clone(),
        node: row.node.clone(),
        servers: wanted.servers.to_vec(),
        pin: wanted.pin,
        mesh: mesh_key(signer)?,
        vault,
        key: seed(&pair)?,
        joiner: seed(&broker::joiner(signer, act.at))?,
    };
    let change = store.change_identity(act)?;
    identity::put_token(&change, &row)?;
    hand_over(&token)?;
    change.commit()?;
    Ok(row)
}

/// Whether the node is or will be taken over with what it has; refused if it is there and is to be new, or the other way round.
fn expect_node(store: &Store, wanted: &Wanted<'_>) -> Result<bool, Error> {
    let node = wanted.node;
    if wanted.is_new {
        mesh_model::plain_name::check_own(node).map_err(Error::Refused)?;
        if nodes::get(store.inventory(), node)?.is_some() {
            return Err(Error::Refused(format!("there is a node {node} already: token issue --node {node}")));
        }
        return Ok(wanted.adopted);
    }
    let known = nodes::expect(store.inventory(), node)?;
    if wanted.adopted && !known.adopted {
        return Err(Error::Refused(format!(
            "--adopted goes with --new: {node} exists, change it with node set {node}"
        )));
    }
    Ok(known.adopted)
}

fn mesh_key(signer: &Signer) -> Result<MeshKey, Error> {
    signer.pair().public_key().parse().map_err(Error::Broken)
}

fn seed(pair: &KeyPair) -> Result<Seed, Error> {
    pair.seed()
        .map_err(|error| Error::Broken(error.to_string()))
        .and_then(|seed| Seed::try_from(seed).map_err(Error::Broken))
}

/// How a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can be used.
    Good,
    /// It was used, at that moment.
    Used(Moment),
    /// It was taken back, at that moment.
    Revoked(Moment),
    /// Its time is over.
    Expired,
}

impl Standing {
    /// The word of a list.
    pub const fn word(self) -> &'static str {
        match self {
            Standing::Good => "good",
            Standing::Used(_) => "used",
            Standing::Revoked(_) => "revoked",
            Standing::Expired => "expired",
        }
    }
}

/// How a token stands at that moment.
pub fn standing(token: &identity::Token, at: Moment) -> Standing {
    match (token.used, token.revoked) {
        (Some(used), _) => Standing::Used(used),
        (None, Some(revoked)) => Standing::Revoked(revoked),
        (None, None) if token.until <= at => Standing::Expired,
        (None, None) => Standing::Good,
    }
}

/// Takes a token back; how it stood before. One that was used or taken back stays as it is.
pub fn revoke(store: &mut Store, id: &str, act: &Act<'_>) -> Result<(identity::Token, Standing), Error> {
    let all = identity::tokens(store.identity())?;
    let mut found = all.into_iter().filter(|token| !id.is_empty() && token.id.starts_with(id));
    let (token, other) = (found.next(), found.next());
    let token = match (token, other) {
        (Some(token), None) => token,
        (Some(_), Some(_)) => {
            return Err(Error::Refused(format!("{id} begins several tokens: give more of it")));
        }
        _ => return Err(Error::Refused(format!("there is no token {id}: token list has them"))),
    };
    let before = standing(&token, act.at);
    if matches!(before, Standing::Good | Standing::Expired) {
        let change = store.change_identity(act)?;
        identity::revoke_token(&change, &token.id)?;
        change.commit()?;
    }
    Ok((token, before))
}

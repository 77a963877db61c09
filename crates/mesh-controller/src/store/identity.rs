//! The mesh's identity: its id, its vault, the operator's recovery key; keys of nodes, tokens, accounts of modules.

use super::{Change, Error, Moment};
use mesh_model::keys::{BusKey, MeshKey, SealingKey};
use mesh_model::node_record::Recovery;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// The mesh itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mesh {
    /// Its id: 22 random characters.
    pub id: String,
    /// Its public key.
    pub key: MeshKey,
    /// Its vault's public key, once it was told.
    pub vault: Option<SealingKey>,
    /// Who can open the second copies, once the operator said so.
    pub recovery: Option<Recovery>,
    /// Since when it is there.
    pub since: Moment,
}

/// A stored text as what it must be: what this program wrote reads again, or the file was changed.
fn parsed<T: std::str::FromStr<Err = String>>(text: &str) -> rusqlite::Result<T> {
    text.parse().map_err(|why: String| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
    })
}

fn optional<T: std::str::FromStr<Err = String>>(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<String>>(place)?.as_deref().map(parsed).transpose()
}

/// The mesh, once it was made.
pub fn mesh(connection: &Connection) -> Result<Option<Mesh>, Error> {
    let sql = "SELECT id, key, vault, recovery, since FROM mesh";
    let read = |row: &Row<'_>| {
        Ok(Mesh {
            id: row.get(0)?,
            key: parsed(&row.get::<_, String>(1)?)?,
            vault: optional(row, 2)?,
            recovery: optional(row, 3)?,
            since: row.get(4)?,
        })
    };
    Ok(connection.query_row(sql, [], read).optional()?)
}

/// The mesh, which must be there.
pub fn expect_mesh(connection: &Connection) -> Result<Mesh, Error> {
    mesh(connection)?
        .ok_or_else(|| Error::Unfit("the store has no mesh yet: make it with mesh-controller migrate".into()))
}

/// Makes the mesh, once.
pub fn make_mesh(change: &Change<'_>, id: &str, key: &MeshKey) -> Result<(), Error> {
    change.execute(
        "INSERT INTO mesh (one, id, key, since) VALUES (1, ?1, ?2, ?3)",
        params![id, key.as_str(), change.at],
    )?;
    Ok(())
}

/// Says which vault the mesh has.
pub fn set_vault(change: &Change<'_>, vault: &SealingKey) -> Result<(), Error> {
    change.execute("UPDATE mesh SET vault = ?1", [vault.as_str()])?;
    Ok(())
}

/// Says who can open the second copies.
pub fn set_recovery(change: &Change<'_>, recovery: &Recovery) -> Result<(), Error> {
    change.execute("UPDATE recovery_keys SET until = ?1 WHERE until IS NULL", [change.at])?;
    if let Recovery::Key(key) = recovery {
        change.execute(
            "INSERT INTO recovery_keys (key, since) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until = NULL",
            params![key.as_str(), change.at],
        )?;
    }
    change.execute("UPDATE mesh SET recovery = ?1", [recovery.to_string()])?;
    Ok(())
}

/// The keys of a node that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeKeys {
    /// The node.
    pub node: String,
    /// One more with every new pair.
    pub epoch: u64,
    /// Its key on the bus.
    pub bus: BusKey,
    /// The key that its secrets are sealed to.
    pub sealing: SealingKey,
    /// The token that it joined with.
    pub token: String,
    /// When.
    pub joined: Moment,
    /// The address that it joined from.
    pub address: Option<String>,
    /// Its architecture, as it said.
    pub arch: Option<String>,
    /// What it said of the machine, as JSON.
    pub facts: String,
}

const NODE_KEYS: &str =
    "SELECT node, epoch, bus, sealing, token, joined, address, arch, facts FROM node_keys";

fn node_keys_row(row: &Row<'_>) -> rusqlite::Result<NodeKeys> {
    Ok(NodeKeys {
        node: row.get(0)?,
        epoch: row.get(1)?,
        bus: parsed(&row.get::<_, String>(2)?)?,
        sealing: parsed(&row.get::<_, String>(3)?)?,
        token: row.get(4)?,
        joined: row.get(5)?,
        address: row.get(6)?,
        arch: row.get(7)?,
        facts: row.get(8)?,
    })
}

/// The keys of every node that has joined, by node.
pub fn node_keys(connection: &Connection) -> Result<Vec<NodeKeys>, Error> {
    let mut statement = connection.prepare(&format!("{NODE_KEYS} ORDER BY node"))?;
    let rows = statement.query_map([], node_keys_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Every node that has or had keys, by name.
pub fn all_that_joined(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement =
        connection.prepare("SELECT node FROM node_keys UNION SELECT node FROM former_keys ORDER BY node")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The keys of one node.
pub fn keys_of(connection: &Connection, node: &str) -> Result<Option<NodeKeys>, Error> {
    let sql = format!("{NODE_KEYS} WHERE node = ?1");
    Ok(connection.query_row(&sql, [node], node_keys_row).optional()?)
}

/// Registers the keys of a node; what it had before is kept as former. `joined` is the time of the change.
pub fn put_node_keys(change: &Change<'_>, keys: &NodeKeys) -> Result<(), Error> {
    change.execute(
        "INSERT INTO former_keys (bus, node, epoch, sealing, until)
         SELECT bus, node, epoch, sealing, ?2 FROM node_keys WHERE node = ?1 AND bus <> ?3 ON CONFLICT DO NOTHING",
        params![keys.node, change.at, keys.bus.as_str()],
    )?;
    change.execute(
        "INSERT INTO node_keys (node, epoch, bus, sealing, token, joined, address, arch, facts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (node) DO UPDATE SET epoch = excluded.epoch,
         bus = excluded.bus, sealing = excluded.sealing, token = excluded.token, joined = excluded.joined,
         address = excluded.address, arch = excluded.arch, facts = excluded.facts",
        params![
            keys.node,
            keys.epoch,
            keys.bus.as_str(),
            keys.sealing.as_str(),
            keys.token,
            change.at,
            keys.address,
            keys.arch,
            keys.facts
        ],
    )?;
    Ok(())
}

/// The node whose key on the bus that is or was, and whether it still is.
pub fn owner_of(connection: &Connection, bus: &BusKey) -> Result<Option<(String, bool)>, Error> {
    let sql = "SELECT node, 1 FROM node_keys WHERE bus = ?1 UNION ALL SELECT node, 0 FROM former_keys WHERE bus = ?1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(connection.query_row(sql, [bus.as_str()], read).optional()?)
}

/// Takes a node's keys away: they become former ones, and never come back. The highest epoch stays known. Its tokens that
/// were not used are taken back.
pub fn drop_node_keys(change: &Change<'_>, node: &str) -> Result<(), Error> {
    change.execute(
        "INSERT INTO former_keys (bus, node, epoch, sealing, until)
         SELECT bus, node, epoch, sealing, ?2 FROM node_keys WHERE node = ?1 ON CONFLICT DO NOTHING",
        params![node, change.at],
    )?;
    change.execute("DELETE FROM node_keys WHERE node = ?1", [node])?;
    change.execute("DELETE FROM accounts WHERE node = ?1", [node])?;
    change.execute(
        "UPDATE tokens SET revoked = ?2 WHERE node = ?1 AND used IS NULL AND revoked IS NULL",
        params![node, change.at],
    )?;
    Ok(())
}

/// The highest epoch that a node of this name ever had; 0 if none.
pub fn highest_epoch(connection: &Connection, node: &str) -> Result<u64, Error> {
    let sql = "SELECT max(e) FROM (SELECT max(epoch) AS e FROM node_keys WHERE node = ?1
               UNION ALL SELECT max(epoch) FROM former_keys WHERE node = ?1)";
    let highest: Option<u64> = connection.query_row(sql, [node], |row| row.get(0))?;
    Ok(highest.unwrap_or(0))
}

/// A one-time right to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// The only name that may join with it.
    pub node: String,
    /// The public half of its key.
    pub key: String,
    /// Whether the node is taken over with what it has.
    pub adopted: bool,
    /// When it was issued.
    pub issued: Moment,
    /// Until when it is good.
    pub until: Moment,
    /// When it was used.
    pub used: Option<Moment>,
    /// The bus key that joined with it.
    pub used_by: Option<String>,
    /// When it was taken back.
    pub revoked: Option<Moment>,
}

const TOKENS: &str = "SELECT id, node, key, adopted, issued, until, used, used_by, revoked FROM tokens";

fn token_row(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get(0)?,
        node: row.get(1)?,
        key: row.get(2)?,
        adopted: row.get(3)?,
        issued: row.get(4)?,
        until: row.get(5)?,
        used: row.get(6)?,
        used_by: row.get(7)?,
        revoked: row.get(8)?,
    })
}

/// Every token that was ever issued, the oldest first.
pub fn tokens(connection: &Connection) -> Result<Vec<Token>, Error> {
    let mut statement = connection.prepare(&format!("{TOKENS} ORDER BY issued, id"))?;
    let rows = statement.query_map([], token_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One token.
pub fn token(connection: &Connection, id: &str) -> Result<Option<Token>, Error> {
    Ok(connection.query_row(&format!("{TOKENS} WHERE id = ?1"), [id], token_row).optional()?)
}

/// Writes down a token that is issued.
pub fn put_token(change: &Change<'_>, token: &Token) -> Result<(), Error> {
    change.execute(
        "INSERT INTO tokens (id, node, key, adopted, issued, until, act) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![token.id, token.node, token.key, token.adopted, change.at, token.until, change.act],
    )?;
    Ok(())
}

/// Spends a token; whether it was good for that: neither used nor revoked.
pub fn spend_token(change: &Change<'_>, id: &str, bus: &BusKey) -> Result<bool, Error> {
    let spent = change.execute(
        "UPDATE tokens SET used = ?2, used_by = ?3 WHERE id = ?1 AND used IS NULL AND revoked IS NULL",
        params![id, change.at, bus.as_str()],
    )?;
    Ok(spent > 0)
}

/// Takes a token back, if it was not used or taken back before.
pub fn revoke_token(change: &Change<'_>, id: &str) -> Result<(), Error> {
    let sql = "UPDATE tokens SET revoked = ?2 WHERE id = ?1 AND used IS NULL AND revoked IS NULL";
    change.execute(sql, params![id, change.at])?;
    Ok(())
}

/// The account of a module on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// Its key on the bus.
    pub key: BusKey,
    /// Since when.
    pub since: Moment,
}

/// The accounts of modules, by node and module.
pub fn accounts(connection: &Connection) -> Result<Vec<Account>, Error> {
    let mut statement =
        connection.prepare("SELECT node, module, key, since FROM accounts ORDER BY node, module")?;
    let rows = statement.query_map([], |row| {
        let key = parsed(&row.get::<_, String>(2)?)?;
        Ok(Account { node: row.get(0)?, module: row.get(1)?, key, since: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Gives a module an account, in place of the one that it had.
pub fn put_account(change: &Change<'_>, node: &str, module: &str, key: &BusKey) -> Result<(), Error> {
    change.execute(
        "INSERT INTO accounts (node, module, key, since, act) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (node, module) DO UPDATE SET key = excluded.key, since = excluded.since, act = excluded.act",
        params![node, module, key.as_str(), change.at, change.act],
    )?;
    Ok(())
}

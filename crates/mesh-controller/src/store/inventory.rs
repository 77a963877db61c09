//! Modules, their settings, which node runs which, and what is remembered of that.

use super::{Change, Error, Moment};
use mesh_model::json::nearest;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// A module as its manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The manifest, byte for byte.
    pub manifest: Vec<u8>,
    /// Since when it is this manifest.
    pub since: Moment,
    /// The act that added it.
    pub act: i64,
}

/// Every module, by name.
pub fn modules(connection: &Connection) -> Result<Vec<Module>, Error> {
    let mut statement =
        connection.prepare("SELECT name, version, manifest, since, act FROM modules ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        Ok(Module {
            name: row.get(0)?,
            version: row.get(1)?,
            manifest: row.get(2)?,
            since: row.get(3)?,
            act: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One module, which must be there.
pub fn expect_module(connection: &Connection, name: &str) -> Result<Module, Error> {
    let mut all = modules(connection)?;
    if let Some(place) = all.iter().position(|module| module.name == name) {
        return Ok(all.swap_remove(place));
    }
    let near = nearest(name, all.iter().map(|module| module.name.as_str()));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Err(Error::Refused(format!("there is no module {name}{near}: add one with module add FILE")))
}

/// Adds a module, or replaces its manifest.
pub fn put_module(change: &Change<'_>, name: &str, version: &str, manifest: &[u8]) -> Result<(), Error> {
    change.execute(
        "INSERT INTO modules (name, version, manifest, since, act) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET version = excluded.version, manifest = excluded.manifest, since = excluded.since,
         act = excluded.act",
        params![name, version, manifest, change.at, change.act],
    )?;
    Ok(())
}

/// What the mesh holds of a module, in words: as long as there is any, it is not forgotten.
pub fn held(connection: &Connection, module: &str) -> Result<Vec<String>, Error> {
    let mut held = Vec::new();
    let mut look = |sql: &str, say: &dyn Fn(String, String) -> String| -> Result<(), Error> {
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([module], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for row in rows {
            let (first, second) = row?;
            held.push(say(first, second));
        }
        Ok(())
    };
    look("SELECT node, '' FROM assignments WHERE module = ?1 ORDER BY 1", &|node, _| {
        format!("{node} runs it: unassign it there")
    })?;
    look(
        "SELECT DISTINCT node, '' FROM sent WHERE module = ?1 AND value IS NOT NULL ORDER BY 1",
        &|node, _| format!("{node} was told to run it: push"),
    )?;
    look("SELECT node, keeps FROM data WHERE module = ?1 ORDER BY 1", &|node, keeps| {
        format!("data on {node}: {keeps}")
    })?;
    look(
        "SELECT node, name || ' ' || port FROM ports WHERE module = ?1 ORDER BY node, name",
        &|node, port| format!("the port {port} on {node}"),
    )?;
    Ok(held)
}

/// Forgets a module that nothing is held of.
pub fn remove_module(change: &Change<'_>, name: &str) -> Result<(), Error> {
    change.execute("DELETE FROM modules WHERE name = ?1", [name])?;
    Ok(())
}

/// One layer of a module's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The module.
    pub module: String,
    /// The node; `None` for the layer of the whole mesh.
    pub node: Option<String>,
    /// What is set: a JSON object, as it was written.
    pub value: Vec<u8>,
    /// Since when.
    pub since: Moment,
    /// The act that set it.
    pub act: i64,
}

/// Every layer that was set.
pub fn layers(connection: &Connection) -> Result<Vec<Layer>, Error> {
    let mut statement =
        connection.prepare("SELECT module, node, value, since, act FROM settings ORDER BY module, node")?;
    let rows = statement.query_map([], |row| {
        let node: String = row.get(1)?;
        Ok(Layer {
            module: row.get(0)?,
            node: Some(node).filter(|node| !node.is_empty()),
            value: row.get(2)?,
            since: row.get(3)?,
            act: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Sets a layer.
pub fn put_layer(change: &Change<'_>, module: &str, node: Option<&str>, value: &[u8]) -> Result<(), Error> {
    change.execute(
        "INSERT INTO settings (module, node, value, since, act) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET value = excluded.value, since = excluded.since, act = excluded.act",
        params![module, node.unwrap_or(""), value, change.at, change.act],
    )?;
    Ok(())
}

/// Clears a layer; whether there was one.
pub fn clear_layer(change: &Change<'_>, module: &str, node: Option<&str>) -> Result<bool, Error> {
    let sql = "DELETE FROM settings WHERE module = ?1 AND node = ?2";
    Ok(change.execute(sql, params![module, node.unwrap_or("")])? > 0)
}

/// A node runs a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// Since when.
    pub since: Moment,
    /// The act that assigned it.
    pub act: i64,
}

/// Who runs what, by node and module.
pub fn assignments(connection: &Connection) -> Result<Vec<Assigned>, Error> {
    let mut statement =
        connection.prepare("SELECT node, module, since, act FROM assignments ORDER BY node, module")?;
    let rows = statement.query_map([], |row| {
        Ok(Assigned { node: row.get(0)?, module: row.get(1)?, since: row.get(2)?, act: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Assigns a module; whether that is new.
pub fn assign(change: &Change<'_>, node: &str, module: &str) -> Result<bool, Error> {
    let added = change.execute(
        "INSERT INTO assignments (node, module, since, act) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![node, module, change.at, change.act],
    )?;
    Ok(added > 0)
}

/// Takes a module off a node; whether it was there. Its ports and its data stay remembered.
pub fn unassign(change: &Change<'_>, node: &str, module: &str) -> Result<bool, Error> {
    let gone =
        change.execute("DELETE FROM assignments WHERE node = ?1 AND module = ?2", params![node, module])?;
    Ok(gone > 0)
}

/// A port that a module has on a node, assigned or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// The name that the manifest has for it.
    pub name: String,
    /// The port.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Since when.
    pub since: Moment,
}

/// Every port that is kept.
pub fn ports(connection: &Connection) -> Result<Vec<Kept>, Error> {
    let mut statement = connection
        .prepare("SELECT node, module, name, port, protocol, since FROM ports ORDER BY node, module, name")?;
    let rows = statement.query_map([], |row| {
        Ok(Kept {
            node: row.get(0)?,
            module: row.get(1)?,
            name: row.get(2)?,
            port: row.get(3)?,
            protocol: row.get(4)?,
            since: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The numbers of the ports that are kept on one node.
pub fn ports_of(connection: &Connection, node: &str) -> Result<BTreeSet<u16>, Error> {
    let mut statement = connection.prepare("SELECT port FROM ports WHERE node = ?1")?;
    let rows = statement.query_map([node], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Keeps a port. One that the module had under that name is released.
pub fn keep_port(
    change: &Change<'_>,
    node: &str,
    module: &str,
    name: &str,
    port: u16,
    protocol: &str,
) -> Result<(), Error> {
    change.execute(
        "INSERT INTO ports (node, module, name, port, protocol, since, act) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (node, module, name) DO UPDATE SET port = excluded.port, protocol = excluded.protocol,
         since = excluded.since, act = excluded.act",
        params![node, module, name, port, protocol, change.at, change.act],
    )?;
    Ok(())
}

/// What a module keeps on a node, assigned or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// What it is.
    pub keeps: String,
    /// What its loss would mean.
    pub worth: String,
    /// Since when.
    pub since: Moment,
}

/// What modules keep, everywhere.
pub fn data(connection: &Connection) -> Result<Vec<Data>, Error> {
    let mut statement =
        connection.prepare("SELECT node, module, keeps, worth, since FROM data ORDER BY node, module")?;
    let rows = statement.query_map([], |row| {
        Ok(Data {
            node: row.get(0)?,
            module: row.get(1)?,
            keeps: row.get(2)?,
            worth: row.get(3)?,
            since: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Remembers that a module keeps something on a node.
pub fn keep_data(
    change: &Change<'_>,
    node: &str,
    module: &str,
    keeps: &str,
    worth: &str,
) -> Result<(), Error> {
    change.execute(
        "INSERT INTO data (node, module, keeps, worth, since) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET keeps = excluded.keeps, worth = excluded.worth",
        params![node, module, keeps, worth, change.at],
    )?;
    Ok(())
}

/// A `requires` entry and who provides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The consumer's node.
    pub node: String,
    /// The consumer.
    pub module: String,
    /// The name of the entry.
    pub name: String,
    /// What is provided.
    pub provision: String,
    /// The provider's node.
    pub provider_node: String,
    /// The provider.
    pub provider_module: String,
    /// Since when.
    pub since: Moment,
    /// The act that bound it.
    pub act: i64,
}

/// Every binding.
pub fn bindings(connection: &Connection) -> Result<Vec<Binding>, Error> {
    let mut statement = connection.prepare(
        "SELECT node, module, name, provision, provider_node, provider_module, since, act FROM bindings
         ORDER BY node, module, name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Binding {
            node: row.get(0)?,
            module: row.get(1)?,
            name: row.get(2)?,
            provision: row.get(3)?,
            provider_node: row.get(4)?,
            provider_module: row.get(5)?,
            since: row.get(6)?,
            act: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Binds an entry; what `since` and `act` say is not looked at.
pub fn bind(change: &Change<'_>, binding: &Binding) -> Result<(), Error> {
    change.execute(
        "INSERT INTO bindings (node, module, name, provision, provider_node, provider_module, since, act)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET provision = excluded.provision,
         provider_node = excluded.provider_node, provider_module = excluded.provider_module,
         since = excluded.since, act = excluded.act",
        params![
            binding.node,
            binding.module,
            binding.name,
            binding.provision,
            binding.provider_node,
            binding.provider_module,
            change.at,
            change.act
        ],
    )?;
    Ok(())
}

/// Takes away a binding that its module no longer requires.
pub fn unbind(change: &Change<'_>, node: &str, module: &str, name: &str) -> Result<(), Error> {
    let sql = "DELETE FROM bindings WHERE node = ?1 AND module = ?2 AND name = ?3";
    change.execute(sql, params![node, module, name])?;
    Ok(())
}

/// Who holds a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The seat.
    pub seat: String,
    /// The holder's node.
    pub node: String,
    /// The holder.
    pub module: String,
    /// Since when.
    pub since: Moment,
    /// The act that seated it.
    pub act: i64,
}

/// Every seat that is held.
pub fn seats(connection: &Connection) -> Result<Vec<Seat>, Error> {
    let mut statement =
        connection.prepare("SELECT seat, node, module, since, act FROM seats ORDER BY seat")?;
    let rows = statement.query_map([], |row| {
        Ok(Seat {
            seat: row.get(0)?,
            node: row.get(1)?,
            module: row.get(2)?,
            since: row.get(3)?,
            act: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Seats a module where nobody sits.
pub fn seat(change: &Change<'_>, seat: &str, node: &str, module: &str) -> Result<(), Error> {
    change.execute(
        "INSERT INTO seats (seat, node, module, since, act) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![seat, node, module, change.at, change.act],
    )?;
    Ok(())
}

/// Empties a seat.
pub fn unseat(change: &Change<'_>, seat: &str) -> Result<(), Error> {
    change.execute("DELETE FROM seats WHERE seat = ?1", [seat])?;
    Ok(())
}

/// A declaration out of a file, that holds until the next push of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The file's content.
    pub value: Vec<u8>,
    /// Since when.
    pub since: Moment,
    /// The act.
    pub act: i64,
}

/// What was declared from a file for a node.
pub fn declared(connection: &Connection, node: &str) -> Result<Option<Declared>, Error> {
    let sql = "SELECT value, since, act FROM declared WHERE node = ?1";
    let read =
        |row: &rusqlite::Row<'_>| Ok(Declared { value: row.get(0)?, since: row.get(1)?, act: row.get(2)? });
    Ok(connection.query_row(sql, [node], read).optional()?)
}

/// Remembers, or forgets, that a node has a declaration out of a file.
pub fn set_declared(change: &Change<'_>, node: &str, value: Option<&[u8]>) -> Result<(), Error> {
    match value {
        Some(value) => change.execute(
            "INSERT INTO declared (node, value, since, act) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET value = excluded.value, since = excluded.since, act = excluded.act",
            params![node, value, change.at, change.act],
        )?,
        None => change.execute("DELETE FROM declared WHERE node = ?1", [node])?,
    };
    Ok(())
}

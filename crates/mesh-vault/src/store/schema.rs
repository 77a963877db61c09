//! The tables, step by step. A step that was released is never changed: what is new is a further step.

/// Each brings the file from the version of its place to the next.
pub(super) const STEPS: &[&str] = &["
-- What the vault was set up with: the mesh's key, its own recovery key, the mesh's id.
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- Sealed copies alone. One row for each revision that is the newest or that a node may still use.
CREATE TABLE secrets (
  node TEXT NOT NULL, module TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL,
  origin TEXT NOT NULL, key TEXT NOT NULL, sealed TEXT NOT NULL,
  recovery_key TEXT, recovery TEXT,
  list_node TEXT, list_module TEXT, list_name TEXT, list_key TEXT, list_since INTEGER, list_sealed TEXT,
  PRIMARY KEY (node, module, name, revision)) STRICT, WITHOUT ROWID;
-- Who is in each provider's list.
CREATE TABLE lists (
  node TEXT NOT NULL, module TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL,
  PRIMARY KEY (node, module, name)) STRICT, WITHOUT ROWID;
CREATE TABLE members (
  list_node TEXT NOT NULL, list_module TEXT NOT NULL, list_name TEXT NOT NULL, place INTEGER NOT NULL,
  node TEXT NOT NULL, module TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER,
  PRIMARY KEY (list_node, list_module, list_name, place)) STRICT, WITHOUT ROWID;
-- What was seen of each node: nothing older is believed.
CREATE TABLE nodes (
  node TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sealing TEXT, sequence INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- Ids of signed requests, each good once; at is seconds since 1970.
CREATE TABLE requests (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"];

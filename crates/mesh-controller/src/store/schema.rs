//! The tables, as steps: a step that was released is never changed, a later one is added.

use super::Context;

/// The steps of a context, the first one from an empty file.
pub(super) const fn steps(context: Context) -> &'static [&'static str] {
    match context {
        Context::Inventory => &[INVENTORY_1, INVENTORY_2, INVENTORY_3],
        Context::Identity => &[IDENTITY_1],
    }
}

const INVENTORY_1: &str = "
CREATE TABLE acts (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL, command TEXT NOT NULL,
  what TEXT NOT NULL, why TEXT) STRICT;
CREATE INDEX acts_at ON acts (at);
CREATE TABLE nodes (name TEXT PRIMARY KEY, adopted INTEGER NOT NULL, address TEXT, zone TEXT, since INTEGER NOT NULL,
  act INTEGER NOT NULL) STRICT;
CREATE TABLE accesses (node TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, name TEXT NOT NULL, path TEXT NOT NULL,
  act INTEGER NOT NULL, PRIMARY KEY (node, name)) STRICT;
CREATE TABLE modules (name TEXT PRIMARY KEY, version TEXT NOT NULL, manifest BLOB NOT NULL, since INTEGER NOT NULL,
  act INTEGER NOT NULL) STRICT;
-- The layer of the whole mesh has an empty node.
CREATE TABLE settings (module TEXT NOT NULL REFERENCES modules ON DELETE CASCADE, node TEXT NOT NULL, value BLOB NOT NULL,
  since INTEGER NOT NULL, act INTEGER NOT NULL, PRIMARY KEY (module, node)) STRICT;
CREATE TABLE assignments (node TEXT NOT NULL REFERENCES nodes, module TEXT NOT NULL REFERENCES modules,
  since INTEGER NOT NULL, act INTEGER NOT NULL, PRIMARY KEY (node, module)) STRICT;
-- Kept when a module leaves, so that it finds its ports again.
CREATE TABLE ports (node TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, module TEXT NOT NULL, name TEXT NOT NULL,
  port INTEGER NOT NULL, protocol TEXT NOT NULL, since INTEGER NOT NULL, act INTEGER NOT NULL,
  PRIMARY KEY (node, module, name), UNIQUE (node, port, protocol)) STRICT;
-- What a module kept on a node, and keeps when it leaves.
CREATE TABLE data (node TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, module TEXT NOT NULL, keeps TEXT NOT NULL,
  worth TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (node, module)) STRICT;
CREATE TABLE bindings (node TEXT NOT NULL, module TEXT NOT NULL, name TEXT NOT NULL, provision TEXT NOT NULL,
  provider_node TEXT NOT NULL, provider_module TEXT NOT NULL, since INTEGER NOT NULL, act INTEGER NOT NULL,
  PRIMARY KEY (node, module, name), FOREIGN KEY (node, module) REFERENCES assignments ON DELETE CASCADE) STRICT;
CREATE TABLE seats (seat TEXT PRIMARY KEY, node TEXT NOT NULL, module TEXT NOT NULL, since INTEGER NOT NULL,
  act INTEGER NOT NULL, FOREIGN KEY (node, module) REFERENCES assignments ON DELETE CASCADE) STRICT;
CREATE TABLE declared (node TEXT PRIMARY KEY REFERENCES nodes ON DELETE CASCADE, value BLOB NOT NULL,
  since INTEGER NOT NULL, act INTEGER NOT NULL) STRICT;
CREATE TABLE reports (node TEXT PRIMARY KEY, at INTEGER NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE lease (one INTEGER PRIMARY KEY CHECK (one = 1), holder TEXT, pid INTEGER NOT NULL, fence INTEGER NOT NULL,
  renewed INTEGER NOT NULL) STRICT;
INSERT INTO lease VALUES (1, NULL, 0, 0, 0);
-- The exact bytes of each value in the controller's buckets. Without a value: the key is to go, or is gone.
CREATE TABLE sent (bucket TEXT NOT NULL, key TEXT NOT NULL, node TEXT NOT NULL, module TEXT NOT NULL, value BLOB,
  sequence INTEGER NOT NULL, fence INTEGER NOT NULL, done INTEGER NOT NULL, revision INTEGER NOT NULL,
  at INTEGER NOT NULL, act INTEGER NOT NULL, PRIMARY KEY (bucket, key)) STRICT;
CREATE INDEX sent_node ON sent (node);
CREATE INDEX sent_undone ON sent (done) WHERE done = 0;
";

/// Counts every change of what is composed from, and keeps what was composed last.
const INVENTORY_2: &str = "
CREATE TABLE touched (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL) STRICT;
INSERT INTO touched VALUES (1, 0);
CREATE TABLE standing (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TRIGGER touch_nodes_insert AFTER INSERT ON nodes BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_nodes_update AFTER UPDATE ON nodes BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_nodes_delete AFTER DELETE ON nodes BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_accesses_insert AFTER INSERT ON accesses BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_accesses_update AFTER UPDATE ON accesses BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_accesses_delete AFTER DELETE ON accesses BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_modules_insert AFTER INSERT ON modules BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_modules_update AFTER UPDATE ON modules BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_modules_delete AFTER DELETE ON modules BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_settings_insert AFTER INSERT ON settings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_settings_update AFTER UPDATE ON settings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_settings_delete AFTER DELETE ON settings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_assignments_insert AFTER INSERT ON assignments BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_assignments_update AFTER UPDATE ON assignments BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_assignments_delete AFTER DELETE ON assignments BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_ports_insert AFTER INSERT ON ports BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_ports_update AFTER UPDATE ON ports BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_ports_delete AFTER DELETE ON ports BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_data_insert AFTER INSERT ON data BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_data_update AFTER UPDATE ON data BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_data_delete AFTER DELETE ON data BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_bindings_insert AFTER INSERT ON bindings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_bindings_update AFTER UPDATE ON bindings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_bindings_delete AFTER DELETE ON bindings BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_seats_insert AFTER INSERT ON seats BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_seats_update AFTER UPDATE ON seats BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_seats_delete AFTER DELETE ON seats BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_declared_insert AFTER INSERT ON declared BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_declared_update AFTER UPDATE ON declared BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_declared_delete AFTER DELETE ON declared BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_sent_insert AFTER INSERT ON sent BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_sent_update AFTER UPDATE ON sent BEGIN UPDATE touched SET count = count + 1; END;
CREATE TRIGGER touch_sent_delete AFTER DELETE ON sent BEGIN UPDATE touched SET count = count + 1; END;
";

/// Remembers nodes that were removed until what they wrote is deleted from the bus. What was written down as done, or under
/// which revision, is not composed from.
const INVENTORY_3: &str = "
CREATE TABLE leaving (node TEXT PRIMARY KEY, since INTEGER NOT NULL, act INTEGER NOT NULL) STRICT;
DROP TRIGGER touch_sent_update;
CREATE TRIGGER touch_sent_update AFTER UPDATE OF value, node, module ON sent WHEN OLD.value IS NOT NEW.value
  OR OLD.node <> NEW.node OR OLD.module <> NEW.module BEGIN UPDATE touched SET count = count + 1; END;
";

const IDENTITY_1: &str = "
CREATE TABLE acts (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL, command TEXT NOT NULL,
  what TEXT NOT NULL, why TEXT) STRICT;
CREATE INDEX acts_at ON acts (at);
CREATE TABLE mesh (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, key TEXT NOT NULL, vault TEXT,
  recovery TEXT, since INTEGER NOT NULL) STRICT;
-- Recovery keys that were, and the one that is.
CREATE TABLE recovery_keys (key TEXT PRIMARY KEY, since INTEGER NOT NULL, until INTEGER) STRICT;
CREATE TABLE node_keys (node TEXT PRIMARY KEY, epoch INTEGER NOT NULL, bus TEXT NOT NULL UNIQUE, sealing TEXT NOT NULL,
  token TEXT NOT NULL, joined INTEGER NOT NULL, address TEXT, arch TEXT, facts TEXT NOT NULL) STRICT;
-- Pairs that a newer join replaced: they never come back.
CREATE TABLE former_keys (bus TEXT PRIMARY KEY, node TEXT NOT NULL, epoch INTEGER NOT NULL, sealing TEXT NOT NULL,
  until INTEGER NOT NULL) STRICT;
-- Of a token's key the public half. A row stays for ever: a used token is known as used.
CREATE TABLE tokens (id TEXT PRIMARY KEY, node TEXT NOT NULL, key TEXT NOT NULL, adopted INTEGER NOT NULL,
  issued INTEGER NOT NULL, until INTEGER NOT NULL, used INTEGER, used_by TEXT, revoked INTEGER, act INTEGER NOT NULL)
  STRICT;
CREATE TABLE accounts (node TEXT NOT NULL, module TEXT NOT NULL, key TEXT NOT NULL UNIQUE, since INTEGER NOT NULL,
  act INTEGER NOT NULL, PRIMARY KEY (node, module)) STRICT;
";

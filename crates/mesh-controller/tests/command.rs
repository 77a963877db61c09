//! The commands, as they are typed, on a real bus: what they put into the buckets.

use mesh_controller::store::{Paths, Store, identity, nodes, sent};
use mesh_model::assignment::Assignment;
use mesh_model::declaration::Declaration;
use mesh_model::digest::Digest;
use mesh_model::json::Read;
use mesh_model::keys::MeshKey;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_testing::accounts::Account;
use mesh_testing::client::Client;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sample/modules");

struct Mesh {
    server: Server,
    folder: TempDir,
}

/// What a command printed, and how it ended.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Mesh {
    fn start() -> Mesh {
        let server = Setup::custom("jetstream { store_dir: $MESH_STORE_DIR }").start();
        let mesh = Mesh { server, folder: TempDir::new().unwrap() };
        mesh.done(&["migrate"]);
        mesh.done(&["init"]);
        let vault = nkeys::XKey::new().public_key();
        mesh.done(&["init", "--vault", &vault]);
        mesh.done(&["operator", "key", "set", "none"]);
        mesh
    }

    fn paths(&self) -> Paths {
        Paths::below(self.folder.path())
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let paths = self.paths();
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_mesh-controller"))
            .args(arguments)
            .env("MESH_STORE_INVENTORY", &paths.inventory)
            .env("MESH_STORE_IDENTITY", &paths.identity)
            .env("NATS_URL", format!("nats://{}", self.server.address()))
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        Ran {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        self.ends(0, arguments).out
    }

    #[track_caller]
    fn ends(&self, code: i32, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}\n{}{}", ran.out, ran.err);
        ran
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn add(&self, name: &str, text: &str) {
        let path = self.file(&format!("{name}.json"), text);
        self.done(&["module", "add", path.to_str().unwrap()]);
    }

    /// The value of a key, as the bus has it.
    fn value(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        self.client()
            .kv_get(bucket, key)
            .filter(|stored| stored.header("KV-Operation").is_none())
            .map(|stored| stored.value)
    }

    fn client(&self) -> Client {
        self.server.client(&Account::new("", ""))
    }

    fn declaration(&self, node: &str) -> Declaration {
        let store = Store::open(&self.paths()).unwrap();
        let key: MeshKey = identity::expect_mesh(store.identity()).unwrap().key;
        let bytes = self.value("mesh-controller_declarations", node).unwrap();
        Envelope::parse(&bytes).unwrap().open(PayloadType::Declaration, &key).unwrap()
    }
}

const SMALL: &str = r#"{"module":"small","version":"1","ports":{"http":{}},"settings":{"defaults":{"pool":5}},
  "resources":[{"id":"f","type":"file","path":"/etc/small","content":"${config:pool} ${port:http}"}]}"#;

fn simple() -> Mesh {
    let mesh = Mesh::start();
    mesh.add("small", SMALL);
    mesh.done(&["node", "add", "attic"]);
    mesh.done(&["assign", "attic", "small"]);
    mesh
}

#[test]
fn a_push_puts_right_signed_values_into_the_buckets_and_a_second_one_sends_nothing() {
    let mesh = simple();
    let settings = mesh.file("s.json", r#"{"pool":1.50}"#);
    mesh.done(&["settings", "set", "small", settings.to_str().unwrap()]);
    assert!(mesh.value("mesh-controller_assignments", "attic.small").is_none(), "nothing before a push");

    let planned = mesh.ends(2, &["plan"]);
    assert!(
        planned.out.contains("+ attic small settings.pool 1.50  set for the mesh by settings set small"),
        "{}",
        planned.out
    );
    mesh.done(&["push", "--why", "a test"]);

    let assignment = mesh.value("mesh-controller_assignments", "attic.small").unwrap();
    let settings = mesh.value("mesh-controller_settings", "attic.small").unwrap();
    assert_eq!(settings, br#"{"pool":1.50}"#);
    let read = Assignment::from_json_bytes(&assignment).unwrap();
    assert_eq!(read.placement.port["http"], 20_000);
    let declaration = mesh.declaration("attic");
    assert_eq!((declaration.sequence, declaration.modules.len()), (1, 1));
    assert_eq!(declaration.modules[0].assignment, Digest::of(&assignment));
    assert_eq!(declaration.modules[0].settings, Digest::of(&settings));

    // P3, E8: unchanged input, the same digest, no byte sent.
    let digest = |mesh: &Mesh| mesh.done(&["plan"]);
    assert_eq!(digest(&mesh), digest(&mesh));
    assert_eq!(mesh.done(&["push"]), "nothing to send\n");
    assert_eq!(mesh.declaration("attic").sequence, 1);
    assert!(mesh.done(&["acts"]).contains("a test"));
}

#[test]
fn p05_a_push_with_a_digest_sends_exactly_that_plan_or_nothing() {
    let mesh = simple();
    let digest = |mesh: &Mesh| {
        let out = mesh.run(&["plan"]).out;
        out.rsplit_once("sha256:").unwrap().1.trim().to_owned()
    };
    let old = digest(&mesh);
    let settings = mesh.file("s.json", r#"{"pool":7}"#);
    mesh.done(&["settings", "set", "small", settings.to_str().unwrap()]);
    let refused = mesh.ends(1, &["push", "--yes", &old[..12]]);
    assert!(refused.err.contains("the plan is not"), "{}", refused.err);
    assert!(mesh.value("mesh-controller_declarations", "attic").is_none());
    mesh.done(&["push", "--yes", &digest(&mesh)[..12]]);
    assert_eq!(mesh.value("mesh-controller_settings", "attic.small").unwrap(), br#"{"pool":7}"#);
    mesh.ends(64, &["push", "--yes", "abc"]);
}

#[test]
fn p08_taking_the_last_module_off_needs_the_digest() {
    let mesh = simple();
    mesh.done(&["push"]);
    mesh.done(&["unassign", "attic", "small"]);
    let refused = mesh.ends(1, &["push"]);
    assert!(refused.err.contains("attic: would lose 1 of its 1 modules"), "{}", refused.err);
    assert_eq!(mesh.declaration("attic").modules.len(), 1);
    let hex = refused.err.rsplit_once("push --yes ").unwrap().1.trim().to_owned();
    mesh.done(&["push", "--yes", &hex]);
    let declaration = mesh.declaration("attic");
    assert_eq!((declaration.sequence, declaration.modules.len()), (2, 0));
    assert!(mesh.value("mesh-controller_assignments", "attic.small").is_none());
    // The port is remembered.
    assert!(mesh.done(&["assign", "attic", "small"]).contains("port http is 20000"));
}

#[test]
fn r06_what_a_killed_push_left_is_finished_by_the_next_one() {
    let mesh = simple();
    mesh.done(&["push"]);
    // As a push that was killed after its transaction leaves the store.
    let mut store = Store::open(&mesh.paths()).unwrap();
    let change = store.note_inventory().unwrap();
    let sql = "UPDATE lease SET holder = 'push of nobody', pid = 1, fence = fence + 1, renewed = ?1";
    change.execute(sql, [mesh_controller::store::now()]).unwrap();
    change.execute("UPDATE sent SET done = 0", []).unwrap();
    change.commit().unwrap();
    mesh.done(&["push"]);
    assert!(sent::undone(store.inventory()).unwrap().is_empty());
    assert_eq!(mesh.declaration("attic").sequence, 1, "finished, not sent again");
}

#[test]
fn b08_junk_of_somebody_else_is_replaced_and_told() {
    let mesh = simple();
    let client = mesh.client();
    client.kv_put("mesh-controller_settings", "attic.small", "junk");
    client.kv_put("mesh-controller_settings", "stranger.x", "not ours");
    let pushed = mesh.ends(0, &["push"]);
    assert!(pushed.err.contains("another client had written this key; it is replaced"), "{}", pushed.err);
    assert_eq!(mesh.value("mesh-controller_settings", "attic.small").unwrap(), br#"{"pool":5}"#);
    assert_eq!(mesh.value("mesh-controller_settings", "stranger.x").unwrap(), b"not ours");
}

#[test]
fn a_store_from_a_backup_takes_a_higher_sequence_than_the_bus() {
    let mesh = simple();
    let copy = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).unwrap();
    let (live, backup) = (mesh.paths().inventory, mesh.folder.path().join("backup.db"));
    // Everything of the write-ahead log is in the file after the command ended.
    copy(&live, &backup);
    for pool in ["6", "7"] {
        let settings = mesh.file("s.json", &format!(r#"{{"pool":{pool}}}"#));
        mesh.done(&["settings", "set", "small", settings.to_str().unwrap()]);
        mesh.done(&["push"]);
    }
    assert_eq!(mesh.declaration("attic").sequence, 2);
    let before = mesh.declaration("attic").fence;
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(format!("{}{end}", live.display())).ok();
    }
    copy(&backup, &live);
    mesh.done(&["push"]);
    let declaration = mesh.declaration("attic");
    assert_eq!(declaration.sequence, 3);
    assert!(declaration.fence > before);
}

#[test]
fn a_declaration_from_a_file_holds_until_the_next_push() {
    let mesh = simple();
    mesh.done(&["push"]);
    let file = mesh.file(
        "d.json",
        r#"{"modules":{"hand":{"assignment":{"module":"hand","version":"9","needs":[],"contributes":[],"placement":{"dir":{},"access":{},"port":{},"seat":{},"machine":{}},"resources":[]},"settings":{}}}}"#,
    );
    mesh.done(&["declare", "attic", file.to_str().unwrap()]);
    let declaration = mesh.declaration("attic");
    assert_eq!((declaration.sequence, declaration.modules[0].module.as_str()), (2, "hand"));
    let planned = mesh.ends(2, &["plan"]);
    assert!(planned.out.contains("declared it from a file: the next push replaces that"), "{}", planned.out);
    let hex = planned.out.rsplit_once("sha256:").unwrap().1.trim().to_owned();
    mesh.done(&["push", "--yes", &hex]);
    let declaration = mesh.declaration("attic");
    assert_eq!((declaration.sequence, declaration.modules[0].module.as_str()), (3, "small"));
}

#[test]
fn the_samples_are_assigned_in_one_act() {
    let mesh = Mesh::start();
    for entry in std::fs::read_dir(SAMPLES).unwrap() {
        mesh.done(&["module", "add", entry.unwrap().path().to_str().unwrap()]);
    }
    mesh.done(&["node", "add", "attic", "--zone", "home"]);
    let refused = mesh.ends(1, &["assign", "attic", "web", "backup"]);
    for reason in [
        "postgres, which nobody provides: assign postgres",
        "the operator's path photos",
        "the seat database",
    ] {
        assert!(refused.err.contains(reason), "{reason}\n{}", refused.err);
    }
    mesh.done(&["node", "access", "attic", "photos", "/srv/photos"]);
    mesh.done(&["node", "set", "attic", "--address", "10.0.0.7"]);
    let all = [
        "assign", "attic", "web", "postgres", "shell", "motd", "metrics", "site", "mail", "backup", "journal",
    ];
    mesh.done(&all);
    let files = mesh.run(&["plan", "--files"]).out;
    assert!(files.contains("RELAY_PASSWORD=«secret:relay-password»"), "{files}");
    // E3: nothing is sent before the machine has a key to seal to.
    let refused = mesh.ends(1, &["push"]);
    assert!(refused.err.contains("postgres.password (secret:admin-password)"), "{}", refused.err);
    assert!(mesh.value("mesh-controller_declarations", "attic").is_none());
    mesh.ends(3, &["status"]);
}

#[test]
fn c02_flags_stand_anywhere_c03_surplus_words_are_refused_and_r10_help_never_acts() {
    let mesh = simple();
    assert_eq!(mesh.done(&["--json", "node", "list"]), mesh.done(&["node", "list", "--json"]));
    assert_eq!(mesh.done(&["node", "--json", "list"]), mesh.done(&["node", "list", "--json"]));
    mesh.done(&["node", "add", "--zone=home", "cellar"]);
    mesh.done(&["node", "add", "garage", "--zone", "home"]);
    for surplus in [
        &["node", "add", "a", "b"][..],
        &["plan", "attic", "more"],
        &["push", "attic", "more"],
        &["settings", "show", "small", "more"],
        &["identity", "more"],
        &["acts", "more"],
        &["seats", "more"],
        &["migrate", "more"],
        &["status", "attic", "more"],
        &["declare", "attic", "f", "more"],
        &["operator", "key", "show", "more"],
        &["secret", "rotate", "a", "b", "c", "more"],
    ] {
        let refused = mesh.ends(64, surplus);
        assert!(refused.err.contains("is one word too many"), "{surplus:?} {}", refused.err);
    }
    let near = mesh.ends(64, &["asign", "attic", "small"]);
    assert!(near.err.contains("assign"), "{}", near.err);
    for command in
        [&["unassign", "attic", "small", "--help"][..], &["-h", "push"], &["node", "remove", "attic", "-h"]]
    {
        mesh.done(command);
    }
    assert!(mesh.done(&["node", "list", "--json"]).contains("\"modules\":1"));
    assert!(mesh.value("mesh-controller_declarations", "attic").is_none());
}

#[test]
fn a_module_is_forgotten_only_when_nothing_is_held() {
    let mesh = simple();
    let refused = mesh.ends(1, &["module", "forget", "small"]);
    assert!(
        refused.err.contains("attic runs it") && refused.err.contains("the port http 20000 on attic"),
        "{}",
        refused.err
    );
    mesh.add("free", r#"{"module":"free","version":"1"}"#);
    mesh.done(&["module", "forget", "free"]);
    let refused = mesh.ends(1, &["node", "remove", "attic"]);
    assert!(refused.err.contains("attic has modules: small"), "{}", refused.err);
}

#[test]
fn a_bus_that_is_away_is_said_and_nothing_is_written_down() {
    let mesh = simple();
    let ran = mesh.run(&["push", "--server", "nats://127.0.0.1:1"]);
    assert_eq!(ran.code, 69, "{}", ran.err);
    assert!(sent::all(Store::open(&mesh.paths()).unwrap().inventory()).unwrap().is_empty());
}

#[test]
fn e01_a_new_recovery_key_lists_what_only_the_old_one_opens() {
    let mesh = Mesh::start();
    mesh.add("s", r#"{"module":"s","version":"1","secrets":{"k":{"accept":true}},"resources":[{"id":"f","type":"file","path":"/k","content":"${secret:k}"}]}"#);
    mesh.done(&["node", "add", "attic"]);
    mesh.done(&["assign", "attic", "s"]);
    let first = mesh.done(&["operator", "key", "make", "--out", "one"]).trim().to_owned();
    let second = mesh.done(&["operator", "key", "make", "--out", "two"]).trim().to_owned();
    mesh.ends(1, &["operator", "key", "make", "--out", "one"]);
    mesh.done(&["operator", "key", "set", "--replace", &first]);
    let refused = mesh.ends(1, &["operator", "key", "set", &second]);
    assert!(refused.err.contains("give --replace"), "{}", refused.err);
    let told = mesh.done(&["operator", "key", "set", "--replace", &second]);
    assert!(
        told.contains(&format!("only {first} opens these")) && told.contains("attic s secret:k"),
        "{told}"
    );
    assert!(mesh.done(&["operator", "key", "show"]).contains("1 secrets"));
}

#[test]
fn e06_no_secret_is_in_the_store_its_log_its_copies_or_what_is_printed() {
    let mesh = simple();
    mesh.done(&["operator", "key", "make", "--out", "recovery"]);
    let seeds: Vec<String> = [mesh.paths().key(), mesh.folder.path().join("recovery")]
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned())
        .collect();
    let printed = ["identity", "acts", "status", "plan", "seats"].map(|command| {
        let ran = mesh.run(&[command]);
        ran.out + &ran.err
    });
    mesh.done(&["push"]);
    for entry in std::fs::read_dir(mesh.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path == mesh.paths().key() || path.ends_with("recovery") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for seed in &seeds {
            let found = bytes.windows(seed.len()).any(|window| window == seed.as_bytes());
            assert!(!found && !printed.iter().any(|text| text.contains(seed)), "{}", path.display());
        }
    }
    let log = mesh.server.log();
    assert!(seeds.iter().all(|seed| !log.contains(seed)));
}

#[test]
fn r02_a_newer_push_replaces_one_that_nobody_took() {
    let mesh = simple();
    mesh.done(&["push"]);
    let settings = mesh.file("s.json", r#"{"pool":8}"#);
    mesh.done(&["settings", "set", "small", settings.to_str().unwrap()]);
    mesh.done(&["push"]);
    assert_eq!(mesh.declaration("attic").sequence, 2);
    assert_eq!(mesh.done(&["push", "--behind"]), "nothing to send\n");
    let status = mesh.ends(3, &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(
        (&status["nodes"][0]["sent"]["holds"], &status["nodes"][0]["taken"]["holds"]),
        (&true.into(), &false.into())
    );
    assert!(status["nodes"][0]["well"]["holds"].is_null());
}

#[test]
fn r11_a_node_that_was_away_finds_the_newest_and_nothing_else() {
    let mesh = simple();
    mesh.done(&["push"]);
    for pool in [7, 8] {
        let settings = mesh.file("s.json", &format!(r#"{{"pool":{pool}}}"#));
        mesh.done(&["settings", "set", "small", settings.to_str().unwrap()]);
        mesh.done(&["push"]);
    }
    // What it reads when it comes back fits together, and is the third.
    let declaration = mesh.declaration("attic");
    assert_eq!(declaration.sequence, 3);
    let part = declaration.part("small").unwrap();
    let settings = mesh.value("mesh-controller_settings", "attic.small").unwrap();
    assert_eq!(String::from_utf8_lossy(&settings), r#"{"pool":8}"#);
    assert_eq!(part.settings, Digest::of(&settings));
    let assignment = mesh.value("mesh-controller_assignments", "attic.small").unwrap();
    assert_eq!(part.assignment, Digest::of(&assignment));
}

#[test]
fn j06_a_token_that_cannot_be_handed_over_was_never_issued() {
    let mesh = Mesh::start();
    let tokens =
        || serde_json::from_str::<serde_json::Value>(&mesh.done(&["token", "list", "--json"])).unwrap();
    let there = mesh.file("there", "mine");
    let there = there.to_str().unwrap();
    let server = format!("nats://{}", mesh.server.address());
    let refused = mesh.ends(1, &["token", "issue", "--new", "barn", "--out", there, "--server", &server]);
    assert!(refused.err.contains("no token was issued"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(there).unwrap(), "mine");
    // A disk that is full takes nothing of what is printed.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-controller"));
    command.args(["token", "issue", "--new", "barn", "--server", &server]).stdout(full);
    command
        .env("MESH_STORE_INVENTORY", mesh.paths().inventory)
        .env("MESH_STORE_IDENTITY", mesh.paths().identity);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(tokens().as_array().unwrap().len(), 0, "nothing was written down");
    assert_eq!(mesh.done(&["node", "list", "--json"]).trim(), "[]");
    // Issued again, it works, and is for its owner alone.
    let out = mesh.folder.path().join("token");
    mesh.done(&["token", "issue", "--new", "barn", "--out", out.to_str().unwrap(), "--server", &server]);
    assert!(std::fs::read_to_string(&out).unwrap().starts_with("mesh1_"));
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&out).unwrap()) & 0o777, 0o600);
    assert_eq!(tokens().as_array().unwrap().len(), 1);
}

#[test]
fn s02_a_value_of_another_type_is_refused_when_it_is_set() {
    let mesh = Mesh::start();
    mesh.add("typed", r#"{"module":"typed","version":"1","settings":{"schema":{"properties":{"db":{"type":"object"}},"additionalProperties":false},"defaults":{"db":{"pool":1}}}}"#);
    for (text, why) in [
        (r#"{"db":1}"#, "its type is"),
        (r#"{"bd":{}}"#, "nearest known: db"),
        ("[]", "where an object belongs"),
    ] {
        let file = mesh.file("s.json", text);
        let refused = mesh.ends(1, &["settings", "set", "typed", file.to_str().unwrap()]);
        assert!(refused.err.contains(why), "{text}: {}", refused.err);
    }
    let file = mesh.file("s.json", r#"{"db":{"pool":null}}"#);
    mesh.done(&["settings", "set", "typed", file.to_str().unwrap()]);
    let shown = mesh.done(&["settings", "show", "typed"]);
    assert!(shown.contains("db.pool  taken away  mesh"), "{shown}");
}

#[test]
fn p07_what_is_planned_for_a_silent_node_says_how_old_its_facts_are() {
    let mesh = simple();
    let mut store = Store::open(&mesh.paths()).unwrap();
    let report = mesh_model::report::Report::new(1, 1);
    let heard = nodes::Heard {
        at: mesh_controller::store::now() - 24 * 3_600_000,
        revision: 1,
        body: serde_json::to_vec(&report).unwrap(),
    };
    let change = store.note_inventory().unwrap();
    nodes::note_report(&change, "attic", &heard).unwrap();
    change.commit().unwrap();
    let planned = mesh.ends(2, &["plan"]);
    assert!(
        planned.err.contains("attic: what is known of its machine is as reported 24h ago"),
        "{}",
        planned.err
    );
    assert!(planned.out.contains("+ attic small"), "nothing is taken as empty: {}", planned.out);
}

#[test]
fn a_node_is_removed_once_its_machine_was_told_to_stop() {
    let mesh = simple();
    mesh.done(&["push"]);
    mesh.done(&["unassign", "attic", "small"]);
    let refused = mesh.ends(1, &["node", "remove", "attic"]);
    assert!(refused.err.contains("attic was told to run small, and was not told to stop"), "{}", refused.err);
    let hex = mesh.ends(2, &["plan"]).out.rsplit_once("sha256:").unwrap().1.trim().to_owned();
    mesh.done(&["push", "--yes", &hex]);
    mesh.done(&["node", "remove", "attic"]);
    assert!(mesh.ends(2, &["plan"]).out.contains("- attic · mesh-controller_declarations"));
    assert_eq!(mesh.done(&["push"]), "attic: what the buckets held of it is deleted\n");
    assert!(mesh.value("mesh-controller_declarations", "attic").is_none());
    assert_eq!(mesh.done(&["push"]), "nothing to send\n");
    // A machine that comes back under the name is sent a higher sequence than any before: the vault takes no lower one.
    mesh.done(&["node", "add", "attic"]);
    mesh.done(&["assign", "attic", "small"]);
    let sent = mesh.done(&["push"]);
    assert!(sent.starts_with("attic: sent, sequence 3,"), "{sent}");
}

#[test]
fn what_is_printed_as_json_keeps_to_the_schemas_that_ship() {
    let mesh = simple();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/schema/mesh");
    let keeps = |name: &str, printed: &str| {
        let schema = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
        let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
        let errors: Vec<String> = schema
            .iter_errors(&serde_json::from_str(printed).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?} {printed}");
    };
    keeps("plan", &mesh.ends(2, &["plan", "--json"]).out);
    keeps("status", &mesh.ends(3, &["status", "--json"]).out);
    mesh.done(&["push"]);
    mesh.add("small", &SMALL.replace("config:pool} ", "config:pool}  "));
    keeps("plan", &mesh.ends(2, &["plan", "--json"]).out);
    keeps("status", &mesh.ends(3, &["status", "--json"]).out);
}

#[test]
fn a_removed_node_is_not_in_the_status_once_its_keys_are_deleted() {
    let mesh = simple();
    mesh.done(&["push"]);
    mesh.done(&["unassign", "attic", "small"]);
    let hex = mesh.ends(2, &["plan"]).out.rsplit_once("sha256:").unwrap().1.trim().to_owned();
    mesh.done(&["push", "--yes", &hex]);
    mesh.done(&["node", "remove", "attic"]);
    mesh.done(&["push"]);
    assert_eq!(mesh.done(&["status"]), "no nodes: add one with node add\n");
}

#[test]
fn a_removal_that_is_refused_leaves_the_keys_and_one_that_was_cut_short_can_be_repeated() {
    let mesh = simple();
    let mut store = Store::open(&mesh.paths()).unwrap();
    let act =
        |command| mesh_controller::store::acts::Act { at: 1, who: "test", command, what: "", why: None };
    let change = store.change_identity(&act("join")).unwrap();
    let keys = identity::NodeKeys {
        node: "attic".into(),
        epoch: 1,
        bus: nkeys::KeyPair::new_user().public_key().parse().unwrap(),
        sealing: nkeys::XKey::new().public_key().parse().unwrap(),
        token: "t".into(),
        joined: 1,
        address: None,
        arch: None,
        facts: "{}".into(),
    };
    identity::put_node_keys(&change, &keys).unwrap();
    change.commit().unwrap();
    let refused = mesh.ends(1, &["node", "remove", "attic"]);
    assert!(refused.err.contains("attic has modules: small"), "{}", refused.err);
    assert!(identity::keys_of(store.identity(), "attic").unwrap().is_some());

    mesh.done(&["unassign", "attic", "small"]);
    // The first of its two transactions, and then the end of the program.
    let change = store.change_identity(&act("node remove")).unwrap();
    identity::drop_node_keys(&change, "attic").unwrap();
    change.commit().unwrap();
    mesh.done(&["node", "remove", "attic"]);
    mesh.done(&["node", "add", "attic"]);
    let shown = mesh.done(&["node", "show", "attic"]);
    assert!(shown.contains("not yet: token issue"), "{shown}");
}

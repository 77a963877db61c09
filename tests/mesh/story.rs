//! The story of packaging/try as assertions.

use super::lab::{BOUND, Lab, MODULES, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const NODES: [&str; 3] = ["attic", "cellar", "garage"];
const WEB: &str = "etc/web/web.json";

/// The files below these folders that hold `word`.
pub(crate) fn holding(folders: &[&Path], word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // A link may lead anywhere, and a socket is no file.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap_or_default();
                if bytes.windows(word.len()).any(|part| part == word.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}

/// Every file that a module wrote on these nodes, with its text and the time of its last write.
fn written(lab: &Lab) -> BTreeMap<String, (String, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<_> = NODES.iter().map(|node| lab.on(node, "etc")).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let time = entry.metadata().and_then(|meta| meta.modified()).expect("a time");
                found.insert(path.display().to_string(), (fs::read_to_string(&path).expect("text"), time));
            }
        }
    }
    found
}

fn web(lab: &Lab) -> Value {
    lab.read("attic", WEB).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[test]
fn the_story_of_a_mesh() {
    let mut lab = Lab::start("2");
    it_is_assigned_and_applied(&mut lab);
    a_module_waits_for_its_provider(&lab);
    a_setting_changes(&lab);
    a_secret_is_rotated(&lab);
    a_file_is_put_right(&lab);
    silence_changes_nothing(&mut lab);
    a_module_is_taken_off(&lab);
    a_vault_that_is_away_is_named_and_changes_nothing(&mut lab);
}

fn it_is_assigned_and_applied(lab: &mut Lab) {
    for node in NODES {
        lab.join(node);
        lab.controller(&["node", "set", node, "--zone", "home"]);
    }

    // Added and assigned: nothing is sent before a push, and the plan says what would be.
    for module in ["web", "postgres", "shell", "motd", "metrics"] {
        lab.controller(&["module", "add", &format!("{MODULES}/{module}.json")]);
    }
    lab.controller(&["assign", "cellar", "postgres", "metrics", "motd"]);
    lab.controller(&["assign", "garage", "motd"]);
    lab.controller(&["assign", "attic", "web", "shell", "motd"]);
    let plan = lab.run("controller", "mesh-controller", &["plan", "attic"]).expect_code(2).stdout;
    assert!(plan.contains("+ attic web placement.port.http 20000  port kept since"), "{plan}");
    assert!(!lab.on("attic", "etc/motd").exists());
    assert_eq!(lab.push().lines().count(), 3);
    for (node, module) in [("cellar", "postgres"), ("attic", "shell"), ("garage", "motd")] {
        lab.wait_current(node, module);
    }
    assert_eq!(
        lab.read("garage", "etc/motd").as_deref(),
        Some(
            "This is garage, in the zone home.\nWhat you change by hand is put back; ask: mesh-host status\n"
        )
    );
    let zshrc = lab.read("attic", "etc/zsh/zshrc").expect("the shell's file");
    let order =
        ["setopt histignorealldups", "alias ll='ls -l'", "alias weblog=", "WEB_URL=http://127.0.0.1:20000"];
    let places: Vec<_> = order.iter().map(|line| zshrc.find(line).expect(line)).collect();
    assert!(places.is_sorted() && zshrc.contains("${HOME}, ${EDITOR:-vi}"), "{zshrc}");
}

/// It waits for where its database is, and the seat says why.
fn a_module_waits_for_its_provider(lab: &Lab) {
    let why = || lab.run("reader", "mesh-provisioner", &["why", "attic", "web", "bound:database"]);
    until("the seat to say what web waits for", || {
        let said = why();
        let right = said.status.code() == Some(3) && said.stdout.contains("provider has not answered");
        if right { Ok(()) } else { Err(said.stdout) }
    });
    assert!(!lab.on("attic", WEB).exists());
    let provider = lab.provider("cellar", "postgres");
    let consumer = "attic.web.postgres.database";
    lab.answer_as(&provider, "cellar", "postgres", consumer, &json!({"host": "127.0.0.1", "port": 5432}));
    lab.wait_current("attic", "web");
    why().expect_code(0);

    // The file of the manifest, filled. Both sides have the same credential.
    let file = web(lab);
    assert_eq!(file["title"], "A web service");
    assert_eq!(file["listen"], "127.0.0.1:20000");
    assert_eq!(file["session_key"].as_str().map(str::len), Some(43));
    let database = &file["database"];
    assert_eq!(
        (&database["host"], &database["port"], &database["pool"]),
        (&json!("127.0.0.1"), &json!(5432), &json!(5))
    );
    let consumers = lab.read("cellar", "etc/postgres/consumers.json").expect("the list of consumers");
    let consumers: Value = serde_json::from_str(&consumers).expect("JSON");
    assert_eq!(consumers.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&consumers[0]["user"], &consumers[0]["password"]),
        (&database["user"], &database["password"])
    );
}

/// A setting, and a file that follows.
fn a_setting_changes(lab: &Lab) {
    let settings = lab.path("web.settings");
    fs::write(&settings, r#"{"title":"The attic","pool":12}"#).expect("a file");
    lab.controller(&["settings", "set", "web", &settings]);
    assert_eq!(web(lab)["title"], "A web service");
    lab.push();
    until("the file to have the new title", || {
        let file = web(lab);
        let right = file["title"] == "The attic" && file["database"]["pool"] == 12;
        if right { Ok(()) } else { Err(file.to_string()) }
    });
}

/// A secret is rotated. Neither value is anywhere but in its file.
fn a_secret_is_rotated(lab: &Lab) {
    let before = web(lab)["session_key"].as_str().expect("a key").to_owned();
    let said = lab.controller(&["secret", "rotate", "attic", "web", "session-key"]);
    assert!(said.contains("revision 2"), "{said}");
    let after = until("the file to have the new key", || match web(lab)["session_key"].as_str() {
        Some(key) if key != before => Ok(key.to_owned()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(after.len(), 43);
    let password = web(lab)["database"]["password"].as_str().expect("a password").to_owned();
    let own: Vec<_> = NODES.iter().map(|node| lab.on(node, "var/lib/mesh-host")).collect();
    let clients: Vec<_> = NODES.iter().map(|node| lab.on(node, "var/lib/mesh-provisioner-client")).collect();
    let (vault, controller) = (lab.folder.path().join("vault"), lab.folder.path().join("controller"));
    let mut places: Vec<&Path> = vec![lab.server.directory(), &vault, &controller];
    places.extend(own.iter().chain(&clients).map(PathBuf::as_path));
    for secret in [&before, &after, &password] {
        assert_eq!(holding(&places, secret), Vec::<String>::new());
        for name in lab.names() {
            assert!(!lab.log(&name).contains(secret.as_str()), "the log of {name} has a secret");
        }
    }
    assert_eq!(holding(&[&lab.on("attic", "etc")], &after).len(), 1);
}

/// Somebody edits a file by hand: it is put right, and the host says so.
fn a_file_is_put_right(lab: &Lab) {
    fs::write(lab.on("attic", "etc/motd"), "edited by hand\n").expect("the file");
    until("the file to be put right", || {
        let text = lab.read("attic", "etc/motd").unwrap_or_default();
        if text.starts_with("This is attic") { Ok(()) } else { Err(text) }
    });
    until("the host to say so", || {
        let log = lab.log("host-attic");
        log.contains("it had been changed on the machine").then_some(()).ok_or(log)
    });
}

/// The controller and the bus are killed: nothing that runs changes, and nothing does when they are back.
fn silence_changes_nothing(lab: &mut Lab) {
    let files = written(lab);
    lab.end("controller");
    lab.server.kill();
    for node in NODES {
        // Each host looks at everything once more meanwhile.
        lab.end(&format!("host-{node}"));
        lab.start_program(&format!("host-{node}"));
    }
    for node in NODES {
        let socket = lab.on(node, "run/mesh-host/host.sock");
        until("the host to listen", || socket.exists().then_some(()).ok_or("no socket".to_owned()));
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(written(lab), files);
    lab.server.restart();
    lab.start_program("controller");
    until("all to be current", || {
        let drift = lab.run("reader", "mesh-provisioner", &["ask", "drift"]);
        if drift.status.success() { Ok(()) } else { Err(drift.stdout + &drift.stderr) }
    });
    lab.wait_ready("controller");
    assert_eq!(lab.push(), "nothing to send\n");
    assert_eq!(written(lab), files);
}

/// A module is taken off. Its data stays, and nothing of it stays on the bus.
fn a_module_is_taken_off(lab: &Lab) {
    let data = lab.on("attic", "var/lib/web/visitors.json");
    fs::write(&data, "{\"visitors\":7}\n").expect("the data");
    lab.controller(&["unassign", "attic", "web"]);
    lab.push_all_of("attic");
    // Its provider's assignment lists one consumer less.
    assert_eq!(lab.push().lines().count(), 1);
    until("the file of web to be gone", || {
        if lab.on("attic", WEB).exists() { Err("it is there".to_owned()) } else { Ok(()) }
    });
    assert_eq!(fs::read_to_string(&data).expect("the data"), "{\"visitors\":7}\n");
    let shell = || lab.read("attic", "etc/zsh/zshrc").unwrap_or_default();
    until("the shell to be without it", || if shell().contains("weblog") { Err(shell()) } else { Ok(()) });
    until("the provider to have no consumer", || {
        let text = lab.read("cellar", "etc/postgres/consumers.json").unwrap_or_default();
        if text == "[]\n" { Ok(()) } else { Err(text) }
    });
    until("the seat to have six modules, all current", || {
        let said = lab.run("reader", "mesh-provisioner", &["status"]).stdout;
        said.contains("6: 6 current").then_some(()).ok_or(said)
    });
    let administrator = lab.role("administrator");
    // The provider's own value is for the provider to take away.
    assert_eq!(administrator.kv_keys(BOUND).len(), 1);

    // It comes back under the same keys, with its data and its port.
    lab.controller(&["assign", "attic", "web"]);
    lab.push();
    lab.wait_current("attic", "web");
    assert_eq!(web(lab)["listen"], "127.0.0.1:20000");
    assert_eq!(fs::read_to_string(&data).expect("the data"), "{\"visitors\":7}\n");
}

/// The vault is away for a while: what runs stays as it is, a new module waits, and the seat says for whom.
fn a_vault_that_is_away_is_named_and_changes_nothing(lab: &mut Lab) {
    let files = written(lab);
    lab.end("vault");
    lab.controller(&["assign", "garage", "web"]);
    lab.push();
    let gaps = |lab: &Lab| lab.run("reader", "mesh-provisioner", &["ask", "gaps", "--node", "garage"]);
    until("gaps to name the needs that wait for the vault", || {
        let said = gaps(lab);
        let waits = |line: &&str| line.contains(" secret ") && line.contains("no responder");
        let right = said.stdout.lines().filter(waits).count() == 2;
        if right { Ok(()) } else { Err(format!("{said:?}")) }
    });
    let why = lab.run("reader", "mesh-provisioner", &["why", "garage", "web", "secret:session-key"]);
    assert!(why.stdout.contains("mesh-vault"), "{}", why.stdout);
    assert!(!lab.on("garage", WEB).exists());
    let now = written(lab);
    for (path, file) in &files {
        // The list of the provider's consumers has one more, and its credential is the vault's.
        assert!(now.get(path) == Some(file), "{path}");
    }

    lab.start_program("vault");
    lab.wait_ready("vault");
    let provider = lab.provider("cellar", "postgres");
    let value = json!({"host": "127.0.0.1", "port": 5432});
    lab.answer_as(&provider, "cellar", "postgres", "garage.web.postgres.database", &value);
    lab.wait_current("garage", "web");
    until("no gap to be left", || {
        let said = gaps(lab);
        if said.stderr.starts_with("no gaps") { Ok(()) } else { Err(said.stdout) }
    });
}

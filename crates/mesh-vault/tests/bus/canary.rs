//! E6: no plaintext stands anywhere but sealed.

use crate::asking::answer;
use crate::bench::{Bench, controller, node};
use crate::support::controller::{accepted, made};
use mesh_daemon::time::rfc3339;
use mesh_testing::process::memory;
use mesh_testing::wait::{PATIENCE, until};
use serde_json::json;
use std::path::Path;
use std::time::SystemTime;

const CANARY: &[u8] = b"canary-f3a9-do-not-print-me";

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Every file below a folder that holds one of the needles.
fn search(folder: &Path, needles: &[Vec<u8>], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, needles, found);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let holds = |needle: &&Vec<u8>| contains(&bytes, needle);
            found.extend(needles.iter().find(holds).map(|_| path.display().to_string()));
        }
    }
}

#[test]
fn e06_no_plaintext_is_in_store_log_status_bucket_arguments_or_memory() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex"), accepted("token")]));
    let (attic, operator) = (bench.server.client(&node("attic")), bench.server.client(&controller()));
    let sealed = answer(&bench.secret(&attic, "attic", "web", "key")).sealed;
    let label = bench.controller.label("attic", "web", "key");
    let (_, value) = bench.controller.open("attic", &sealed, &label).unwrap();
    let given = bench.controller.value("attic", "web", "token", CANARY);
    let fields = json!({"node": "attic", "module": "web", "name": "token", "value": given});
    let request = bench.controller.request("accept", "canary", &rfc3339(SystemTime::now()), &fields);
    until("the canary to be accepted", PATIENCE, || {
        let message = operator
            .request("mesh-vault.accept", request.clone(), PATIENCE)
            .map_err(|why| format!("{why:?}"))?;
        if message.json()["revision"] == json!(1) { Ok(()) } else { Err(message.text()) }
    });
    answer(&bench.secret(&attic, "attic", "web", "token"));
    bench.wait_revision("attic.web.token", 1);

    let seed = std::fs::read(bench.key_file()).unwrap();
    let random = data_encoding::HEXLOWER.decode(&value).unwrap();
    let secrets = [CANARY.to_vec(), value, random];
    let mut found = Vec::new();
    search(bench.folder.path(), &secrets, &mut found);
    search(bench.server.directory(), &secrets, &mut found);
    assert_eq!(found, [""; 0], "a plaintext is in a file");
    let mut found = Vec::new();
    search(bench.server.directory(), &[seed.trim_ascii().to_vec()], &mut found);
    assert_eq!(found, [""; 0], "the vault's seed is on the bus");

    let id = bench.vault.as_ref().unwrap().process.id();
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap();
        assert!(secrets.iter().all(|secret| !contains(&bytes, secret)), "{file}");
    }
    let core = memory(id);
    assert!(contains(&core, b"attic"), "the memory was read");
    let left = secrets.iter().position(|secret| contains(&core, secret));
    assert_eq!(left, None, "a plaintext was left in memory");
}

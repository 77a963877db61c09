//! A declaration that changes this host's own unit: it is done last, once, and the apply comes to its end.

use crate::machine::Machine;
use mesh_model::signed::{Envelope, PayloadType};
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};

const UNIT: &str = include_str!("../../../../packaging/mesh-host/mesh-host.service");
const OWN: &str = "mesh-host.service";

/// The keys of a mesh.
struct Keys {
    operator: KeyPair,
    vault: XKey,
}

/// A signed request to apply one module.
fn request(keys: &Keys, sequence: u64, resources: &Value) -> Value {
    let assignment =
        json!({"module": "web", "version": "1", "needs": [], "contributes": [], "resources": resources,
        "placement": {"dir": {}, "access": {}, "port": {}, "seat": {}, "machine": {}}})
        .to_string();
    let settings = "{}";
    let digest = |text: &str| mesh_model::digest::Digest::of(text.as_bytes()).to_string();
    let part = json!({"module": "web", "assignment": digest(&assignment), "settings": digest(settings)});
    let payload = json!({"mesh": "m", "node": "attic", "sequence": sequence, "fence": 1, "at": "now",
        "vault": keys.vault.public_key(), "modules": [part], "adoption": null});
    let payload = payload.to_string().into_bytes();
    let envelope = Envelope::sign(PayloadType::Declaration, payload, &keys.operator).unwrap();
    let coded = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    json!({"apply": {"declaration": envelope, "assignments": {"web": coded(&assignment)},
        "settings": {"web": coded(settings)}, "values": {"web": {}}}})
}

/// Asks over the socket, from inside: of a process outside the socket would not know who it is.
const ASK: &str = r"use IO::Socket::UNIX; local $/; my $s = IO::Socket::UNIX->new(Peer => '/run/mesh-host/host.sock') or die $!; open(F, '<', '/root/request.json') or die; print $s <F>; shutdown($s, 1); print <$s>";

/// Sends a request, and returns the lines of the answer.
fn ask(machine: &Machine, request: &Value) -> Vec<Value> {
    machine.write("/root/request.json", &format!("{request}\n"));
    let ran = machine.run(&["perl", "-e", ASK]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn resources(round: u32) -> Value {
    json!([
        {"id": "web.unit", "type": "file", "path": "/etc/systemd/system/mesh-host.service.d/round.conf",
         "content": format!("[Service]\nEnvironment=ROUND={round}\n")},
        {"id": "web.own", "type": "service", "unit": OWN, "state": "running", "boot": "enabled",
         "restart-on": ["web.unit"], "settle": "0s"},
        {"id": "web.site", "type": "file", "path": "/srv/site", "content": round.to_string()},
    ])
}

#[test]
fn h78_what_this_host_is_made_of_is_changed_last_and_once() {
    let machine = Machine::boot();
    let keys = Keys { operator: KeyPair::new_operator(), vault: XKey::new() };
    let settings = json!({"mesh": "m", "mesh-key": keys.operator.public_key(), "vault": keys.vault.public_key(),
        "node": "attic", "client-uid": 4242});
    machine.write("/etc/mesh-host/host.json", &settings.to_string());
    machine.write("/etc/systemd/system/mesh-host.service", UNIT);
    machine.shell(
        "groupadd --system mesh; mesh-host key make; systemctl daemon-reload; systemctl start mesh-host",
    );
    let pid = || machine.property(OWN, "MainPID");
    for round in [1, 2] {
        let before = pid();
        let request = request(&keys, u64::from(round), &resources(round));
        let answer = ask(&machine, &request);
        let words: Vec<String> = answer
            .iter()
            .filter_map(|line| line.get("outcome"))
            .map(|end| format!("{} {}", end["id"].as_str().unwrap(), end["word"].as_str().unwrap()))
            .collect();
        let word = if round == 1 { "created" } else { "updated" };
        assert_eq!(
            words,
            [format!("web.site {word}"), format!("web.unit {word}"), "web.own updated".into()],
            "{answer:?}"
        );
        let own = &answer[2]["outcome"];
        let detail = own["detail"].as_str().unwrap();
        assert!(detail.ends_with("restarted for web.unit, once this apply has ended"), "{detail}");
        // The client that asked gets the end of it.
        let report = &answer[3]["report"];
        assert_eq!(report["modules"]["web"]["state"], "applied", "{report}");
        machine.until("another process serves", |machine| {
            ![before.as_str(), "0"].contains(&machine.property(OWN, "MainPID").as_str())
                && machine.property(OWN, "ActiveState") == "active"
        });
        let after = pid();
        let environment = machine.shell(&format!("tr '\\0' '\\n' </proc/{after}/environ"));
        assert!(environment.contains(&format!("ROUND={round}\n")), "{environment}");
        // It applies its own copy when it starts, and then finds nothing to do.
        machine.until("it has applied its own copy", |machine| {
            machine.run(&["sh", "-c", "flock --nonblock /run/mesh-host/lock true"]).code == 0
        });
        assert_eq!(ask(&machine, &request), [json!({"report": {"same": true}})]);
        let full = self::request(&keys, u64::from(round), &resources(round));
        let mut only = full;
        only["apply"]["only"] = json!(["web"]);
        let again = ask(&machine, &only);
        let report = &again.last().unwrap()["report"];
        assert!(report["same"] == true || report["changed"] == false, "{again:?}");
        assert_eq!(
            (pid(), machine.property(OWN, "NRestarts")),
            (after, "0".to_owned()),
            "it was restarted again"
        );
    }
}

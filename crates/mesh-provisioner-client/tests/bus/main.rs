//! The client on a real bus under the rights of a node, with the real host below a folder.

#![allow(unreachable_pub, dead_code, reason = "what a module of a test offers")]

mod node;

use std::time::Duration;

use node::{APPLIED, ASSIGNMENTS, COLLECT, Mesh, Module, NEEDS, Node, REPORTS, REVISIONS};
use serde_json::{Value, json};

const CANARY: &[u8] = b"canary-3kf9-not-in-any-bucket";

fn web() -> Module {
    Module {
        name: "web",
        assignment: json!({
            "module": "web", "version": "2.4.1",
            "needs": [
                {"kind":"config","name":"motto"},
                {"kind":"port","name":"http"},
                {"kind":"dir","name":"state"},
                {"kind":"secret","name":"session-key","make":{"bytes":32,"as":"base64url"}},
            ],
            "contributes": [{"collection":"shell:zsh:normal","item":{"order":50,"lines":["alias w=web"]}}],
            "placement": {"dir":{"state":"/srv/web"},"port":{"http":8080}},
            "resources": [
                {"id":"web.dir","type":"directory","path":"${dir:state}"},
                {"id":"web.site","type":"file","path":"${dir:state}/site","mode":"0600",
                 "content":"port ${port:http}\nmotto ${config:motto}\nkey ${secret:session-key}\nhome ${HOME}\n"},
            ],
        }),
        settings: json!({"motto":"${secret:session-key} stays text"}),
    }
}

fn site(motto: &str, key: &[u8]) -> Vec<u8> {
    [format!("port 8080\nmotto {motto}\nkey ").as_bytes(), key, b"\nhome ${HOME}\n"].concat()
}

/// A module without secrets.
fn plain(name: &'static str, content: &str) -> Module {
    Module {
        name,
        assignment: json!({
            "module": name, "version": "1",
            "needs": [{"kind":"config","name":"word"}],
            "resources": [{"id":format!("{name}.file"),"type":"file","path":format!("/srv/{name}"),"content":"${config:word}\n"}],
        }),
        settings: json!({"word": content}),
    }
}

fn state(value: Option<&Value>) -> &str {
    value.and_then(|value| value["state"].as_str()).unwrap_or_default()
}

/// The main path: a declaration from the bus becomes files, byte for byte, and the mesh is told. K01 in it: a value that
/// looks like a placeholder is not read again.
#[test]
fn k01_a_declaration_becomes_files_and_the_mesh_is_told() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    let vault = mesh.vault(&node);
    vault.set("web", "session-key", 1, CANARY);
    mesh.push(&[web(), plain("notes", "one")]);
    node.start_host();
    node.start_client();
    node.until_file("/srv/web/site", &site("${secret:session-key} stays text", CANARY));
    node.until_file("/srv/notes", b"one\n");
    for (kind, name) in [("config", "motto"), ("port", "http"), ("dir", "state"), ("secret", "session-key")] {
        node.until_key(&mesh, NEEDS, &format!("attic.web.{kind}.{name}"), |value| {
            state(value.as_ref()) == "filled"
        });
    }
    node.until_key(&mesh, APPLIED, "attic.web", |value| {
        value.is_some_and(|value| {
            value["sequence"] == 1 && value["needs"] == 4 && value["secrets"] == json!({"session-key": 1})
        })
    });
    node.until_key(&mesh, COLLECT, "attic.shell=3Azsh=3Anormal.web", |value| {
        value == Some(json!({"order":50,"lines":["alias w=web"]}))
    });
    node.until_key(&mesh, REPORTS, "attic", |value| {
        value.is_some_and(|value| value["modules"]["web"]["state"] == "applied" && value["sequence"] == 1)
    });

    // A module leaves by a newer declaration, and with it its keys.
    mesh.push(&[web()]);
    node.until_key(&mesh, APPLIED, "attic.notes", |value| value.is_none());
    node.until_key(&mesh, NEEDS, "attic.notes.config.word", |value| value.is_none());
    node.until_gone("/srv/notes");

    // No secret is in any bucket, log or state of the client.
    let canary = String::from_utf8(CANARY.to_vec()).unwrap();
    for bucket in [NEEDS, APPLIED, COLLECT, REPORTS, ASSIGNMENTS, REVISIONS] {
        for key in mesh.tester.kv_keys(bucket) {
            let stored = mesh.tester.kv_get(bucket, &key).map(|stored| stored.value).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&stored).contains(&canary), "{bucket} {key}");
        }
    }
    assert!(!node.logs().contains(&canary));
    let memory = node.read("/var/lib/mesh-provisioner-client/journal").unwrap();
    let memory = String::from_utf8(memory).unwrap();
    assert!(!memory.contains(&canary) && !memory.contains("sealed:"), "{memory}");
}

/// K33: a rotated secret reaches the file at once where the bucket tells of it.
#[test]
fn k33_a_rotated_secret_reaches_the_file() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    let vault = mesh.vault(&node);
    vault.set("web", "session-key", 1, b"first");
    mesh.tester.kv_put(
        REVISIONS,
        "attic.web.session-key",
        r#"{"revision":1,"origin":"made","recovery":null}"#,
    );
    mesh.push(&[web()]);
    node.start_host();
    node.start_client();
    node.until_file("/srv/web/site", &site("${secret:session-key} stays text", b"first"));
    assert_eq!(vault.asked(), 1);
    vault.set("web", "session-key", 2, b"second");
    mesh.tester.kv_put(
        REVISIONS,
        "attic.web.session-key",
        r#"{"revision":2,"origin":"made","recovery":null}"#,
    );
    let took = node.until_file("/srv/web/site", &site("${secret:session-key} stays text", b"second"));
    assert!(took < Duration::from_secs(1), "{took:?}");
    node.until_key(&mesh, APPLIED, "attic.web", |value| {
        value.is_some_and(|value| value["secrets"] == json!({"session-key": 2}))
    });
    // An equal revision is not asked for again, not even after a reconnect.
    mesh.restart();
    mesh.push(&[web(), plain("notes", "one")]);
    node.until_file("/srv/notes", b"one\n");
    assert_eq!(vault.asked(), 2);
}

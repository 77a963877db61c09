//! Values that are filled, and that no trace of is left anywhere else.

use crate::mesh::{Mesh, Module, secret_need};
use crate::tree::Tree;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const CANARY: &str = "c4n4ry-5e55ion-k3y";

/// Where the canary is, raw or coded, among all that the program wrote.
fn traces(tree: &Tree, texts: &[&str]) -> Vec<String> {
    let coded = [
        CANARY.to_owned(),
        data_encoding::BASE64.encode(CANARY.as_bytes()),
        data_encoding::HEXLOWER.encode(CANARY.as_bytes()),
    ];
    let mut found = Vec::new();
    for (name, bytes) in tree.state() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        found.extend(
            coded.iter().filter(|coded| text.contains(*coded)).map(|coded| format!("{name}: {coded}")),
        );
    }
    for text in texts {
        found.extend(
            coded.iter().filter(|coded| text.contains(*coded)).map(|coded| format!("{coded} in {text}")),
        );
    }
    found
}

#[test]
fn h37_a_secret_is_in_its_file_and_nowhere_else() {
    let tree = Tree::new();
    let bundle = |value: &str| {
        json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": value}},
               "resources": [{"id": "conf", "type": "file", "path": "/etc/conf", "content": "key=${secret:key}\n"}]})
    };
    let first = tree.apply_bundle(&bundle(CANARY));
    assert_eq!(
        (first.code, tree.read("/etc/conf"), tree.mode("/etc/conf")),
        (0, format!("key={CANARY}\n"), 0o600)
    );
    let second = tree.apply_bundle(&bundle("another"));
    let third = tree.apply_bundle(&bundle(CANARY));
    assert_eq!(
        (second.words(), third.words()),
        (vec!["conf updated".to_owned()], vec!["conf updated".to_owned()])
    );
    let status = tree.run(&["status"]);
    let texts = [&first, &second, &third, &status].map(|ran| format!("{}{}", ran.out, ran.err));
    assert_eq!(traces(&tree, &texts.each_ref().map(String::as_str)), [""; 0]);
    // Nor can it be guessed from a plain digest.
    let plain = mesh_host::digest::Digest::plain(format!("key={CANARY}\n").as_bytes());
    let state = tree.state();
    assert!(state.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains(plain.as_str())));
    assert!(texts.iter().all(|text| !text.contains(plain.as_str())));
}

#[test]
fn h38_neither_plan_nor_failure_shows_a_secret() {
    let tree = Tree::new();
    tree.write("/srv/conf/data", "in the way");
    let bundle = json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": CANARY}},
        "resources": [{"id": "conf", "type": "file", "path": "/srv/conf", "content": "${secret:key}"},
                      {"id": "fine", "type": "file", "path": "/srv/fine", "content": "${secret:key}"}]});
    let file = tree.bundle(&bundle);
    let plan = tree.run(&["plan", "--json", &file]);
    let ran = tree.apply_bundle(&bundle);
    assert_eq!((plan.code, ran.code), (1, 3));
    let broken = json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": CANARY}},
        "resources": [{"id": "conf", "type": "file", "path": "/srv/c", "content": "{\"a\": ${secret:key}", "format": "json"}]});
    let refused = tree.apply_bundle(&broken);
    assert!(refused.code == 1 && refused.err.contains("the filled text is not json"), "{}", refused.err);
    let texts = [&plan, &ran, &refused].map(|ran| format!("{}{}", ran.out, ran.err));
    assert_eq!(traces(&tree, &texts.each_ref().map(String::as_str)), [""; 0]);
}

#[test]
fn plan_shows_the_text_that_changes_and_never_one_that_carries_or_carried_a_secret() {
    let tree = Tree::new();
    let bundle = |resources: serde_json::Value| {
        json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": CANARY}},
               "resources": resources})
    };
    let file = |id: &str, path: &str, content: &str, mode: &str| json!({"id": id, "type": "file", "path": path, "content": content, "mode": mode});
    let secret = format!("key={CANARY}\n");
    let plan = |resources: serde_json::Value| tree.run(&["plan", &tree.bundle(&bundle(resources))]);

    // What is new, what changes, and a directory that not everyone may pass through.
    tree.write("/etc/conf", "one\ntwo\nthree\n");
    tree.write("/etc/closed", &secret);
    fs::set_permissions(tree.path("/etc/closed"), fs::Permissions::from_mode(0o640)).unwrap();
    tree.write("/srv/private/open", &secret);
    fs::set_permissions(tree.path("/srv/private"), fs::Permissions::from_mode(0o700)).unwrap();
    let resources = json!([
        file("conf", "/etc/conf", "one\n2\u{1b}[31m\nthree\n", "0644"),
        file("new", "/etc/new", "made\there\n", "0644"),
        file("closed", "/etc/closed", "public now\n", "0644"),
        file("open", "/srv/private/open", "public now\n", "0644"),
        {"id": "folder", "type": "directory", "path": "/srv/later", "mode": "0750"},
        file("below", "/srv/later/x", "for few\n", "0644"),
        file("mine", "/etc/mine", "for its owner\n", "0600"),
        file("secret", "/etc/secret", "${secret:key}\n", "0644"),
        file("moved", "/etc/moved", "text with no secret\n", "0644"),
    ]);
    let shown = plan(resources.clone());
    assert_eq!(shown.code, 2, "{}", shown.err);
    for text in [
        "--- /etc/conf\n+++ /etc/conf\n@@ -1,3 +1,3 @@\n one\n-two\n+2\\u{1b}[31m\n three\n",
        "--- /dev/null\n+++ /etc/new\n@@ -0,0 +1 @@\n+made\there\n",
        "the text of /etc/closed is not shown: not everyone may read it\n",
        "the text of /srv/private/open is not shown: not everyone may read it\n",
        "the text of /srv/later/x is not shown: not everyone may read it\n",
        "the text of /etc/mine is not shown: not everyone may read it\n",
        "the text of /etc/secret is not shown: it carries a secret, or did\n",
    ] {
        assert!(shown.out.contains(text), "{text}\nin\n{}", shown.out);
    }
    let json = tree.run(&["plan", "--json", &tree.bundle(&bundle(resources.clone()))]);
    assert!(json.out.lines().all(|line| line.starts_with('{')), "{}", json.out);

    // It carried one until now, as a whole or as a key inside of it; and what is there may be read by anyone.
    assert_eq!(tree.run(&["key", "make"]).code, 0);
    let into = json!({"id": "keys", "type": "file", "into": "/etc/keys.json", "format": "json", "content": "{\"key\":\"${secret:key}\"}"});
    let applied =
        tree.apply_bundle(&bundle(json!([file("moved", "/etc/moved", "${secret:key}", "0644"), into])));
    assert_eq!(applied.code, 0, "{}{}", applied.out, applied.err);
    fs::set_permissions(tree.path("/etc/keys.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let after = plan(json!([
        file("moved", "/etc/moved", "no secret any more\n", "0644"),
        file("keys", "/etc/keys.json", "{}", "0644"),
        file("uses", "/etc/uses", "${secret:key}", "0644"),
    ]));
    for path in ["moved", "keys.json"] {
        let text = format!("the text of /etc/{path} is not shown: it carries a secret, or did\n");
        assert!(after.out.contains(&text), "{text}\nin\n{}", after.out);
    }
    let texts = [&shown, &json, &after].map(|ran| format!("{}{}", ran.out, ran.err));
    assert_eq!(traces(&tree, &texts.each_ref().map(String::as_str)), [""; 0]);
    // Nor is the text of a file shown that another user of this machine could not read.
    assert!(!texts.iter().any(|text| text.contains("for few") || text.contains("for its owner")));
}

#[test]
fn h43_values_are_literal_unknown_holes_are_text_and_unused_values_are_refused() {
    let tree = Tree::new();
    let with = |values: serde_json::Value| {
        json!({"bundle": "test", "needs": [{"kind": "secret", "name": "a"}, {"kind": "secret", "name": "b"}], "values": values,
               "resources": [{"id": "f", "type": "file", "path": "/etc/f", "content": "${secret:a} ${HOME} ${port:-80} $${secret:a} ${secret:c}"}]})
    };
    let ran =
        tree.apply_bundle(&with(json!({"secret:a": {"text": "${secret:b}"}, "secret:b": {"text": "never"}})));
    assert_eq!(
        (ran.code, tree.read("/etc/f")),
        (0, "${secret:b} ${HOME} ${port:-80} ${secret:a} ${secret:c}".to_owned()),
        "{}",
        ran.err
    );
    let ran = tree.apply_bundle(&with(json!({"secret:b": {"text": "x"}})));
    assert_eq!(
        (ran.code, ran.report()["modules"]["test"]["state"].clone()),
        (3, json!("waiting")),
        "{}",
        ran.err
    );
    assert!(ran.report()["modules"]["test"]["why"].as_str().unwrap().contains("secret:a"));
    assert_eq!(tree.read("/etc/f"), "${secret:b} ${HOME} ${port:-80} ${secret:a} ${secret:c}");
    let ran = tree.apply_bundle(&with(json!({"secret:a": {"text": "x"}, "secret:z": {"text": "x"}})));
    assert!(ran.code == 1 && ran.err.contains("secret:z"), "{}", ran.err);
}

#[test]
fn a_new_file_that_keys_with_a_secret_are_set_in_is_for_its_owner_alone() {
    let tree = Tree::new();
    tree.write("/etc/hostname", "attic");
    assert_eq!(tree.run(&["key", "make"]).code, 0);
    let into = |name: &str, content: &str| json!({"id": name, "type": "file", "into": format!("/etc/{name}.json"), "format": "json", "content": content});
    let bundle = json!({"bundle": "test", "needs": [{"kind": "secret", "name": "key"}], "values": {"secret:key": {"text": CANARY}},
                        "resources": [into("open", r#"{"a":1}"#), into("close", r#"{"key":"${secret:key}"}"#)]});
    let ran = tree.apply_bundle(&bundle);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!((tree.mode("/etc/open.json"), tree.mode("/etc/close.json")), (0o644, 0o600));
}

#[test]
fn a_file_for_a_secret_that_a_user_made_beforehand_becomes_roots() {
    let mesh = Mesh::new();
    mesh.tree.write("/srv/key", "mine");
    mesh.tree.write("/srv/held", "mine");
    std::os::unix::fs::chown(mesh.tree.path("/srv/key"), Some(4243), Some(4243)).expect("as root");
    std::os::unix::fs::chown(mesh.tree.path("/srv/held"), Some(4243), Some(4243)).expect("as root");
    let module = Module {
        needs: json!([secret_need("key")]),
        values: Some(json!({"secret:key": mesh.sealed("web", "key", 1, "hunter2")})),
        ..Module::new(
            "web",
            json!([{"id": "web.key", "type": "file", "path": "/srv/key", "content": "${secret:key}"},
                   {"id": "web.held", "type": "file", "path": "/srv/held", "content": "${secret:key}", "in-place": true}]),
        )
    };
    let request = mesh.request(1, &[module]);
    let ran = mesh.apply(&request);
    assert_eq!(ran.words(), ["web.key updated", "web.held failed"], "{}", ran.err);
    assert_eq!((mesh.tree.read("/srv/key"), mesh.tree.mode("/srv/key")), ("hunter2".to_owned(), 0o600));
    assert_eq!(mesh.tree.owner("/srv/key"), (0, 0));
    // Whoever opened the other one before could read what is written into it.
    assert!(ran.cause("web.held").contains("has been open to others"), "{}", ran.cause("web.held"));
    assert_eq!(mesh.tree.read("/srv/held"), "mine");
    // Given away by hand, it comes back.
    std::os::unix::fs::chown(mesh.tree.path("/srv/key"), Some(4243), Some(4243)).unwrap();
    let ran = mesh.apply(&request);
    assert_eq!((ran.words()[0].as_str(), ran.cause("web.key")), ("web.key corrected", "owner".to_owned()));
    assert_eq!(mesh.tree.owner("/srv/key"), (0, 0));
}

//! Values that are filled, and that no trace of is left anywhere else.

use crate::tree::Tree;
use serde_json::json;

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

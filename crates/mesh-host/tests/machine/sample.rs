//! One declaration with every kind.

use crate::containers::{self, IMAGE};
use crate::machine::Machine;
use serde_json::{Value, json};

const UNIT: &str = "[Unit]\nDescription=Own\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

/// A tar archive of one file.
fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o755);
    tar.append_data(&mut header, "bin/tool", &b"tool\n"[..]).unwrap();
    tar.into_inner().unwrap()
}

fn sample() -> Value {
    let archive = archive();
    let digest = mesh_model::digest::Digest::of(&archive).to_string();
    json!([
        {"id": "plain", "type": "package", "package": "mesh-plain"},
        {"id": "served", "type": "package", "package": "mesh-served"},
        {"id": "web", "type": "user", "name": "web", "uid": 450, "home": "/srv/web", "shell": "/usr/sbin/nologin", "system": true},
        {"id": "state", "type": "directory", "path": "/srv/web", "mode": "0750", "owner": "web"},
        {"id": "site", "type": "file", "path": "/srv/web/site.json", "content": "{\"a\":1}", "owner": "web:web"},
        {"id": "unit", "type": "file", "path": "/etc/systemd/system/own.service", "content": UNIT},
        {"id": "seed", "type": "action", "command": ["touch", "/srv/web/seeded"], "verify": ["test", "-e", "/srv/web/seeded"]},
        {"id": "own", "type": "service", "unit": "own", "state": "running", "boot": "enabled", "restart-on": ["site", "unit"], "settle": "0s"},
        {"id": "theirs", "type": "service", "unit": "mesh-served", "state": "running", "boot": "enabled", "settle": "0s"},
        {"id": "loop", "type": "process", "name": "loop", "user": "web", "env": {"WORD": "a \"b\" $c `d` \\e"},
         "command": ["/bin/sh", "-c", "printf '%s' \"$WORD\" > /srv/web/word; exec sleep infinity"], "restart-on": ["site"], "settle": "0s"},
        {"id": "films", "type": "access", "path": "/media/films"},
        {"id": "keys", "type": "file", "into": "/etc/theirs.json", "format": "json", "content": "{\"ours\":{\"a\":1}}"},
        {"id": "app", "type": "archive", "path": "/opt/app", "bytes": data_encoding::BASE64.encode(&archive),
         "sha256": digest.trim_start_matches("sha256:")},
        {"id": "port", "type": "opening", "port": 8080},
        {"id": "inner", "type": "network", "name": "inner"},
        {"id": "box", "type": "container", "name": "box", "image": IMAGE, "network": "host", "args": ["sleep", "infinity"],
         "volumes": ["/srv/web:/data"], "restart-on": ["keys"], "stop": "1s", "settle": "0s"},
        {"id": "once", "type": "container", "name": "once", "image": IMAGE, "network": "host", "run-once": true,
         "volumes": ["/srv/web:/data"], "args": ["sh", "-c", "echo ran >>/data/once"]},
        {"id": "nightly", "type": "container", "name": "nightly", "image": IMAGE, "network": "host",
         "schedule": "0 3 * * *", "args": ["true"]},
    ])
}

fn words(text: &str, word: &str) -> Vec<String> {
    text.split(' ').map(|id| format!("{id} {word}")).collect()
}

const IDS: &str =
    "plain served web state site unit seed own theirs loop films keys app port inner box once nightly";

#[test]
fn a_sample_is_made_then_there_is_nothing_to_do_then_hands_are_corrected_then_it_goes() {
    let machine = Machine::boot();
    containers::lay(&machine);
    machine.shell("mkdir /media/films; mesh-host key make");
    machine.write("/etc/theirs.json", r#"{"theirs": true}"#);
    let plan = machine.plan(&sample());
    assert_eq!(plan.code, 2, "{}{}", plan.out, plan.err);
    let first = machine.apply(&sample());
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    let mut made = first.words();
    // What settles is told when it has settled.
    let settled: Vec<_> = made.split_off(made.len() - 3);
    let mut expected = words(
        "plain served web state site unit seed theirs films keys app port inner once nightly",
        "created",
    );
    expected[7] = "theirs unchanged".to_owned();
    expected[8] = "films unchanged".to_owned();
    expected[9] = "keys updated".to_owned();
    assert_eq!(made, expected, "{}", first.out);
    assert_eq!(settled, ["own updated", "loop created", "box created"]);
    assert_eq!(machine.shell("cat /srv/web/word"), "a \"b\" $c `d` \\e");
    assert_eq!(machine.shell("id web").trim(), "uid=450(web) gid=450(web) groups=450(web)");
    assert_eq!(machine.shell("stat -c '%U:%G %a' /srv/web /srv/web/site.json"), "web:web 750\nweb:web 644\n");
    assert_eq!(machine.property("mesh-loop.service", "User"), "web");
    let keys: Value = serde_json::from_str(&machine.read("/etc/theirs.json")).unwrap();
    assert_eq!(keys, json!({"theirs": true, "ours": {"a": 1}}));
    assert_eq!(machine.shell("/bin/sh -c 'cat /opt/app/bin/tool /srv/web/once'"), "tool\nran\n");
    assert!(machine.shell("nft list table inet mesh_host").contains("8080"));
    assert!(machine.shell("podman network ls --format '{{.Name}}'").lines().any(|name| name == "inner"));

    let (second, started) = machine.apply_and_count();
    assert_eq!(second.words(), words(IDS, "unchanged"), "{}", second.out);
    // Podman is two managers: one of containers, and one of networks. What it starts itself is its own.
    let of_podman = ["bridge", "conmon", "firewall", "portmap", "tuning"];
    let mut started: Vec<_> =
        started.into_iter().filter(|name| !of_podman.contains(&name.as_str())).collect();
    started.sort();
    let expected = ["dpkg-query", "nft", "podman", "podman", "systemctl", "test"];
    assert_eq!(started, expected, "one process for each manager");

    // Hands: a file edited, units stopped, a container removed, and one key, one entry, and the firewall's table besides.
    machine.write("/srv/web/site.json", "by hand");
    machine.shell("systemctl disable --now mesh-served && systemctl stop mesh-loop");
    machine.shell(
        "systemctl stop mesh-container-box; podman rm --force --time 1 box; nft delete table inet mesh_host",
    );
    machine.shell("echo other >/opt/app/bin/tool; podman network rm inner");
    machine.write("/etc/theirs.json", r#"{"theirs": false, "ours": {"a": 2}}"#);
    let pid = machine.property("own.service", "MainPID");
    let third = machine.apply(&sample());
    let mut moved: Vec<_> = third.words().into_iter().filter(|line| !line.ends_with("unchanged")).collect();
    moved.sort();
    let expected = [
        "app corrected",
        "box corrected",
        "inner corrected",
        "keys corrected",
        "loop corrected",
        "own updated",
        "port corrected",
        "site corrected",
        "theirs corrected",
    ];
    assert_eq!(moved, expected, "{}{}", third.out, third.err);
    let drift = "site content theirs state loop state box gone inner gone port gone app content keys content";
    for pair in drift.split(' ').collect::<Vec<_>>().chunks(2) {
        assert_eq!(third.said(pair[0], "cause"), pair[1], "{}: {}", pair[0], third.out);
    }
    assert_eq!(third.said("own", "detail"), "restarted for site");
    assert_ne!(machine.property("own.service", "MainPID"), pid);
    assert_eq!(machine.property("mesh-served.service", "ActiveState"), "active");
    assert_eq!(machine.shell("podman container inspect --format '{{.State.Status}}' box"), "running\n");
    assert_eq!(machine.apply(&sample()).words(), words(IDS, "unchanged"));

    // Nothing declares it any more: what was made is gone, what it keeps is left and said.
    let gone = machine.apply(&json!([{"id": "plain", "type": "package", "package": "mesh-plain"}]));
    assert_eq!(gone.code, 0, "{}{}", gone.out, gone.err);
    let expected = [
        "nightly removed",
        "once forgotten",
        "box removed",
        "inner removed",
        "port removed",
        "app removed",
        "keys removed",
        "films forgotten",
        "loop removed",
        "theirs removed",
        "own removed",
        "seed forgotten",
        "unit removed",
        "site removed",
        "state kept",
        "web forgotten",
        "served forgotten",
        "plain unchanged",
    ];
    assert_eq!(gone.words(), expected);
    assert_eq!(
        machine.shell("systemctl show --value -p LoadState mesh-loop own"),
        "not-found\n\nnot-found\n"
    );
    assert_eq!(machine.shell("ls /srv/web"), "once\nseeded\nword\n");
    assert!(gone.said("state", "detail").contains('3'), "{}", gone.out);
    assert_eq!(machine.property("mesh-served.service", "ActiveState"), "inactive");
    let keys: Value = serde_json::from_str(&machine.read("/etc/theirs.json")).unwrap();
    assert_eq!(keys["theirs"], false, "{keys}");
    assert!(!machine.path("/opt/app").exists());
    assert_eq!(machine.shell("podman ps --all --quiet"), "");
}

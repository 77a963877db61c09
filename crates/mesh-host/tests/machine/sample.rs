//! One declaration with every kind that needs no container runtime and no firewall.

use crate::machine::Machine;
use serde_json::{Value, json};

const UNIT: &str = "[Unit]\nDescription=Own\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

fn sample() -> Value {
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
    ])
}

fn words(text: &str, word: &str) -> Vec<String> {
    text.split(' ').map(|id| format!("{id} {word}")).collect()
}

const IDS: &str = "plain served web state site unit seed own theirs loop";

#[test]
fn a_sample_is_made_then_there_is_nothing_to_do_then_hands_are_corrected_then_it_goes() {
    let machine = Machine::boot();
    let plan = machine.plan(&sample());
    assert_eq!(plan.code, 2, "{}{}", plan.out, plan.err);
    let first = machine.apply(&sample());
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    assert_eq!(
        first.words(),
        [
            words("plain served web state site unit seed", "created"),
            // What settles is told when it has settled.
            vec!["theirs unchanged".into(), "own updated".into(), "loop created".into()]
        ]
        .concat()
    );
    assert_eq!(machine.shell("cat /srv/web/word"), "a \"b\" $c `d` \\e");
    assert_eq!(machine.shell("id web").trim(), "uid=450(web) gid=450(web) groups=450(web)");
    assert_eq!(machine.shell("stat -c '%U:%G %a' /srv/web /srv/web/site.json"), "web:web 750\nweb:web 644\n");
    assert_eq!(machine.property("mesh-loop.service", "User"), "web");

    let (second, started) = machine.apply_and_count();
    assert_eq!(second.words(), words(IDS, "unchanged"), "{}", second.out);
    assert_eq!(started, ["systemctl", "dpkg-query", "test"], "one process for each manager");

    // Hands.
    machine.write("/srv/web/site.json", "by hand");
    machine.shell("systemctl disable --now mesh-served && systemctl stop mesh-loop");
    let pid = machine.property("own.service", "MainPID");
    let third = machine.apply(&sample());
    let expected = ["site corrected", "own updated", "theirs corrected", "loop corrected"];
    let moved: Vec<_> = third.words().into_iter().filter(|line| !line.ends_with("unchanged")).collect();
    assert_eq!(moved, expected, "{}{}", third.out, third.err);
    assert_eq!(
        (third.said("site", "cause"), third.said("theirs", "cause")),
        ("content".into(), "state".into())
    );
    assert_eq!(third.said("loop", "cause"), "state");
    assert_eq!(third.said("own", "detail"), "restarted for site");
    assert_ne!(machine.property("own.service", "MainPID"), pid);
    assert_eq!(machine.property("mesh-served.service", "ActiveState"), "active");

    // Nothing declares it any more: what was made is gone, what it keeps is left and said.
    let gone = machine.apply(&json!([{"id": "plain", "type": "package", "package": "mesh-plain"}]));
    assert_eq!(gone.code, 0, "{}{}", gone.out, gone.err);
    let expected = [
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
    assert_eq!(machine.shell("ls /srv/web"), "seeded\nword\n");
    assert_eq!(machine.property("mesh-served.service", "ActiveState"), "inactive");
}

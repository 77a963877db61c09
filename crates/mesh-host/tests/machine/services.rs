//! Units that fail, restart late, are masked, static or changed: what is said, what is done, and what is still owed.

use crate::machine::Machine;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn unit(id: &str, name: &str, service: &str) -> Value {
    let text =
        format!("[Unit]\nDescription={name}\n[Service]\n{service}\n[Install]\nWantedBy=multi-user.target\n");
    json!({"id": id, "type": "file", "path": format!("/etc/systemd/system/{name}.service"), "content": text})
}

fn running(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "service", "unit": name, "state": "running", "settle": "500ms"})
}

const SLEEP: &str = "ExecStart=/bin/sleep infinity";

fn pid(machine: &Machine, unit: &str) -> String {
    machine.property(unit, "MainPID")
}

#[test]
fn h01_h02_h05_h13_a_restart_that_failed_or_was_cut_off_is_still_owed() {
    let machine = Machine::boot();
    let with = |content: &str, service: &str| {
        json!([
            {"id": "conf", "type": "file", "path": "/etc/web.conf", "content": content},
            unit("unit", "web", service),
            {"id": "web", "type": "service", "unit": "web", "state": "running", "boot": "enabled",
             "restart-on": ["conf"], "settle": "0s"},
        ])
    };
    let service = "ExecStartPre=/bin/sh -c '! test -e /run/broken'\nExecStart=/bin/sleep infinity";
    assert_eq!(machine.apply(&with("a", service)).code, 0);
    machine.shell("touch /run/broken");
    let failed = machine.apply(&with("b", service));
    assert_eq!(failed.words(), ["conf updated", "unit unchanged", "web failed"], "{}", failed.out);
    assert_eq!(failed.code, 3, "{}", failed.out);
    assert!(failed.said("web", "cause").contains("result exit-code"), "{}", failed.said("web", "cause"));
    machine.shell("rm /run/broken");
    // Nothing moved in this apply, and it is owed all the same.
    let again = machine.apply(&with("b", service));
    assert_eq!(again.words(), ["conf unchanged", "unit unchanged", "web corrected"], "{}", again.out);
    assert_eq!(machine.property("web", "ActiveState"), "active");

    // Killed between the write and the restart: the file is written, and the service runs with the former one.
    let before = pid(&machine, "web");
    machine
        .write("/root/bundle.json", &json!({"bundle": "test", "resources": with("c", service)}).to_string());
    let killed = machine.run(&[
        "strace",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=clone,clone3,vfork",
        "-e",
        "inject=clone,clone3,vfork:signal=SIGKILL:when=2",
        "mesh-host",
        "apply",
        "--json",
        "/root/bundle.json",
    ]);
    assert_ne!(killed.code, 0, "{}", killed.out);
    assert_eq!((machine.read("/etc/web.conf"), pid(&machine, "web")), ("c".into(), before.clone()));
    let again = machine.apply(&with("c", service));
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    assert_eq!(again.said("web", "detail"), "restarted for conf", "{}", again.out);
    assert_ne!(pid(&machine, "web"), before);
    let still = machine.apply(&with("c", service));
    assert_eq!(still.words(), ["conf unchanged", "unit unchanged", "web unchanged"]);

    // H05: changed, and dead besides.
    machine.shell("systemctl stop web");
    let both = machine.apply(&with("d", service));
    assert_eq!(both.words(), ["conf updated", "unit unchanged", "web corrected"], "{}", both.out);
    assert_eq!(machine.property("web", "ActiveState"), "active");

    // H13: another unit file, and nothing that restarts for it: what is loaded is what lies there.
    let other = format!("{service}\nEnvironment=A=1");
    let before = pid(&machine, "web");
    let changed = machine.apply(&with("d", &other));
    assert_eq!(changed.words(), ["conf unchanged", "unit updated", "web updated"], "{}", changed.out);
    assert_eq!(machine.property("web", "NeedDaemonReload"), "no");
    assert_eq!((machine.property("web", "Environment"), pid(&machine, "web")), ("A=1".into(), before));
}

#[test]
fn h14_while_unit_files_are_read_again_no_start_is_lost() {
    let machine = Machine::boot();
    machine.write("/etc/systemd/system/other@.service", &format!("[Service]\n{SLEEP}\n"));
    machine.shell("systemctl daemon-reload");
    // Somebody else starts 200 units, and has unit files read again, for as long as this host does both.
    let mut other = machine
        .command(&["sh", "-c", "for n in $(seq 200); do systemctl start other@$n || echo lost $n; test $((n % 10)) != 0 || systemctl daemon-reload; done"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut applies, mut ended) = (0, false);
    while !ended {
        ended = other.try_wait().unwrap().is_some();
        applies += 1;
        let ours = format!("ours-{applies}");
        let ran = machine.apply(&json!([
            unit("unit", &ours, &format!("Environment=ROUND={applies}\n{SLEEP}")),
            {"id": "run", "type": "service", "unit": &ours, "state": "running", "settle": "0s"},
        ]));
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(machine.property(&ours, "ActiveState"), "active");
    }
    assert!(applies > 3, "nothing was done beside it");
    let lost = other.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&lost.stdout), "");
    let active = machine.shell("systemctl list-units --no-legend --state=active 'other@*.service' | wc -l");
    assert_eq!(active.trim(), "200");
}

#[test]
fn h08_h09_h17_what_dies_after_its_start_is_not_taken_for_running() {
    let machine = Machine::boot();
    machine.shell("printf '[Service]\\nExecStart=/bin/false\\n' >/etc/systemd/system/foreign.service; systemctl daemon-reload; systemctl start foreign || :; sleep 0.3; systemctl start foreign || :");
    let resources = json!([
        unit("u1", "dies", "ExecStart=/bin/sh -c 'echo last words; exit 7'"),
        unit("u2", "dies-later", "ExecStart=/bin/sh -c 'sleep 0.3; echo later words; exit 3'"),
        unit("u3", "crashes", "ExecStart=/bin/sh -c 'exit 5'\nRestart=always\nRestartSec=5"),
        unit("u4", "slow", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 2"),
        unit("u5", "ends", "Type=oneshot\nExecStart=/bin/true"),
        unit("u6", "stays", SLEEP),
        running("dies", "dies"),
        running("later", "dies-later"),
        running("crashes", "crashes"),
        running("slow", "slow"),
        running("ends", "ends"),
        running("stays", "stays"),
    ]);
    let ran = machine.apply(&resources);
    let said = |id: &str| format!("{} {}", ran.said(id, "word"), ran.said(id, "cause"));
    for (id, code, words) in [("dies", "exit code 7", "last words"), ("later", "exit code 3", "later words")]
    {
        assert!(
            said(id).starts_with("failed") && said(id).contains(code) && said(id).contains(words),
            "{}",
            said(id)
        );
    }
    assert!(
        said("crashes").starts_with("failed") && said("crashes").contains("exit code 5"),
        "{}",
        said("crashes")
    );
    assert!(said("ends").contains("it ran to its end"), "{}", said("ends"));
    assert_eq!([said("slow"), said("stays")], ["updated ", "updated "]);
    assert_eq!(ran.code, 3);
    // A unit of somebody else that failed is not a failure of ours.
    assert_eq!(machine.property("foreign", "ActiveState"), "failed");
    let well = machine.apply(&json!([unit("u6", "stays", SLEEP), running("stays", "stays")]));
    assert_eq!(well.code, 0, "{}", well.out);
}

#[test]
fn h11_h12_boot_is_set_as_the_file_says_or_refused_in_words() {
    let machine = Machine::boot();
    let boot = |id: &str, name: &str| json!({"id": id, "type": "service", "unit": name, "boot": "enabled"});
    let own = |target: &str| {
        let text = format!("[Service]\n{SLEEP}\n[Install]\nWantedBy={target}\n");
        json!({"id": "unit", "type": "file", "path": "/etc/systemd/system/own.service", "content": text})
    };
    assert_eq!(machine.apply(&json!([own("multi-user.target"), boot("own", "own")])).code, 0);
    let renewed = machine.apply(&json!([own("graphical.target"), boot("own", "own")]));
    assert_eq!(renewed.words(), ["unit updated", "own updated"], "{}", renewed.out);
    let links = machine.shell("cd /etc/systemd/system; ls -d */own.service");
    assert_eq!(links, "graphical.target.wants/own.service\n");

    machine.shell(
        "cd /etc/systemd/system; printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >fixed.service; ln -s /dev/null hidden.service; \
         printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nAlias=other.service\\n' >named.service; \
         printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nAlso=named.service\\n' >indirect.service; \
         printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' >many@.service; systemctl daemon-reload",
    );
    let resources = json!([
        boot("fixed", "fixed"),
        boot("hidden", "hidden"),
        boot("named", "named"),
        boot("many", "many@"),
        boot("one", "many@one"),
        boot("indirect", "indirect"),
        boot("absent", "no-such"),
    ]);
    for (time, moved) in [(1, "updated "), (2, "unchanged ")] {
        let ran = machine.apply(&resources);
        let said = |id: &str| format!("{} {}", ran.said(id, "word"), ran.said(id, "cause"));
        assert!(said("fixed").contains("failed fixed.service is static"), "{time}: {}", said("fixed"));
        assert!(said("hidden").contains("failed hidden.service is masked"), "{time}: {}", said("hidden"));
        assert!(said("many").contains("failed many@.service is a template"), "{time}: {}", said("many"));
        assert!(
            said("absent").contains("failed no-such.service is not on this machine"),
            "{time}: {}",
            said("absent")
        );
        assert!(
            said("indirect").starts_with("failed") && said("indirect").contains("indirect"),
            "{}",
            said("indirect")
        );
        assert_eq!([said("named"), said("one")], [moved, moved], "{time}: {}", ran.out);
    }
}

#[test]
fn h19_a_unit_that_does_not_stop_holds_nothing_else_back() {
    let machine = Machine::boot();
    let resources = json!([
        {"id": "file", "type": "file", "path": "/srv/file", "content": "x"},
        {"id": "stubborn", "type": "process", "name": "stubborn", "command": ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"], "settle": "0s"},
    ]);
    assert_eq!(machine.apply(&resources).code, 0);
    machine.shell("mkdir -p /run/systemd/system/mesh-stubborn.service.d; printf '[Service]\\nTimeoutStopSec=4\\n' >/run/systemd/system/mesh-stubborn.service.d/t.conf; systemctl daemon-reload");
    let since = Instant::now();
    let gone = machine.apply(&json!([]));
    assert_eq!(gone.words(), ["stubborn removed", "file removed"], "{}", gone.out);
    assert!(since.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_was_found_running_is_left_and_what_was_started_gets_its_boot_state_back() {
    let machine = Machine::boot();
    machine.shell(
        "cd /etc/systemd/system; for n in found off; do printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' >$n.service; done; \
         systemctl daemon-reload; systemctl enable --now found; systemctl enable off",
    );
    let service = |id: &str, boot: &str| json!({"id": id, "type": "service", "unit": id, "state": "running", "boot": boot, "settle": "0s"});
    let ran = machine.apply(&json!([service("found", "enabled"), service("off", "disabled")]));
    assert_eq!(ran.words(), ["found unchanged", "off updated"], "{}", ran.out);
    assert_eq!(machine.property("off", "UnitFileState"), "disabled");
    let gone = machine.apply(&json!([]));
    assert_eq!(gone.words(), ["off removed", "found forgotten"]);
    let state = |unit: &str| {
        format!("{} {}", machine.property(unit, "ActiveState"), machine.property(unit, "UnitFileState"))
    };
    assert_eq!([state("found"), state("off")], ["active enabled", "inactive enabled"]);
}

//! Packages, users and actions.

use crate::machine::Machine;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn package(name: &str) -> Value {
    json!({"id": name, "type": "package", "package": name})
}

#[test]
fn h81_h82_h84_packages_are_installed_without_a_question_and_after_an_interruption() {
    let machine = Machine::boot();
    // A configuration file that is there already, with other content: nobody is asked, and it stays.
    machine.write("/etc/mesh-asks.conf", "ours\n");
    let since = Instant::now();
    let ran = machine.apply(&json!([package("mesh-asks"), package("no-such-package")]));
    assert!(since.elapsed() < Duration::from_secs(60), "a child of the package holds the pipe");
    assert_eq!(ran.words(), ["mesh-asks created", "no-such-package failed"], "{}{}", ran.out, ran.err);
    let cause = ran.said("no-such-package", "cause");
    assert!(cause.contains("Unable to locate package no-such-package"), "{cause}");
    assert_eq!(machine.read("/etc/mesh-asks.conf"), "ours\n");
    // dpkg was killed in the middle of a transaction.
    machine.shell("dpkg --unpack /srv/source/mesh-plain_1.0_all.deb; mkdir -p /var/lib/dpkg/updates; printf 'Package: mesh-plain\\nStatus: install ok unpacked\\nArchitecture: all\\nVersion: 1.0\\nMaintainer: x\\nDescription: x\\n' >/var/lib/dpkg/updates/0001");
    let ran = machine.apply(&json!([package("mesh-asks"), package("mesh-plain"), package("mesh-served")]));
    assert_eq!(
        ran.words(),
        ["no-such-package forgotten", "mesh-asks unchanged", "mesh-plain created", "mesh-served created"],
        "{}{}",
        ran.out,
        ran.err
    );
    // Removed by hand: installed again. Undeclared: left.
    machine.shell("dpkg --purge mesh-plain");
    let ran = machine.apply(&json!([package("mesh-plain")]));
    assert_eq!(
        ran.words(),
        ["mesh-served forgotten", "mesh-asks forgotten", "mesh-plain corrected"],
        "{}",
        ran.out
    );
    assert_eq!(ran.said("mesh-plain", "cause"), "gone");
    assert_eq!(machine.apply(&json!([])).words(), ["mesh-plain forgotten"]);
    machine.shell("dpkg-query -W mesh-plain mesh-served mesh-asks");
}

#[test]
fn h80_a_lock_that_somebody_holds_is_waited_for() {
    let machine = Machine::boot();
    let mut holder = machine
        .command(&["sh", "-c", "exec 9>/var/lib/dpkg/lock-frontend; python3 -c 0 2>/dev/null; exec perl -e 'use Fcntl; open(F,\">/var/lib/dpkg/lock-frontend\"); my $l=pack(\"s!s!l!l!i\",F_WRLCK,0,0,0,0); fcntl(F,F_SETLK,$l) or die; sleep 5'"])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let since = Instant::now();
    let ran = machine.apply(&json!([package("mesh-plain")]));
    assert_eq!(ran.words(), ["mesh-plain created"], "{}{}", ran.out, ran.err);
    assert!(since.elapsed() > Duration::from_secs(3), "the lock was not held");
    holder.wait().unwrap();
}

#[test]
fn h86_of_a_user_in_use_what_can_be_changed_is_and_the_rest_is_named() {
    let machine = Machine::boot();
    let user = |more: Value| {
        let mut user = json!({"id": "u", "type": "user", "name": "worker", "uid": 1500, "shell": "/bin/sh", "home": "/srv/worker"});
        for (name, value) in more.as_object().unwrap() {
            user[name] = value.clone();
        }
        json!([user])
    };
    assert_eq!(machine.apply(&user(json!({}))).words(), ["u created"]);
    machine.shell("mkdir -p /srv/worker; systemd-run --quiet --uid=worker --unit=busy sleep infinity");
    assert_eq!(machine.apply(&user(json!({}))).words(), ["u unchanged"]);
    let shell = machine.apply(&user(json!({"shell": "/bin/bash", "groups": ["audio"]})));
    assert_eq!(shell.code, 0, "{}", shell.out);
    assert_eq!(
        machine.shell("id -Gn worker; getent passwd worker"),
        "worker audio\nworker:x:1500:1500::/srv/worker:/bin/bash\n"
    );
    let home = machine.apply(&user(json!({"shell": "/bin/bash", "home": "/srv/other"})));
    assert!(home.said("u", "cause").contains("home of worker cannot be changed"), "{}", home.out);
    let uid = machine.apply(&user(json!({"shell": "/bin/bash", "uid": 1501})));
    assert!(uid.said("u", "cause").contains("the uid of worker is 1500 and 1501 is declared"), "{}", uid.out);
    let group = machine.apply(&user(json!({"shell": "/bin/bash", "group": "audio"})));
    assert!(group.said("u", "cause").contains("the primary group of worker is worker"), "{}", group.out);
    assert_eq!(machine.apply(&json!([])).words(), ["u forgotten"]);
    machine.shell("id worker");
}

#[test]
fn h03_an_action_is_tried_again_until_its_verify_is_true_and_gates_only_its_own_module() {
    let machine = Machine::boot();
    let action = |id: &str, command: &str, verify: &str| {
        json!({"id": id, "type": "action", "command": ["sh", "-c", command], "verify": ["sh", "-c", verify],
               "env": {"WORD": "a word"}})
    };
    let file = |id: &str| json!({"id": id, "type": "file", "path": format!("/srv/{id}"), "content": "x"});
    let resources = json!([
        file("before"),
        action("migrate", "test -e /srv/ready && printf '%s' \"$WORD\" >/srv/done", "test -e /srv/done"),
        file("after"),
    ]);
    let failed = machine.apply(&resources);
    assert_eq!(failed.words(), ["before created", "migrate failed", "after not-attempted"]);
    assert_eq!(failed.code, 4, "{}", failed.err);
    assert!(!machine.path("/srv/after").exists());
    machine.write("/srv/ready", "");
    let done = machine.apply(&resources);
    assert_eq!(done.words(), ["before unchanged", "migrate created", "after created"]);
    assert_eq!(machine.read("/srv/done"), "a word");
    let said = machine.apply(&json!([action("lies", "true", "echo still not; false")]));
    assert_eq!(said.code, 4, "a gate that closes has closed, even where nothing is behind it");
    let cause = said.said("lies", "cause");
    assert!(
        cause.contains("reported success and nothing happened") && cause.contains("still not"),
        "{cause}"
    );
    let slow = json!([{"id": "slow", "type": "action", "command": ["sleep", "60"], "verify": ["false"], "limit": "300ms"}]);
    let since = Instant::now();
    assert_eq!(machine.apply(&slow).words(), ["lies forgotten", "slow not-answered"]);
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn check_names_the_managers_of_the_machine() {
    let machine = Machine::boot();
    let checked = machine.run(&["mesh-host", "check"]);
    for line in ["ok   services  systemd 2", "ok   packages  apt", "ok   clock     set", "bad  settings"] {
        assert!(checked.out.contains(line), "{line}: {}{}", checked.out, checked.err);
    }
}

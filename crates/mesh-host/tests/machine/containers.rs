//! Containers of a machine that has podman and no docker: units of theirs start them again, after a boot too.

use crate::machine::Machine;
use serde_json::{Value, json};
use std::fs;

/// What `lay` makes of busybox.
pub(crate) const IMAGE: &str = "localhost/lab:1";

/// The machine has no writable control groups and no keyrings, and an overlay cannot lie on an overlay.
const ENGINE: &str = "[engine]\nruntime = \"crun\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
    [containers]\ncgroups = \"disabled\"\nkeyring = false\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";
const STORAGE: &str = "[storage]\ndriver = \"vfs\"\ngraphroot = \"/var/lib/containers/storage\"\nrunroot = \"/run/containers/storage\"\n";

/// Sets podman up, with an image in its store.
pub(crate) fn lay(machine: &Machine) {
    machine.write("/etc/containers/containers.conf", ENGINE);
    machine.write("/etc/containers/storage.conf", STORAGE);
    machine.shell(
        "mkdir -p /srv/image/bin && cp /bin/busybox /srv/image/bin/ && cd /srv/image/bin && \
         for name in cat false sh sleep test true; do ln -s busybox $name; done; \
         tar -C /srv/image -c . | podman import --quiet - localhost/lab:1",
    );
}

fn container(id: &str, more: &Value) -> Value {
    let mut container = json!({"id": id, "type": "container", "name": id, "image": IMAGE, "network": "host",
        "args": ["sleep", "infinity"], "stop": "1s", "settle": "0s"});
    for (name, value) in more.as_object().unwrap() {
        container[name] = value.clone();
    }
    container
}

fn state(machine: &Machine, name: &str) -> String {
    let ran = machine.run(&["podman", "container", "inspect", "--format", "{{.State.Status}}", name]);
    if ran.code == 0 { ran.out.trim().to_owned() } else { "absent".to_owned() }
}

#[test]
fn h55_h57_with_podman_alone_containers_run_again_after_a_boot() {
    let mut machine = Machine::boot();
    assert_ne!(machine.run(&["sh", "-c", "command -v docker"]).code, 0, "docker is there too");
    lay(&machine);
    let seen = json!({"args": ["sh", "-c", "test -e /out/file && cat /out/file; sleep infinity"], "volumes": ["/srv/out:/out"]});
    let resources = json!([
        {"id": "out", "type": "directory", "path": "/srv/out"},
        container("one", &json!({})),
        container("two", &seen),
    ]);
    assert_eq!(machine.apply(&resources).words(), ["out created", "one created", "two created"]);
    assert_eq!(machine.apply(&resources).words(), ["out unchanged", "one unchanged", "two unchanged"]);
    // One ends by itself, and is started again.
    machine.shell("kill $(podman container inspect --format '{{.State.Pid}}' one)");
    machine.until("one runs again", |machine| state(machine, "one") == "running");

    machine.stop();
    machine.start();
    for name in ["one", "two"] {
        machine.until(name, |machine| state(machine, name) == "running");
    }
    assert_eq!(machine.apply(&resources).words(), ["out unchanged", "one unchanged", "two unchanged"]);

    // What is exchanged comes up after a boot in its new form, and what is gone does not come up.
    let resources = json!([container("one", &json!({"args": ["sleep", "90000"]}))]);
    assert_eq!(machine.apply(&resources).words(), ["two removed", "out removed", "one updated"]);
    machine.stop();
    machine.start();
    machine.until("one", |machine| state(machine, "one") == "running");
    assert_eq!(state(&machine, "two"), "absent");
    assert_eq!(machine.apply(&resources).words(), ["one unchanged"]);
    assert_eq!(machine.apply(&json!([])).words(), ["one removed"]);
    let left = fs::read_dir(machine.path("/etc/systemd/system")).unwrap();
    let left: Vec<_> = left.filter_map(|entry| entry.unwrap().file_name().into_string().ok()).collect();
    assert!(left.iter().all(|name| !name.starts_with("mesh-container-")), "{left:?}");
}

#[test]
fn h16_what_was_stopped_for_an_exchange_that_fails_is_started_again() {
    let machine = Machine::boot();
    lay(&machine);
    assert_eq!(machine.apply(&json!([container("web", &json!({}))])).words(), ["web created"]);
    let number = || machine.shell("podman container inspect --format '{{.Id}}' web");
    let old = number();
    let failed = machine.apply(&json!([container("web", &json!({"args": ["/no/such/program"]}))]));
    assert_eq!(failed.words(), ["web failed"], "{}", failed.out);
    assert!(failed.said("web", "cause").contains("/no/such/program"), "{}", failed.out);
    assert_eq!((number(), state(&machine, "web")), (old, "running".to_owned()));
    assert_eq!(machine.property("mesh-container-web", "ActiveState"), "active");
}

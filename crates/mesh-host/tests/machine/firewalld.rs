//! Openings of a machine that has firewalld: with its own tool, and without a reload.

use crate::containers;
use crate::machine::Machine;
use serde_json::{Value, json};

const DB: [&str; 2] = ["10.0.0.0/8", "fd00::/8"];

/// A machine in which firewalld runs.
fn boot() -> Machine {
    let machine = Machine::boot();
    machine.shell("systemctl start firewalld && firewall-cmd --state");
    machine
}

fn opening(id: &str, port: u16, from: &[&str]) -> Value {
    json!({"id": id, "type": "opening", "port": port, "from": from})
}

/// What firewalld lets in now, and what it lets in after a boot.
fn rules(machine: &Machine) -> [String; 2] {
    ["firewall-cmd", "firewall-cmd --permanent"].map(|tool| {
        let all = machine.shell(&format!("{tool} --list-ports; {tool} --list-rich-rules"));
        let mut lines: Vec<&str> = all.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        lines.join("\n")
    })
}

fn rule(from: &str) -> String {
    let family = if from.contains(':') { "ipv6" } else { "ipv4" };
    format!("rule family=\"{family}\" source address=\"{from}\" port port=\"5432\" protocol=\"tcp\" accept")
}

#[test]
fn a_port_is_opened_left_alone_put_back_and_closed_with_firewalld() {
    let machine = boot();
    // A person's rule, which stays as it is.
    machine.shell("firewall-cmd --add-port=2222/tcp && firewall-cmd --permanent --add-port=2222/tcp");
    let [web, db, less] =
        [opening("web", 8080, &[]), opening("db", 5432, &DB), opening("db", 5432, &DB[..1])];

    assert_eq!(machine.apply(&json!([web, db])).words(), ["web created", "db created"]);
    let both = ["2222/tcp 8080/tcp".to_owned(), rule(DB[0]), rule(DB[1])].join("\n");
    assert_eq!(rules(&machine), [both.clone(), both]);
    let (again, started) = machine.apply_and_count();
    assert_eq!(again.words(), ["web unchanged", "db unchanged"]);
    assert_eq!(started.iter().filter(|name| *name == "firewall-cmd").count(), 1, "{started:?}");

    assert_eq!(machine.apply(&json!([web, less])).words(), ["web unchanged", "db updated"]);
    let fewer = ["2222/tcp 8080/tcp".to_owned(), rule(DB[0])].join("\n");
    assert_eq!(rules(&machine), [fewer.clone(), fewer.clone()]);

    machine.shell(&format!(
        "firewall-cmd --remove-port=8080/tcp && firewall-cmd --remove-rich-rule='{}'",
        rule(DB[0])
    ));
    let ran = machine.apply(&json!([web, less]));
    assert_eq!(ran.words(), ["web corrected", "db corrected"]);
    assert_eq!([ran.said("web", "cause"), ran.said("db", "cause")], ["gone", "gone"]);
    assert_eq!(rules(&machine), [fewer.clone(), fewer]);

    assert_eq!(machine.apply(&json!([])).words(), ["db removed", "web removed"]);
    assert_eq!(rules(&machine), ["2222/tcp", "2222/tcp"]);
}

#[test]
fn what_was_closed_is_opened_again_by_a_timer_of_systemd() {
    let machine = boot();
    machine.apply(&json!([opening("web", 8080, &[])]));
    assert_eq!(machine.apply(&json!([])).words(), ["web removed"]);
    assert_eq!(rules(&machine), ["", ""]);
    let timer = machine.shell("systemctl list-units --plain --no-legend 'mesh-host-undo-*.timer'");
    let timer = timer.split_whitespace().next().expect("no timer is set").to_owned();
    assert!(machine.property(&timer, "TimersMonotonic").contains("OnActiveUSec=2min"));
    // The two minutes pass.
    machine.shell(&format!("systemctl start --wait {}", timer.replace(".timer", ".service")));
    assert_eq!(rules(&machine), ["8080/tcp", "8080/tcp"]);
}

#[test]
fn h93_a_published_port_is_reached_after_an_opening_with_firewalld() {
    let machine = boot();
    containers::lay(&machine);
    machine.shell(
        "podman run --detach --name web --publish 8081:80 localhost/lab:1 \
         sh -c 'busybox mkdir /www && echo reached >/www/index.html && exec busybox httpd -f -p 80 -h /www'",
    );
    let get = "exec 3<>/dev/tcp/127.0.0.1/8081; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -n 1 <&3";
    let is_reached = |machine: &Machine| machine.run(&["timeout", "3", "bash", "-c", get]).out == "reached\n";
    machine.until("the container listens", is_reached);
    let resources = json!([opening("db", 5432, &DB), opening("web", 8080, &[])]);
    assert_eq!(machine.apply(&resources).words(), ["db created", "web created"]);
    assert!(is_reached(&machine), "{}", machine.shell("nft list ruleset"));
    assert_eq!(machine.apply(&json!([])).words(), ["web removed", "db removed"]);
    assert!(is_reached(&machine), "{}", machine.shell("nft list ruleset"));
    // What the test looks at is what a reload takes away.
    machine.shell("firewall-cmd --reload");
    assert!(!is_reached(&machine));
}

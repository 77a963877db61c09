//! Figures of a mesh with 1 000 nodes and 20 000 assignments, for who runs it:
//! `cargo test -p mesh-controller --test scale -- --ignored --nocapture`.

#![allow(clippy::print_stdout, reason = "figures are for who runs it")]

mod support;

use mesh_controller::compose::compose;
use mesh_controller::plan::plan;
use mesh_controller::push::{Highest, Sending, intend};
use mesh_controller::store::{Store, acts, identity, inventory, lease, nodes, now, sent};
use mesh_controller::{identity as key, snapshot, standing};
use mesh_model::node_record::Recovery;
use mesh_model::report::{HeldPort, ModuleReport, ModuleState, Report};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Mesh, act};

const NODES: usize = 1000;
const MODULES: usize = 20;

fn manifest(number: usize) -> String {
    format!(
        r#"{{"module":"m{number:02}","version":"1","dirs":{{"state":{{"mode":"0750"}}}},"ports":{{"http":{{}}}},
        "secrets":{{"key":{{"make":{{"bytes":32,"as":"hex"}}}}}},"settings":{{"defaults":{{"pool":5,"log":"info"}}}},
        "resources":[{{"id":"site","type":"file","path":"${{dir:state}}/site","content":"${{port:http}} ${{config:pool}} ${{secret:key}}"}},
        {{"id":"other","type":"file","path":"${{dir:state}}/other","content":"{}"}}]}}"#,
        "text ".repeat(40)
    )
}

/// How long it took, said.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let from = Instant::now();
    let done = work();
    println!("{what}: {:.3} s", from.elapsed().as_secs_f64());
    done
}

fn fill(store: &mut Store) {
    let change = store.change_identity(&act("operator key set none")).unwrap();
    identity::set_recovery(&change, &Recovery::None).unwrap();
    change.commit().unwrap();
    let change = store.change_inventory(&act("assign")).unwrap();
    for number in 0..MODULES {
        inventory::put_module(&change, &format!("m{number:02}"), "1", manifest(number).as_bytes()).unwrap();
    }
    for node in 0..NODES {
        for module in 0..MODULES {
            let (node, module) = (format!("node-{node:04}"), format!("m{module:02}"));
            inventory::assign(&change, &node, &module).unwrap();
            inventory::keep_port(
                &change,
                &node,
                &module,
                "http",
                20_000 + module[1..].parse::<u16>().unwrap(),
                "tcp",
            )
            .unwrap();
        }
    }
    change.commit().unwrap();
}

/// Writes down everything as a push does, and what each machine reports.
fn push(store: &mut Store) {
    let signer = key::open(store).unwrap();
    let fence = lease::row(store.inventory()).unwrap().fence;
    let mesh = identity::expect_mesh(store.identity()).unwrap().id;
    let snapshot = timed("read", || snapshot::read(store.inventory(), store.identity()).unwrap());
    let composed = timed("compose", || compose(&snapshot));
    let sent = sent::all(store.inventory()).unwrap();
    let plan = timed("plan of everything", || plan(&composed, &sent, None));
    assert!(plan.differs() && !plan.is_hindered());
    let highest = Highest::default();
    let sending =
        Sending { mesh: &mesh, signer: &signer, fence, highest: &highest, at: "2026-12-01T00:00:00Z" };
    let wanted: acts::Act<'_> = act("push");
    let (change, identity) = store.change_inventory_beside(&wanted).unwrap();
    timed("written down", || assert_eq!(intend(&change, &plan, &sending).unwrap().len(), NODES));
    timed("kept for status", || standing::keep(&change, identity, &composed).unwrap());
    // Each machine applies it, and reports the ports that it holds for its modules.
    for (number, (node, of)) in (1..).zip(&composed.nodes) {
        let mut report = Report::new(1, 1);
        for (module, plan) in &of.modules {
            let assignment = mesh_model::digest::Digest::of(&plan.assignment);
            let state = ModuleState::Applied;
            let told = ModuleReport { state, why: String::new(), assignment, resources: 3, changed: 0 };
            report.modules.insert(module.clone(), told);
            let held = |(port, _): &(u16, String)| HeldPort { port: *port, id: format!("{module}.unit") };
            report.facts.ports_held.extend(plan.ports.values().map(held));
        }
        let heard = nodes::Heard { at: now(), revision: number, body: serde_json::to_vec(&report).unwrap() };
        nodes::note_report(&change, node, &heard).unwrap();
    }
    change.commit().unwrap();
}

fn status(mesh: &Mesh, what: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-controller"));
    command.args(["status", "--json"]);
    command
        .env("MESH_STORE_INVENTORY", &mesh.paths.inventory)
        .env("MESH_STORE_IDENTITY", &mesh.paths.identity);
    let output = timed(what, || command.output().unwrap());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["nodes"].as_array().unwrap().len(), NODES);
}

fn memory(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

#[test]
#[ignore = "takes a minute, and its figures are for who runs it"]
fn a_thousand_nodes_with_twenty_modules_each() {
    let mesh = Mesh::with(&support::nodes(NODES));
    let mut store = mesh.store();
    fill(&mut store);
    push(&mut store);
    status(&mesh, "status after a push");
    status(&mesh, "status, nothing changed");
    let change = store.change_inventory(&act("settings set")).unwrap();
    inventory::put_layer(&change, "m00", Some("node-0000"), br#"{"pool":6}"#).unwrap();
    change.commit().unwrap();
    status(&mesh, "status, composed again");
    let change = store.note_inventory().unwrap();
    let mut report = Report::new(1, 1);
    report.facts.ports_held = vec![HeldPort { port: 9, id: "x.y".into() }];
    let heard = nodes::Heard { at: now(), revision: 5000, body: serde_json::to_vec(&report).unwrap() };
    nodes::note_report(&change, "node-0001", &heard).unwrap();
    change.commit().unwrap();
    status(&mesh, "status, one machine with other ports");
    let size: u64 = ["", "-wal"]
        .iter()
        .filter_map(|end| std::fs::metadata(format!("{}{end}", mesh.paths.inventory.display())).ok())
        .map(|metadata| metadata.len())
        .sum();
    println!("store: {} MB", size / 1_000_000);

    let status_file = mesh.folder.path().join("status.json");
    let mut serve = Command::new(env!("CARGO_BIN_EXE_mesh-controller"));
    serve.args(["serve", "--server", &mesh.server.client_url()]);
    serve.arg("--nkey").arg(mesh.keys.join("controller.nk")).arg("--status-file").arg(&status_file);
    serve.arg("--users-file").arg(mesh.server.directory().join("users.conf"));
    serve.arg("--reload-pid").arg(mesh.server.directory().join("nats.pid"));
    serve.env("MESH_STORE_INVENTORY", &mesh.paths.inventory).env("MESH_STORE_IDENTITY", &mesh.paths.identity);
    let wait_ready = || {
        mesh_testing::wait::until("serve to be ready", Duration::from_secs(300), || {
            let text = std::fs::read_to_string(&status_file).unwrap_or_default();
            if text.contains(r#""ready":true"#) { Ok(()) } else { Err(text) }
        });
    };
    let mut process = serve.spawn().unwrap();
    timed("everything on the bus", wait_ready);
    println!("serve, which wrote it: {}", memory(process.id()));
    let stop = |process: &mut std::process::Child| {
        let pid = rustix::process::Pid::from_child(process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().unwrap();
        std::fs::remove_file(&status_file).ok();
    };
    stop(&mut process);
    let mut process = serve.spawn().unwrap();
    timed("ready again", wait_ready);
    std::thread::sleep(Duration::from_secs(6));
    println!("serve, started again: {}", memory(process.id()));
    stop(&mut process);
}

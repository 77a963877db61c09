//! An adopted node: its guard is first when it goes up and last when it comes down, and what would reach something that was
//! found is held.

use crate::node::Node;
use crate::scenario::{self, Round};
use crate::world::{Faults, Thing};
use mesh_host::container::HeldPort;
use mesh_host::desired::{Desired, Directory, Managed, Spec};
use mesh_host::engine::{Ended, Request};
use mesh_host::step::Ids;
use mesh_host::target::Origin;
use mesh_model::json::Read as _;
use mesh_model::resource::Resource;
use serde_json::json;

fn directory(id: &str, path: &str) -> Desired {
    let spec = Spec::Directory(Directory { path: path.to_owned(), mode: 0o755, owner: None });
    let module = id.split('.').next().unwrap().to_owned();
    Desired { id: id.to_owned(), origin: Origin::Mesh(module), spec }
}

fn apply(node: &mut Node, round: &Round, adopted: bool, desired: &[Desired]) -> Vec<String> {
    let request = Request { desired: desired.to_vec(), adopted, ..round.request() };
    let ended = node.request(request, round, None).expect("nothing kills it");
    ended.iter().map(|end: &Ended| format!("{} {}", end.id, end.verdict.outcome.word())).collect()
}

/// A round of which only its empty contents and faults are used.
fn round() -> Round {
    let mut round = scenario::rounds(1).remove(0);
    round.desired.clear();
    round.waiting.clear();
    round
}

#[test]
fn h98_when_the_guard_fails_nothing_else_is_attempted_and_nothing_is_removed() {
    let mut node = Node::new(1);
    node.world.faults = Faults::default();
    let round = round();
    let (guard, web, old) = (
        directory("adoption.guard-ssh", "/srv/guard"),
        directory("web.d", "/srv/web"),
        directory("old.d", "/srv/old"),
    );
    assert_eq!(apply(&mut node, &round, true, std::slice::from_ref(&old)), ["old.d created"]);
    node.world.faults.refused.insert("/srv/guard".to_owned());
    let words = apply(&mut node, &round, true, &[web.clone(), guard.clone()]);
    assert_eq!(words, ["adoption.guard-ssh failed", "old.d not-attempted", "web.d not-attempted"]);
    assert!(node.world.nodes.contains_key("/srv/old") && !node.world.nodes.contains_key("/srv/web"));
    // With only the guard declared it is not another.
    let words = apply(&mut node, &round, true, std::slice::from_ref(&guard));
    assert_eq!(words, ["adoption.guard-ssh failed", "old.d not-attempted"]);
    node.world.faults = Faults::default();
    let words = apply(&mut node, &round, true, &[web, guard]);
    assert_eq!(words, ["adoption.guard-ssh created", "old.d removed", "web.d created"]);
}

#[test]
fn on_a_converged_node_the_guard_comes_down_last_and_only_when_everything_stands() {
    let mut node = Node::new(1);
    node.world.faults = Faults::default();
    let round = round();
    let (guard, web) = (directory("adoption.guard-ssh", "/srv/guard"), directory("web.d", "/srv/web"));
    apply(&mut node, &round, true, &[guard]);
    node.world.faults.refused.insert("/srv/web".to_owned());
    assert_eq!(apply(&mut node, &round, false, std::slice::from_ref(&web)), ["web.d failed"]);
    assert!(node.world.nodes.contains_key("/srv/guard"));
    node.world.faults = Faults::default();
    assert_eq!(apply(&mut node, &round, false, &[web]), ["web.d created", "adoption.guard-ssh removed"]);
    assert!(!node.world.nodes.contains_key("/srv/guard"));
}

fn managed(id: &str, resource: &serde_json::Value) -> Desired {
    let what = Resource::from_json_bytes(resource.to_string().as_bytes()).unwrap().what;
    let origin = Origin::Mesh(id.split('.').next().unwrap().to_owned());
    let spec = Spec::Managed(Box::new(Managed { what, env: None, unit: None, private: false }));
    Desired { id: id.to_owned(), origin, spec }
}

#[test]
fn what_would_reach_something_that_was_found_is_held_until_its_module_is_taken() {
    let mut node = Node::new(1);
    node.world.faults = Faults::default();
    let round = round();
    apply(&mut node, &round, false, &[directory("web.d", "/srv/ours")]);
    node.world.put("/srv/found", Thing::Directory, 0o755, Ids { uid: 0, gid: 0 });
    node.world.managers.listening.insert(HeldPort { port: 8080, udp: false });
    node.world.managers.found.insert("theirs".to_owned());
    let container = |name: &str, more: serde_json::Value| {
        let mut resource = json!({"id": name, "type": "container", "name": name, "image": "lab:1"});
        resource.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        managed(&format!("web.{name}"), &resource)
    };
    let action = |name: &str, within: &str| {
        let resource = json!({"id": name, "type": "action", "command": ["make", name], "verify": ["is", name], "in": within});
        managed(&format!("web.{name}"), &resource)
    };
    let desired = [
        directory("web.d", "/srv/ours"),
        container("port", json!({"ports": ["8080:80"]})),
        container("other-port", json!({"ports": ["8080:80/udp", "8081:80", "80"]})),
        container("mount", json!({"volumes": ["/srv/found:/data"]})),
        container("own-mount", json!({"volumes": ["/srv/ours:/data", "named:/named"]})),
        action("there", "theirs"),
        action("here", "port"),
    ];
    let mut plan = |untaken: &[&str]| -> Vec<String> {
        let untaken = untaken.iter().map(|module| Origin::Mesh((*module).to_owned())).collect();
        let request = Request {
            desired: desired.to_vec(),
            adopted: true,
            managers: true,
            plan: true,
            untaken,
            ..round.request()
        };
        let ended = node.request(request, &round, None).unwrap();
        ended
            .iter()
            .map(|end| format!("{} {} {}", end.id, end.verdict.outcome.word(), end.verdict.detail))
            .collect()
    };
    let words = |held: bool| -> Vec<String> {
        let says = |id: &str, held_because: &str| {
            if held && !held_because.is_empty() {
                format!("web.{id} held it {held_because}; not made")
            } else {
                format!("web.{id} created ")
            }
        };
        vec![
            "web.d unchanged ".to_owned(),
            says("port", "publishes port 8080/tcp, on which something listens"),
            says("other-port", ""),
            says("mount", "mounts /srv/found, which was found"),
            says("own-mount", ""),
            says("there", "acts in the container theirs, which was found"),
            says("here", ""),
        ]
    };
    assert_eq!(plan(&["web"]), words(true));
    assert_eq!(plan(&[]), words(false));
}

//! The guard of an adopted node: first when it goes up, last when it comes down.

use crate::node::Node;
use crate::scenario::{self, Round};
use crate::world::Faults;
use mesh_host::desired::{Desired, Directory, Spec};
use mesh_host::engine::{Ended, Request};
use mesh_host::target::Origin;

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

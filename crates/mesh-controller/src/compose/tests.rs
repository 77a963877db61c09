use super::reason::Reason;
use super::snapshot::{Keys, Module, Node, Port, Set, Snapshot};
use super::*;
use mesh_model::assignment::Assignment;
use mesh_model::json::{Json, Read};
use mesh_model::manifest::Manifest;
use mesh_model::report::HeldPort;

pub(crate) const WEB: &str = r#"{"module":"web","version":"1","dirs":{"state":{"mode":"0750"}},"ports":{"http":{}},
  "accesses":{"films":{"mode":"read"}},"settings":{"defaults":{"pool":5,"db":{"trace":true}}},
  "requires":{"database":{"provision":"postgres"}},
  "resources":[{"id":"site","type":"file","path":"${dir:state}/site","content":"${port:http} ${config:pool} ${bound:database.host} ${machine:zone} ${machine:address} ${machine:arch}"}],
  "contributes":{"shell:zsh:normal":{"lines":["echo ${config:pool} ${access:films}"]}}}"#;
pub(crate) const DB: &str = r#"{"module":"db","version":"1","provides":["postgres"],"seats":{"holds":["primary"]},
  "resources":[{"id":"who","type":"file","path":"/etc/db","content":"${consumers:postgres}"}]}"#;

pub(crate) fn module(text: &str) -> Module {
    Module {
        manifest: Manifest::from_json_bytes(text.as_bytes()).map_err(|problem| problem.to_string()),
        act: 1,
    }
}

pub(crate) fn set<T>(value: T) -> Set<T> {
    Set { value, since: 1000, act: 2 }
}

pub(crate) fn keys() -> Keys {
    Keys {
        epoch: 1,
        bus: nkeys::KeyPair::new_user().public_key().parse().unwrap(),
        sealing: nkeys::XKey::new().public_key().parse().unwrap(),
        joined: 500,
        address: Some("10.0.0.9".into()),
        arch: Some("x86_64".into()),
    }
}

/// Two nodes that have joined: `attic` runs web, `cellar` runs db.
pub(crate) fn mesh() -> Snapshot {
    let mut snapshot = Snapshot {
        mesh: "m".into(),
        vault: Some(nkeys::XKey::new().public_key().parse().unwrap()),
        recovery: Some(Recovery::None),
        ..Snapshot::default()
    };
    for name in ["attic", "cellar"] {
        let node = Node {
            zone: Some("home".into()),
            keys: Some(keys()),
            accesses: [("films".to_owned(), ("/srv/films".to_owned(), 1))].into(),
            act: 1,
            ..Node::default()
        };
        snapshot.nodes.insert(name.into(), node);
    }
    snapshot.modules.insert("web".into(), module(WEB));
    snapshot.modules.insert("db".into(), module(DB));
    snapshot.assignments.insert(("attic".into(), "web".into()), set(()));
    snapshot.assignments.insert(("cellar".into(), "db".into()), set(()));
    snapshot
}

fn assign(snapshot: &mut Snapshot, node: &str, text: &str) {
    let module = module(text);
    let name = module.manifest.as_ref().unwrap().module.clone();
    snapshot.modules.insert(name.clone(), module);
    snapshot.assignments.insert((node.into(), name), set(()));
}

fn problems(snapshot: &Snapshot) -> Vec<String> {
    compose(snapshot).problems().iter().map(ToString::to_string).collect()
}

fn assignment(composed: &Composed, node: &str, module: &str) -> Assignment {
    Assignment::from_json_bytes(&composed.nodes[node].modules[module].assignment).unwrap()
}

#[test]
fn the_same_snapshot_gives_the_same_bytes() {
    let snapshot = mesh();
    let (first, second) = (compose(&snapshot), compose(&snapshot.clone()));
    assert!(problems(&snapshot).is_empty(), "{:?}", problems(&snapshot));
    for (name, node) in &first.nodes {
        assert_eq!(node.modules, second.nodes[name].modules);
        assert_eq!(node.order, second.nodes[name].order);
    }
    let web = assignment(&first, "attic", "web");
    assert_eq!(web.placement.port["http"], 20_000);
    assert_eq!(web.placement.access["films"], "/srv/films");
    assert_eq!(web.placement.machine.get("arch").map(String::as_str), Some("x86_64"));
    assert_eq!(web.contributes[0].item.to_string(), r#"{"lines":["echo 5 /srv/films"]}"#);
    let ids: Vec<&str> = web.resources.iter().map(|draft| draft.id().as_str()).collect();
    assert_eq!(ids, ["web.dir-state", "web.site"]);
    let db = assignment(&first, "cellar", "db");
    let consumers = db.needs.unwrap()[0].of.clone().unwrap();
    assert_eq!((consumers[0].node.as_str(), consumers[0].name.as_str()), ("attic", "database"));
}

#[test]
fn every_part_has_a_reason() {
    let composed = compose(&mesh());
    let web = &composed.nodes["attic"].modules["web"];
    let why = |path: &str| web.why.of(&path.split('.').map(str::to_owned).collect::<Vec<_>>()).cloned();
    assert_eq!(why("placement.port.http"), Some(Reason::PortNew));
    assert_eq!(why("placement.access.films"), Some(Reason::Access(1)));
    assert_eq!(why("placement.machine.arch"), Some(Reason::Joined(500)));
    assert_eq!(why("placement.machine.zone"), Some(Reason::Node(1)));
    assert_eq!(why("resources"), Some(Reason::Manifest("1".into(), 1)));
    assert_eq!(why("module"), Some(Reason::Assigned(2)));
    assert!(matches!(why("needs.[bound:database]"), Some(Reason::Bound { node, .. }) if node == "cellar"));
}

#[test]
fn s01_null_takes_a_default_away_and_the_layer_is_said() {
    let mut snapshot = mesh();
    let json = |text: &str| set(Json::parse(text).unwrap());
    snapshot.layers.insert(("web".into(), None), json(r#"{"db":{"trace":null}}"#));
    snapshot.layers.insert(("web".into(), Some("attic".into())), json(r#"{"pool":9}"#));
    let composed = compose(&snapshot);
    let web = &composed.nodes["attic"].modules["web"];
    assert_eq!(String::from_utf8_lossy(&web.settings), r#"{"pool":9,"db":{}}"#);
    let why = |path: &[&str]| {
        web.settings_why.of(&path.iter().map(ToString::to_string).collect::<Vec<_>>()).cloned()
    };
    assert_eq!(why(&["pool"]), Some(Reason::ForNode(2)));
    assert_eq!(why(&["db", "trace"]), Some(Reason::Removed(Box::new(Reason::Mesh(2)))));
}

#[test]
fn s02_a_scalar_over_a_map_replaces_it() {
    let mut snapshot = mesh();
    snapshot.layers.insert(("web".into(), None), set(Json::parse(r#"{"db":1,"pool":{"a":2}}"#).unwrap()));
    let composed = compose(&snapshot);
    assert_eq!(
        String::from_utf8_lossy(&composed.nodes["attic"].modules["web"].settings),
        r#"{"pool":{"a":2},"db":1}"#
    );
}

#[test]
fn t01_ports_come_from_outside_the_nodes_own_range() {
    let mut snapshot = mesh();
    let attic = snapshot.nodes.get_mut("attic").unwrap();
    attic.ephemeral = Some((15_000, 25_000));
    attic.held = vec![HeldPort { port: 25_001, id: "other.thing".into() }];
    assert_eq!(assignment(&compose(&snapshot), "attic", "web").placement.port["http"], 25_002);
    // One that is kept stays where it is, and that is told.
    let port = Port { port: 20_005, protocol: "tcp".into(), since: 7 };
    snapshot.ports.insert(("attic".into(), "web".into(), "http".into()), port);
    let composed = compose(&snapshot);
    assert_eq!(assignment(&composed, "attic", "web").placement.port["http"], 20_005);
    assert!(
        composed.nodes["attic"].notes[0].contains("15000 to 25000"),
        "{:?}",
        composed.nodes["attic"].notes
    );
}

#[test]
fn p06_a_port_that_cannot_be_names_both() {
    let mut snapshot = mesh();
    assign(&mut snapshot, "attic", r#"{"module":"a","version":"1","ports":{"dns":{"fixed":53}}}"#);
    assign(&mut snapshot, "attic", r#"{"module":"b","version":"1","ports":{"name":{"fixed":53}}}"#);
    assert_eq!(problems(&snapshot), ["b on attic: its port name is 53/tcp, which a has on attic as dns"]);
    // Also one that left and is remembered.
    snapshot.assignments.remove(&("attic".into(), "a".into()));
    assert!(problems(&snapshot).is_empty());
    let port = Port { port: 53, protocol: "tcp".into(), since: 7 };
    snapshot.ports.insert(("attic".into(), "gone".into(), "dns".into()), port);
    assert_eq!(problems(&snapshot), ["b on attic: its port name is 53/tcp, which gone has on attic as dns"]);
    // And what the machine reports.
    snapshot.ports.clear();
    snapshot.nodes.get_mut("attic").unwrap().held = vec![HeldPort { port: 53, id: "old.c".into() }];
    assert_eq!(
        problems(&snapshot),
        ["b on attic: its port name is 53, which old.c holds on attic, as the machine reports"]
    );
}

#[test]
fn a_kept_port_is_given_to_nobody_else() {
    let mut snapshot = mesh();
    let port = Port { port: 20_000, protocol: "tcp".into(), since: 7 };
    snapshot.ports.insert(("attic".into(), "gone".into(), "x".into()), port);
    assert_eq!(assignment(&compose(&snapshot), "attic", "web").placement.port["http"], 20_001);
}

#[test]
fn a_requires_entry_is_bound_to_the_only_provider_and_stays_bound() {
    let mut snapshot = mesh();
    snapshot.assignments.remove(&("cellar".into(), "db".into()));
    assert_eq!(
        problems(&snapshot),
        ["web on attic: its database requires postgres, which nobody provides: assign db to a node"]
    );
    for node in ["attic", "cellar"] {
        snapshot.assignments.insert((node.into(), "db".into()), set(()));
    }
    let all = problems(&snapshot).join("\n");
    assert!(all.contains("which several provide: db on attic, db on cellar"), "{all}");
    // What is bound stays bound when a second one comes.
    let bound = snapshot::Bound { provision: "postgres".into(), node: "cellar".into(), module: "db".into() };
    snapshot.bindings.insert(("attic".into(), "web".into(), "database".into()), set(bound));
    snapshot.modules.insert("db".into(), module(&DB.replace(r#""seats":{"holds":["primary"]},"#, "")));
    assert!(problems(&snapshot).is_empty(), "{:?}", problems(&snapshot));
    snapshot.assignments.remove(&("cellar".into(), "db".into()));
    assert_eq!(
        problems(&snapshot),
        ["web on attic: it is bound to db on cellar for database, which does not provide postgres any more"]
    );
}

#[test]
fn modules_that_wait_for_each_other_are_refused_with_the_way() {
    let mut snapshot = mesh();
    let text = |me: &str, other: &str| {
        format!(
            r#"{{"module":"{me}","version":"1","provides":["{me}"],"requires":{{"x":{{"provision":"{other}"}}}},
              "resources":[{{"id":"f","type":"file","path":"/{me}","content":"${{bound:x.y}}"}}]}}"#
        )
    };
    assign(&mut snapshot, "attic", &text("a", "b"));
    assign(&mut snapshot, "cellar", &text("b", "a"));
    assert_eq!(
        problems(&snapshot),
        [
            "a on attic: it waits for itself: a on attic → b on cellar → a on attic",
            "b on cellar: it waits for itself: b on cellar → a on attic → b on cellar"
        ]
    );
}

#[test]
fn a_seat_is_held_once() {
    let mut snapshot = mesh();
    let other = r#"{"module":"other","version":"1","seats":{"holds":["primary"]}}"#;
    assign(&mut snapshot, "attic", other);
    assert_eq!(
        problems(&snapshot),
        ["db on cellar: it would hold the seat primary, which other on attic holds"]
    );
    let holder = snapshot::Holder { node: "cellar".into(), module: "db".into() };
    snapshot.seats.insert("primary".into(), set(holder));
    assert_eq!(
        problems(&snapshot),
        ["other on attic: it would hold the seat primary, which db on cellar holds"]
    );
    assign(&mut snapshot, "attic", r#"{"module":"asks","version":"1","seats":{"asks":["king"]}}"#);
    assert!(problems(&snapshot)[0].contains("asks the seat king, which nobody holds"));
}

#[test]
fn p09_an_unreadable_manifest_holds_its_node_back_and_no_other() {
    let mut snapshot = mesh();
    let mut broken = module(WEB);
    broken.manifest = Err("x: unknown field".into());
    snapshot.modules.insert("broken".into(), broken);
    snapshot.assignments.insert(("attic".into(), "broken".into()), set(()));
    assert_eq!(problems(&snapshot), ["broken on attic: its manifest cannot be read: x: unknown field"]);
    assert!(compose(&snapshot).nodes["cellar"].problems.is_empty());
}

#[test]
fn e03_a_node_that_has_not_joined_gets_no_secret_and_the_files_are_named() {
    let mut snapshot = mesh();
    let text = r#"{"module":"s","version":"1","secrets":{"k":{"accept":true}},
      "resources":[{"id":"key","type":"file","path":"/k","content":"${secret:k}"}]}"#;
    assign(&mut snapshot, "cellar", text);
    snapshot.nodes.get_mut("cellar").unwrap().keys = None;
    let composed = compose(&snapshot);
    let why = composed.nodes["cellar"].unsendable.join("\n");
    assert!(why.contains("s.key (secret:k)") && why.contains("token issue --node cellar"), "{why}");
    assert!(composed.nodes["attic"].unsendable.is_empty());
}

#[test]
fn two_modules_that_act_on_one_path_are_refused() {
    let mut snapshot = mesh();
    let text = |name: &str| {
        format!(
            r#"{{"module":"{name}","version":"1","resources":[{{"id":"f","type":"file","path":"/etc/x","content":"1"}}]}}"#
        )
    };
    assign(&mut snapshot, "attic", &text("a"));
    assign(&mut snapshot, "attic", &text("b"));
    assert_eq!(problems(&snapshot), ["b on attic: b.f acts on /etc/x, as a.f does"]);
}

#[test]
fn an_assignment_that_is_too_large_names_its_largest_parts() {
    let mut snapshot = mesh();
    let text = format!(
        r#"{{"module":"big","version":"1","resources":[{{"id":"f","type":"file","path":"/f","content":"{}"}},{{"id":"g","type":"file","path":"/g","content":"1"}}]}}"#,
        "x".repeat(600_000)
    );
    assign(&mut snapshot, "attic", &text);
    let all = problems(&snapshot);
    assert!(all[0].contains("at most 524288: the largest parts are big.f 600"), "{all:?}");
}

#[test]
fn providers_come_before_who_is_bound_to_them() {
    let mut snapshot = mesh();
    snapshot.assignments.remove(&("cellar".into(), "db".into()));
    snapshot.modules.insert("zdb".into(), module(&DB.replace("\"db\"", "\"zdb\"")));
    snapshot.modules.remove("db");
    snapshot.assignments.insert(("attic".into(), "zdb".into()), set(()));
    assert_eq!(compose(&snapshot).nodes["attic"].order, ["zdb", "web"]);
}

/// MESH.md: 100 nodes with 20 modules each within half a second on one core, optimised. Here it must merely not be far off.
#[test]
fn a_hundred_nodes_with_twenty_modules_are_composed_soon() {
    let mut snapshot = mesh();
    for module_number in 0..20 {
        let text = WEB.replace(r#""web""#, &format!(r#""web{module_number}""#));
        snapshot.modules.insert(format!("web{module_number}"), module(&text));
    }
    for number in 0..100 {
        let node = snapshot.nodes["attic"].clone();
        let name = format!("n{number}");
        for module_number in 0..20 {
            snapshot.assignments.insert((name.clone(), format!("web{module_number}")), set(()));
        }
        snapshot.nodes.insert(name, node);
    }
    let start = std::time::Instant::now();
    let composed = compose(&snapshot);
    let took = start.elapsed();
    assert_eq!(composed.nodes.values().map(|node| node.modules.len()).sum::<usize>(), 2002);
    assert!(took < std::time::Duration::from_secs(15), "{took:?}");
}

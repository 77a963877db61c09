use super::*;
use crate::compose::compose;
use crate::compose::snapshot::{Bound, Port, Snapshot};
use crate::compose::tests::{DB, WEB, keys, mesh, module, set};
use crate::store::sent::Sent;
use mesh_model::node_record::Recovery;
use mesh_model::report::HeldPort;
use mesh_model::signed::PayloadType;
use proptest::prelude::*;

/// What the store would have after this plan was sent.
fn send(plan: &Plan, before: &[Sent]) -> Vec<Sent> {
    let pair = nkeys::KeyPair::new_operator();
    let mut rows: BTreeMap<(Bucket, String), Sent> =
        before.iter().map(|row| ((row.bucket, row.key.clone()), row.clone())).collect();
    for (node, change) in &plan.nodes {
        let sequence = change.base + 1;
        let mut put = |bucket: Bucket, key: &str, module: &str, value: Option<Vec<u8>>| {
            let row = Sent {
                bucket,
                key: key.to_owned(),
                node: node.clone(),
                module: module.to_owned(),
                value,
                sequence,
                fence: 1,
                done: true,
                revision: 1,
                at: 0,
            };
            match row.value {
                Some(_) => rows.insert((bucket, key.to_owned()), row),
                None => rows.remove(&(bucket, key.to_owned())),
            };
        };
        for value in &change.values {
            put(value.bucket, &value.key, &value.module, value.bytes.clone());
        }
        if let Some(record) = &change.record {
            let signed = Envelope::sign_json(PayloadType::Node, record, &pair).unwrap().to_bytes();
            put(Bucket::Nodes, node, "", Some(signed));
        }
        if let Some(declared) = &change.declaration {
            let declaration = Declaration {
                mesh: "m".into(),
                node: node.clone(),
                sequence,
                fence: 1,
                at: "t".into(),
                vault: declared.vault.clone(),
                modules: declared.parts.clone(),
                adoption: declared.adoption.clone(),
            };
            let signed =
                Envelope::sign_json(PayloadType::Declaration, &declaration, &pair).unwrap().to_bytes();
            put(Bucket::Declarations, node, "", Some(signed));
        }
    }
    rows.into_values().collect()
}

/// As the store keeps what was decided.
pub(crate) fn kept(snapshot: &Snapshot) -> Snapshot {
    let composed = compose(snapshot);
    let mut kept = snapshot.clone();
    for (node, plan) in &composed.nodes {
        for (module, of) in &plan.modules {
            for (name, (port, protocol)) in &of.ports {
                let port = Port { port: *port, protocol: protocol.clone(), since: 5 };
                kept.ports.insert((node.clone(), module.clone(), name.clone()), port);
            }
        }
    }
    for (entry, bound) in &composed.bindings {
        kept.bindings.insert(entry.clone(), set(bound.clone()));
    }
    kept
}

#[test]
fn p03_nothing_changed_is_nothing_to_send() {
    let snapshot = kept(&mesh());
    let composed = compose(&snapshot);
    let first = plan(&composed, &[], None);
    assert!(first.differs() && !first.is_hindered());
    let sent = send(&first, &[]);
    let second = plan(&composed, &sent, None);
    assert!(!second.differs(), "{second:?}");
    assert!(second.nodes.values().all(|node| node.lines.is_empty()));
    assert_eq!(second.digest(), plan(&compose(&snapshot), &sent, None).digest());
    assert_ne!(second.digest(), first.digest(), "the sequences are others");
}

#[test]
fn a_line_says_what_changes_and_why() {
    let snapshot = kept(&mesh());
    let sent = send(&plan(&compose(&snapshot), &[], None), &[]);
    let mut changed = snapshot.clone();
    let port = changed.ports.get_mut(&("attic".into(), "web".into(), "http".into())).unwrap();
    (port.port, port.since) = (20_007, 9);
    let plan = plan(&compose(&changed), &sent, Some("attic"));
    let lines = &plan.nodes["attic"].lines;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].module.as_str(), lines[0].path.as_str()), ("web", "placement.port.http"));
    assert_eq!((lines[0].old.as_deref(), lines[0].new.as_deref()), (Some("20000"), Some("20007")));
    assert_eq!(lines[0].why, Some(Reason::PortKept(9)));
    assert_eq!(plan.nodes["attic"].values.len(), 1, "the settings stay");
    assert!(plan.nodes["attic"].declaration.is_some());
}

#[test]
fn p08_losing_much_is_said() {
    let snapshot = kept(&mesh());
    let sent = send(&plan(&compose(&snapshot), &[], None), &[]);
    let mut emptied = snapshot.clone();
    emptied.assignments.remove(&("attic".into(), "web".into()));
    let of = &plan(&compose(&emptied), &sent, None).nodes["attic"];
    assert!(of.takes_much() && of.has == 0 && of.loses == 1 && of.had == 1);
    assert_eq!(of.values.iter().filter(|value| value.bytes.is_none()).count(), 2);
    assert_eq!(of.declaration.as_ref().unwrap().parts.len(), 0, "an empty declaration takes it away");
    let sent = send(&plan(&compose(&emptied), &sent, None), &sent);
    assert!(!plan(&compose(&emptied), &sent, None).differs());
}

#[test]
fn t03_a_collision_holds_back_its_own_node_alone() {
    let mut snapshot = kept(&mesh());
    let text =
        |name: &str| format!(r#"{{"module":"{name}","version":"1","ports":{{"dns":{{"fixed":53}}}}}}"#);
    for name in ["a", "b"] {
        snapshot.modules.insert(name.into(), module(&text(name)));
        snapshot.assignments.insert(("attic".into(), name.into()), set(()));
    }
    let plan = plan(&compose(&snapshot), &[], None);
    assert!(plan.nodes["attic"].values.is_empty() && !plan.nodes["attic"].problems.is_empty());
    assert!(plan.nodes["cellar"].differs() && plan.nodes["cellar"].problems.is_empty());
}

#[test]
fn a_removed_node_leaves_no_key_behind() {
    let snapshot = kept(&mesh());
    let sent = send(&plan(&compose(&snapshot), &[], None), &[]);
    let mut smaller = snapshot.clone();
    smaller.nodes.remove("attic");
    smaller.assignments.remove(&("attic".into(), "web".into()));
    let plan = plan(&compose(&smaller), &sent, Some("attic"));
    let of = &plan.nodes["attic"];
    assert_eq!(of.values.len(), 4);
    assert!(of.values.iter().all(|value| value.bytes.is_none()) && of.declaration.is_none());
}

/// One change of one input.
#[derive(Debug, Clone)]
pub(crate) enum Mutation {
    Setting(bool, u64),
    Content(u64),
    Version(u64),
    Zone(u64),
    Address(u64),
    Arch(u64),
    Access(u64),
    Port(u16),
    Provider,
    Unassign,
    Assign,
    Adopted,
    Vault,
    Recovery,
    Epoch,
    Contribution(u64),
}

pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    let number = 1000u64..9000;
    prop_oneof![
        (any::<bool>(), number.clone()).prop_map(|(node, value)| Mutation::Setting(node, value)),
        number.clone().prop_map(Mutation::Content),
        number.clone().prop_map(Mutation::Version),
        number.clone().prop_map(Mutation::Zone),
        number.clone().prop_map(Mutation::Address),
        number.clone().prop_map(Mutation::Arch),
        number.clone().prop_map(Mutation::Access),
        (25_000u16..26_000).prop_map(Mutation::Port),
        number.prop_map(Mutation::Contribution),
        Just(Mutation::Provider),
        Just(Mutation::Unassign),
        Just(Mutation::Assign),
        Just(Mutation::Adopted),
        Just(Mutation::Vault),
        Just(Mutation::Recovery),
        Just(Mutation::Epoch),
    ]
}

pub(crate) fn mutate(snapshot: &mut Snapshot, mutation: &Mutation) {
    let web = || ("attic".to_owned(), "web".to_owned());
    let node = snapshot.nodes.get_mut("attic").unwrap();
    match mutation {
        Mutation::Setting(for_node, value) => {
            let layer = ("web".to_owned(), for_node.then(|| "attic".to_owned()));
            snapshot.layers.insert(layer, set(Json::parse(&format!(r#"{{"pool":{value}}}"#)).unwrap()));
        }
        Mutation::Content(value) => {
            let text = WEB.replace("${port:http} ", &format!("${{port:http}} {value} "));
            snapshot.modules.insert("web".into(), module(&text));
        }
        Mutation::Version(value) => {
            let text = WEB.replace(r#""version":"1""#, &format!(r#""version":"{value}""#));
            snapshot.modules.insert("web".into(), module(&text));
        }
        Mutation::Contribution(value) => {
            let text = WEB.replace("echo", &format!("echo {value}"));
            snapshot.modules.insert("web".into(), module(&text));
        }
        Mutation::Zone(value) => node.zone = Some(format!("zone{value}")),
        Mutation::Address(value) => node.address = Some(format!("10.0.0.{value}")),
        Mutation::Arch(value) => node.keys.as_mut().unwrap().arch = Some(format!("arch{value}")),
        Mutation::Access(value) => {
            node.accesses.insert("films".into(), (format!("/srv/{value}"), 1));
        }
        Mutation::Port(port) => {
            snapshot.ports.get_mut(&("attic".into(), "web".into(), "http".into())).unwrap().port = *port;
        }
        Mutation::Provider => {
            snapshot.modules.insert(
                "other".into(),
                module(
                    &DB.replace("\"db\"", "\"other\"")
                        .replace("primary", "second")
                        .replace("/etc/db", "/etc/o"),
                ),
            );
            snapshot.assignments.insert(("cellar".into(), "other".into()), set(()));
            let bound = Bound { provision: "postgres".into(), node: "cellar".into(), module: "other".into() };
            snapshot.bindings.insert(("attic".into(), "web".into(), "database".into()), set(bound));
        }
        Mutation::Unassign => {
            snapshot.assignments.remove(&web());
            snapshot.bindings.clear();
        }
        Mutation::Assign => {
            snapshot.modules.insert("more".into(), module(r#"{"module":"more","version":"1"}"#));
            snapshot.assignments.insert(("attic".into(), "more".into()), set(()));
        }
        Mutation::Adopted => node.adopted = true,
        Mutation::Vault => snapshot.vault = Some(nkeys::XKey::new().public_key().parse().unwrap()),
        Mutation::Recovery => {
            snapshot.recovery = Some(Recovery::Key(nkeys::XKey::new().public_key().parse().unwrap()));
        }
        Mutation::Epoch => {
            let mut fresh = keys();
            fresh.epoch = 2;
            node.keys = Some(fresh);
        }
    }
}

#[test]
fn p01_a_seat_that_another_module_takes_shows_at_whoever_asks_for_it() {
    let mut base = mesh();
    base.nodes.get_mut("attic").unwrap().address = Some("10.0.0.7".into());
    let asks = r#"{"module":"asks","version":"1","seats":{"asks":["primary"]},
        "resources":[{"id":"who","type":"file","path":"/etc/asks","content":"${seat:primary}"}]}"#;
    base.modules.insert("asks".into(), module(asks));
    base.assignments.insert(("attic".into(), "asks".into()), set(()));
    let base = kept(&base);
    let sent = send(&plan(&compose(&base), &[], None), &[]);
    let mut changed = base.clone();
    changed.modules.insert("other".into(), module(&DB.replace("\"db\"", "\"other\"")));
    changed.assignments.remove(&("cellar".into(), "db".into()));
    changed.assignments.insert(("attic".into(), "other".into()), set(()));
    changed.bindings.clear();
    let planned = plan(&compose(&changed), &sent, Some("attic"));
    assert!(planned.differs() && !planned.is_hindered(), "{planned:?}");
    let line = planned.nodes["attic"].lines.iter().find(|line| line.module == "asks").expect("a line");
    assert_eq!(line.path, "placement.seat.primary");
    assert_eq!((line.old.as_deref(), line.new.as_deref()), (Some("\"10.0.0.9\""), Some("\"10.0.0.7\"")));
}

#[test]
fn p01_what_a_machine_reports_of_its_ports_shows() {
    let base = mesh();
    let port = |snapshot: &Snapshot| {
        let planned = plan(&compose(snapshot), &[], Some("attic"));
        assert!(!planned.is_hindered(), "{planned:?}");
        let lines = planned.nodes["attic"].lines.clone();
        lines.into_iter().find(|line| line.path == "placement.port.http").unwrap().new.unwrap()
    };
    assert_eq!(port(&base), "20000");
    // A new port avoids what the machine holds, and what it gives to outgoing connections.
    let mut changed = base.clone();
    let node = changed.nodes.get_mut("attic").unwrap();
    node.held = vec![HeldPort { port: 20_000, id: "other.thing".into() }];
    assert_eq!(port(&changed), "20001");
    changed.nodes.get_mut("attic").unwrap().ephemeral = Some((19_000, 20_500));
    assert_eq!(port(&changed), "20501");
    // A kept one stays, and the plan says where it lies.
    let mut base = kept(&base);
    let sent = send(&plan(&compose(&base), &[], None), &[]);
    base.nodes.get_mut("attic").unwrap().ephemeral = Some((19_000, 20_500));
    let planned = plan(&compose(&base), &sent, Some("attic"));
    assert!(!planned.differs());
    let notes = &planned.nodes["attic"].notes;
    assert!(notes.iter().any(|note| note.contains("lies in the range 19000 to 20500")), "{notes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever input changes: the diff names it, the exit code tells it, sending it settles it.
    #[test]
    fn p01_a_change_of_any_input_shows(mutations in prop::collection::vec(mutation(), 1..4)) {
        let base = kept(&mesh());
        let sent = send(&plan(&compose(&base), &[], None), &[]);
        let mut changed = base.clone();
        for mutation in &mutations {
            mutate(&mut changed, mutation);
        }
        let composed = compose(&changed);
        let planned = plan(&composed, &sent, None);
        prop_assert!(!planned.is_hindered(), "{:?}", planned);
        prop_assert!(planned.differs());
        for (node, of) in &planned.nodes {
            prop_assert_eq!(of.differs(), !of.lines.is_empty(), "{} {:?}", node, of);
        }
        prop_assert_ne!(planned.digest(), plan(&compose(&base), &sent, None).digest());
        let after = plan(&composed, &send(&planned, &sent), None);
        prop_assert!(!after.differs(), "{:?}", after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Of any mesh: the same input gives the same bytes and the same digest, and once it was sent there is nothing to send.
    #[test]
    fn p03_of_a_thousand_meshes_none_that_did_not_change_shows_an_update(
        mutations in prop::collection::vec(mutation(), 0..12),
        more in 0usize..4,
    ) {
        let mut snapshot = mesh();
        for number in 0..more {
            let node = snapshot.nodes["attic"].clone();
            snapshot.nodes.insert(format!("more{number}"), crate::compose::snapshot::Node { keys: Some(keys()), ..node });
            snapshot.assignments.insert((format!("more{number}"), "web".into()), set(()));
        }
        let mut snapshot = kept(&snapshot);
        for mutation in &mutations {
            mutate(&mut snapshot, mutation);
        }
        let snapshot = kept(&snapshot);
        let (first, again) = (compose(&snapshot), compose(&snapshot.clone()));
        for (name, node) in &first.nodes {
            prop_assert_eq!(&node.modules, &again.nodes[name].modules);
        }
        let planned = plan(&first, &[], None);
        prop_assert_eq!(planned.digest(), plan(&again, &[], None).digest());
        let sent = send(&planned, &[]);
        let after = plan(&again, &sent, None);
        prop_assert!(!after.differs(), "{:?}", after);
        prop_assert_eq!(after.is_hindered(), planned.is_hindered());
        prop_assert!(after.nodes.values().all(|node| node.lines.is_empty()));
        prop_assert_eq!(after.digest(), plan(&compose(&snapshot), &sent, None).digest());
        // What is composed of some nodes is what is composed of all.
        let some = crate::compose::compose_some(&snapshot, |node| node == "attic");
        prop_assert_eq!(&some.nodes["attic"].modules, &first.nodes["attic"].modules);
        prop_assert_eq!(some.nodes.len(), 1);
    }
}

//! Cases K13, K15, K19, K20, K30, K32, K42 to K44 and K52: what a pass costs, what empty lists, late answers and failures change.

use std::time::Duration;

use mesh_model::host_api::MAX_VALUE_DEPTH;
use mesh_model::json::MAX_DEPTH;
use serde_json::{Value, json};

use super::world::{APPLIED, BOUND, Faults, MS, NEEDS, SECOND, World};
use super::{bound, current, module, standing, state, web};

/// The same plan resolved again and again, from nothing: byte for byte the same goes to the host, whatever order the bus
/// brought it in.
#[test]
fn k13_the_same_plan_gives_the_same_bytes() {
    let mut world = current();
    let before = world.machine.clone();
    for _ in 0..100 {
        world.forget();
        world.kill();
        world.go(SECOND * 10);
    }
    assert_eq!(world.machine, before);
    assert_eq!((world.hand_overs, world.needless["a"]), (101, 100), "each one changes nothing");
}

/// A module that takes out of a collection, and five that put into it.
fn collecting() -> World {
    let mut world = World::new(15, Faults::default());
    world.set("shell", module("shell", &json!([{"kind":"shell","name":"zsh:normal"}])), json!({}));
    for name in ["a", "b", "c", "d", "e"] {
        let mut contributor = module(name, &json!([{"kind":"config","name":"motto"}]));
        let lines = format!("alias {name}");
        contributor["contributes"] =
            json!([{"collection":"shell:zsh:normal","item":{"order":50,"lines":[lines]}}]);
        world.set(name, contributor, json!({"motto": "one"}));
    }
    world.push();
    world.start_client();
    world.go(SECOND * 5);
    assert_eq!((world.wrong(), world.hand_overs), (Vec::new(), 1));
    world
}

/// An answer that is valid and empty: after a restart of the bus, a purge, or a listing that was cut. What is signed
/// counts, so none of it empties a file; a collection that is really empty by a newer declaration is applied.
#[test]
fn k15_an_empty_list_empties_nothing() {
    let mut world = collecting();
    let buckets = ["mesh-controller_assignments", "mesh-controller_settings", "mesh-provisioner_collect"];
    let held: Vec<_> = buckets.into_iter().map(|bucket| (bucket, world.empty(bucket))).collect();
    for _ in 0..2 {
        world.bus_away();
        world.bus_is_up = true;
        world.go(SECOND * 60);
    }
    assert_eq!((world.hand_overs, world.machine.len()), (1, 6));
    // The mirror is written again, and what was there comes back.
    assert_eq!(world.keys("mesh-provisioner_collect").len(), 5);
    for (bucket, keys) in held.into_iter().take(2) {
        for (key, value) in keys {
            world.put(bucket, &key, Some(value));
        }
    }
    world.go(SECOND * 10);
    assert_eq!((world.wrong(), world.hand_overs), (Vec::new(), 1));
    // The same with the word of a provider.
    let mut world = current();
    let held = world.empty(BOUND);
    world.bus_away();
    world.bus_is_up = true;
    world.go(SECOND * 60);
    assert_eq!(state(&world, "attic.a.bound.db"), ("waiting".into(), "provider has not answered".into()));
    assert_eq!((world.hand_overs, world.machine.len()), (1, 3), "what runs stays");
    for (key, value) in held {
        world.put(BOUND, &key, Some(value));
    }
    world.go(SECOND * 10);
    assert_eq!((world.wrong(), world.hand_overs), (Vec::new(), 1));
    // Nobody contributes any more: that is a change.
    let mut world = collecting();
    for name in ["a", "b", "c", "d", "e"] {
        world.set(name, module(name, &json!([{"kind":"config","name":"motto"}])), json!({"motto": "one"}));
    }
    world.push();
    world.go(SECOND * 10);
    assert_eq!((world.wrong(), world.applies["shell"]), (Vec::new(), 2));
    assert_eq!(world.keys("mesh-provisioner_collect"), Vec::<String>::new());
}

/// One refused secret among 50 modules for ten minutes: the others are applied once, and asked for once.
#[test]
fn k19_one_forbidden_secret_costs_the_others_nothing() {
    let mut world = World::new(19, Faults::default());
    for number in 0..50 {
        let name = format!("m{number}");
        world.set(&name, web(&name), json!({"motto": "one"}));
        bound(&mut world, &name, "10.0.0.2");
    }
    world.refused.insert(("m7".into(), "key".into()));
    world.push();
    world.start_client();
    world.go(SECOND * 600);
    for number in (0..50).filter(|number| *number != 7) {
        let name = format!("m{number}");
        assert_eq!((world.applies[&name], world.asked[&(name.clone(), "key".into())]), (1, 1), "{name}");
    }
    assert!(!world.machine.contains_key("m7"));
    let tries = world.asked[&("m7".into(), "key".into())];
    assert!((8..=60).contains(&tries), "on its own back-off, from 1 s to 60 s: {tries}");
    assert_eq!(world.status()["modules"]["m7"]["state"], "waiting");
}

/// Answers that come too late and answers that come twice are dropped, and counted.
#[test]
fn k32_late_and_second_answers_are_dropped_and_counted() {
    let mut world = standing(32, Faults::default());
    world.vault_takes = SECOND * 6;
    world.go(SECOND * 20);
    assert_eq!(state(&world, "attic.a.secret.key"), ("waiting".into(), "silent".into()));
    let late = world.status()["counters"]["dropped"].as_u64().unwrap();
    assert!(late >= 1 && world.machine.is_empty(), "{late}");
    world.vault_takes = MS * 10;
    world.vault_repeats = 2;
    world.go(SECOND * 70);
    assert_eq!(world.wrong(), Vec::<String>::new());
    let twice = world.status()["counters"]["dropped"].as_u64().unwrap();
    assert!(twice >= late + 3, "each of the three values came twice: {late}, {twice}");
    assert!(["a", "b", "c"].iter().all(|name| world.applies[*name] == 1), "{:?}", world.applies);
}

/// 200 modules with 50 placeholders each, and one value that changes ten times a second: the work is that of one module.
#[test]
fn k42_work_is_proportional_to_what_depends() {
    let busy = |modules: usize| {
        let mut world = World::new(42, Faults::default());
        world.is_quiet = true;
        for number in 0..modules {
            let name = format!("m{number}");
            let mut needs: Vec<Value> =
                (0..49).map(|place| json!({"kind":"config","name":format!("s{place}")})).collect();
            needs.push(json!({"kind":"bound","name":"db","provision":"postgres","provider":{"node":"cellar","module":"postgres"}}));
            let settings: Value = (0..49).map(|place| (format!("s{place}"), json!("one"))).collect();
            world.set(&name, module(&name, &needs.into()), settings);
            bound(&mut world, &name, "10.0.0.2");
        }
        world.push();
        world.start_client();
        world.go(SECOND * 20);
        assert_eq!(world.wrong(), Vec::<String>::new());
        let before = world.worked;
        for turn in 0..100 {
            bound(&mut world, "m0", &format!("10.0.1.{turn}"));
            world.go(MS * 100);
        }
        let took = world.worked.checked_sub(before).unwrap();
        world.go(SECOND * 5);
        assert_eq!(world.wrong(), Vec::<String>::new());
        let applied: u64 = world.applies.values().sum();
        assert_eq!(applied, modules as u64 - 1 + world.applies["m0"], "the others were applied once");
        took
    };
    let (few, many) = (busy(20), busy(200));
    println!("10 s of ten changes a second: {few:?} of 20 modules, {many:?} of 200");
    assert!(many < SECOND, "less than a tenth of a core in a debug build: {many:?}");
}

/// A host that always fails, and a state folder that cannot be written: what the client remembers does not grow.
#[test]
fn k43_a_failing_loop_needs_no_more_memory() {
    let mut world = current();
    world.is_quiet = true;
    world.broken.extend(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    let mut sizes = Vec::new();
    for round in 0..2000 {
        // A new value has it tried again at once.
        world.rotate("a", "key");
        bound(&mut world, "b", &format!("10.0.{}.{}", round / 250, round % 250));
        world.go(SECOND * 3);
        if round % 500 == 499 {
            sizes.push(world.memory());
        }
        if round == 999 {
            world.state_is_writable = false;
        }
    }
    assert!(world.hand_overs > 1500, "{}", world.hand_overs);
    let grown = sizes[3].abs_diff(sizes[0]);
    assert!(grown < sizes[0] / 10, "the memory grew: {sizes:?}");
    // It ends well all the same.
    world.broken.clear();
    world.state_is_writable = true;
    world.go(SECOND * 1200);
    assert_eq!(world.wrong(), Vec::<String>::new());
}

/// 500 nodes whose connections broke at once: what is held is not asked for again, and without the revisions' bucket each
/// asks at a time that its name decides.
#[test]
fn k44_nodes_do_not_ask_all_at_once() {
    let mut asked: Vec<Duration> = Vec::new();
    for number in 0..500 {
        let mut world = alone(&format!("node-{number}"), 1);
        world.bus_away();
        world.bus_is_up = true;
        world.go(SECOND * 10);
        assert_eq!(world.asked_at.len(), 1, "a reconnect asks for nothing that is held");
        world.go(SECOND * 30);
        assert_eq!(world.wrong(), Vec::<String>::new());
        asked.push(world.asked_at[1]);
    }
    asked.sort();
    let spread = asked[499].checked_sub(asked[0]).unwrap();
    assert!(spread >= SECOND * 10, "{spread:?}");
    let most =
        asked.iter().map(|from| asked.iter().filter(|at| (*from..*from + SECOND).contains(*at)).count());
    let most = most.max().unwrap();
    println!("500 nodes ask again within {spread:?}, at most {most} in a second");
    assert!(most < 80, "{most}");
    // One node with many secrets asks for 32 at a time.
    let world = alone("attic", 100);
    let at_once =
        |from: Duration| world.asked_at.iter().filter(|at| (from..from + MS * 200).contains(*at)).count();
    assert_eq!(world.asked_at.iter().map(|at| at_once(*at)).max(), Some(32));
}

/// A node without the revisions' bucket that is current, with so many secrets, which are good for 30 s.
fn alone(name: &str, secrets: usize) -> World {
    let mut world = World::new(44, Faults::default());
    name.clone_into(&mut world.name);
    world.is_quiet = true;
    world.again_after = 30;
    world.vault_takes = MS * 200;
    let needs: Vec<Value> =
        (0..secrets).map(|place| json!({"kind":"secret","name":format!("s{place}")})).collect();
    world.set("a", module("a", &needs.into()), json!({}));
    world.remove_bucket("mesh-vault_revisions");
    world.push();
    world.start_client();
    world.go(SECOND * 5);
    assert_eq!(world.wrong(), Vec::<String>::new(), "current in less than 5 s");
    assert_eq!(world.asked_at.len(), secrets);
    world
}

/// What the host took and could not do: `applied` goes on naming what stands, and the need and the status what is wanted.
#[test]
fn k52_what_failed_later_is_not_said_to_be_applied() {
    let mut world = current();
    let good = world.get(APPLIED, "attic.a").unwrap();
    world.broken.insert("a".to_owned());
    world.set("a", web("a"), json!({"motto": "two"}));
    world.push();
    world.go(SECOND * 4);
    assert_eq!(world.get(APPLIED, "attic.a").unwrap(), good, "the last good one");
    let need = world.get(NEEDS, "attic.a.config.motto").unwrap();
    let before = world.get(NEEDS, "attic.b.config.motto").unwrap();
    assert_eq!(need["state"], "filled");
    assert_ne!(need["plan"], before["plan"], "the plan that is wanted");
    assert_eq!(world.status()["modules"]["a"]["state"], "failed");
    let report = world.get("mesh-controller_reports", "attic").unwrap();
    assert_eq!((&report["sequence"], &report["modules"]["a"]["state"]), (&json!(2), &json!("failed")));
    world.broken.clear();
    world.go(SECOND * 30);
    assert_eq!(world.get(APPLIED, "attic.a").unwrap()["sequence"], 2);
    assert_eq!(world.wrong(), Vec::<String>::new());
}

/// A setting that a layer took away with `null`, in the whole or in its depth, is missing here: the module keeps what it
/// has, and goes on when there is a value again.
#[test]
fn s01_a_setting_that_is_null_waits_at_every_depth() {
    for (settings, why) in [
        (json!({"db": {"pool": null}}), "null"),
        (json!({"db": {}}), "value missing"),
        (json!({"db": null}), "value missing"),
        (json!({}), "value missing"),
    ] {
        let mut world = deep();
        let before = world.machine["a"].clone();
        world.set("a", module("a", &json!([{"kind":"config","name":"db.pool"}])), settings.clone());
        world.push();
        world.go(SECOND * 5);
        assert_eq!(state(&world, "attic.a.config.db=2Epool"), ("waiting".into(), why.into()), "{settings}");
        assert_eq!(world.machine["a"], before);
        world.set("a", module("a", &json!([{"kind":"config","name":"db.pool"}])), json!({"db": {"pool": 7}}));
        world.push();
        world.go(SECOND * 5);
        assert_eq!(world.wrong(), Vec::<String>::new());
    }
}

/// A scalar in the place of an object has no members.
#[test]
fn s02_a_scalar_over_a_map_has_no_members() {
    let mut world = deep();
    world.set("a", module("a", &json!([{"kind":"config","name":"db.pool"}])), json!({"db": "none"}));
    world.push();
    world.go(SECOND * 5);
    assert_eq!(state(&world, "attic.a.config.db=2Epool"), ("waiting".into(), "value missing".into()));
    assert_eq!(world.get(APPLIED, "attic.a").unwrap()["sequence"], 1, "what runs stays");
}

fn deep() -> World {
    let mut world = World::new(1, Faults::default());
    world.set("a", module("a", &json!([{"kind":"config","name":"db.pool"}])), json!({"db": {"pool": 5}}));
    world.push();
    world.start_client();
    world.go(SECOND * 5);
    assert_eq!(world.wrong(), Vec::<String>::new());
    world
}

/// A provider's value that is nested as deep as JSON may be does not fit into a request to the host: its module waits, and
/// no other one does.
#[test]
fn k20_a_value_that_is_nested_too_deep_holds_back_its_module_alone() {
    let mut world = current();
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
    world.set("d", web("d"), json!({"motto": "one"}));
    world.put(BOUND, "attic.d.postgres.db", Some(deep(MAX_DEPTH)));
    world.rotate("d", "key");
    world.push();
    world.set("a", web("a"), json!({"motto": "two"}));
    world.push();
    world.go(SECOND * 10);
    assert_eq!(state(&world, "attic.d.bound.db"), ("waiting".to_owned(), "nonsense".to_owned()));
    assert!(world.machine.contains_key("a") && !world.machine.contains_key("d"));
    assert_eq!(world.applies["a"], 2);
    // As deep as the host takes it, it is a value; and what is too deep does not take its place.
    world.put(BOUND, "attic.d.postgres.db", Some(deep(MAX_VALUE_DEPTH)));
    world.put(BOUND, "attic.d.postgres.db", Some(deep(MAX_VALUE_DEPTH + 1)));
    world.go(SECOND * 10);
    assert_eq!(state(&world, "attic.d.bound.db"), ("filled".to_owned(), String::new()));
    assert_eq!(world.applies["d"], 1);
}

/// A bus that was set back to an older state has an older declaration. It counts no more after a restart than before.
#[test]
fn k30_an_older_declaration_takes_nothing_away_after_a_restart() {
    let mut world = current();
    let older = world.get("mesh-controller_declarations", "attic").unwrap().to_string();
    world.set("d", web("d"), json!({"motto": "one"}));
    bound(&mut world, "d", "10.0.0.2");
    world.rotate("d", "key");
    world.push();
    world.go(SECOND * 5);
    assert_eq!((world.machine.len(), world.wrong()), (4, Vec::new()));
    world.put("mesh-controller_declarations", "attic", Some(older.into_bytes()));
    world.kill();
    world.go(SECOND * 60);
    assert!(world.keys(APPLIED).iter().any(|key| key == "attic.d"), "{:?}", world.keys(APPLIED));
    assert_eq!((world.machine.len(), world.hand_overs), (4, 2));
}

/// A provider writes below a node what it likes: only what a need looks for is kept, and it is found once a need does.
#[test]
fn what_a_provider_writes_and_no_need_looks_for_is_not_kept() {
    let mut world = current();
    for number in 0..1000 {
        world.put(BOUND, &format!("attic.a.junk-{number}"), Some(br#"{"host":"10.0.0.9"}"#.to_vec()));
        world.put(BOUND, &format!("attic.none-{number}.postgres"), Some(b"1".to_vec()));
    }
    bound(&mut world, "d", "10.0.0.2");
    world.go(SECOND * 10);
    assert_eq!((world.provided_values(), world.hand_overs), (3, 1));
    world.rotate("d", "key");
    world.set("d", web("d"), json!({"motto": "one"}));
    world.push();
    world.go(SECOND * 10);
    assert_eq!((world.provided_values(), world.hand_overs), (4, 2));
    assert_eq!(world.wrong(), Vec::<String>::new());
}

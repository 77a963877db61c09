//! The questions that no single bucket answers.

use crate::support::verb::AsksTheSeat;
use serde_json::{Value, json};

use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::client::Client;
use crate::support::mesh::Mesh;
use crate::support::verb::Answer;

/// Two nodes with one of everything: `web` is as it should be, `late` needs what it has not applied, `db` has
/// never applied anything, and nothing needs `old` any more.
fn fill(client: &Client) {
    let put = |bucket, keys: &[&str]| client.kv_put_all(bucket, keys.iter().map(|key| (key, "1")));
    put(NEEDS, &["attic.web.port.http", "attic.web.mystery.x", "attic.web.shell.zsh=3Anormal"]);
    put(NEEDS, &["attic.web.collected.hosts", "cellar.db.collected.motd", "cellar.gone.port.http"]);
    put(APPLIED, &["attic.web", "attic.late", "cellar.old"]);
    put(NEEDS, &["attic.late.port.http"]);
    put(
        COLLECT,
        &["attic.hosts.web", "attic.hosts.late", "attic.shell=3Azsh=3Anormal.web", "attic.prompt.web"],
    );
    client.kv_delete(NEEDS, "cellar.gone.port.http");
}

/// When the key was last written, in the bus's words.
#[track_caller]
fn at(client: &Client, bucket: &str, key: &str) -> String {
    client.kv_get(bucket, key).unwrap_or_else(|| panic!("nothing under {key}")).time
}

#[track_caller]
fn ask(client: &Client, body: &Value) -> (Vec<Value>, bool) {
    let answer = client.ask(body).good();
    assert_eq!((answer.complaints(), answer.next()), (Vec::new(), None));
    (answer.entries().to_vec(), answer.body()["ok"].as_bool().expect("ok"))
}

/// An entry without its age, which grows while the test looks on.
fn ageless(entry: &Value) -> Value {
    let mut entry = entry.clone();
    entry.as_object_mut().expect("an object").remove("age_seconds");
    entry
}

#[test]
fn gaps_list_needs_without_a_registry_entry_and_needs_that_wait() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    assert_eq!(ask(&reader, &json!({"what": "gaps"})), (vec![], true));
    fill(&tester);
    let stored = tester.kv_get(NEEDS, "attic.web.mystery.x").expect("a need");
    let gap = json!({
        "key": "attic.web.mystery.x", "node": "attic", "module": "web", "kind": "mystery", "name": "x",
        "gap": "unanswered", "revision": stored.sequence, "at": stored.time,
    });
    assert_eq!(ask(&reader, &json!({"what": "gaps"})), (vec![gap], false));
    assert_eq!(ask(&reader, &json!({"what": "gaps", "node": "cellar"})), (vec![], true));
    tester.kv_delete(NEEDS, "attic.web.mystery.x");
    assert_eq!(ask(&reader, &json!({"what": "gaps"})), (vec![], true));
    // It waits since a moment ago, which is well.
    let value =
        r#"{"state":"waiting","why":"no responder","provider":"mesh-vault","plan":"0123456789abcdef"}"#;
    tester.kv_put(NEEDS, "attic.web.secret.key", value);
    let stored = tester.kv_get(NEEDS, "attic.web.secret.key").expect("a need");
    let waits = json!({
        "key": "attic.web.secret.key", "node": "attic", "module": "web", "kind": "secret", "name": "key",
        "gap": "waiting", "why": "no responder", "revision": stored.sequence, "at": stored.time,
    });
    assert_eq!(ask(&reader, &json!({"what": "gaps"})), (vec![waits], true));
}

#[test]
fn drift_is_told_by_the_times_of_the_bus() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    fill(&tester);
    let late = json!({
        "node": "attic", "module": "late", "state": "unapplied", "needs": 1,
        "needed_at": at(&tester, NEEDS, "attic.late.port.http"), "applied_at": at(&tester, APPLIED, "attic.late"),
    });
    let web = json!({
        "node": "attic", "module": "web", "state": "current", "needs": 4,
        "needed_at": at(&tester, NEEDS, "attic.web.collected.hosts"), "applied_at": at(&tester, APPLIED, "attic.web"),
    });
    let db = json!({
        "node": "cellar", "module": "db", "state": "never", "needs": 1,
        "needed_at": at(&tester, NEEDS, "cellar.db.collected.motd"),
    });
    let old = json!({
        "node": "cellar", "module": "old", "state": "orphan", "needs": 0,
        "applied_at": at(&tester, APPLIED, "cellar.old"),
    });
    let asked = |body: Value| ask(&reader, &body);
    let all = vec![late.clone(), web.clone(), db.clone(), old.clone()];
    assert_eq!(asked(json!({"what": "drift"})), (all, false));
    assert_eq!(asked(json!({"what": "drift", "node": "cellar"})), (vec![db, old], false));
    assert_eq!(asked(json!({"what": "drift", "module": "late"})), (vec![late], false));
    assert_eq!(asked(json!({"what": "drift", "node": "attic", "module": "web"})), (vec![web], true));
    assert_eq!(asked(json!({"what": "drift", "node": "garage"})), (vec![], true));
    tester.kv_put(APPLIED, "garage.shell", r#"{"version":"1.0.0","needs":0}"#);
    let shell = json!({
        "node": "garage", "module": "shell", "state": "current", "needs": 0,
        "applied_at": at(&tester, APPLIED, "garage.shell"),
    });
    assert_eq!(asked(json!({"what": "drift", "node": "garage"})), (vec![shell], true));
}

#[test]
fn collections_say_who_contributes_and_who_reads() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    fill(&tester);
    let row = |node: &str, collection: &str, contributors: &[&str], readers: &[&str], state: &str| {
        json!({
            "node": node, "collection": collection, "contributors": contributors, "readers": readers,
            "state": state,
        })
    };
    let hosts = row("attic", "hosts", &["late", "web"], &["web"], "read");
    let prompt = row("attic", "prompt", &["web"], &[], "unread");
    let shell = row("attic", "shell:zsh:normal", &["web"], &["web"], "read");
    let motd = row("cellar", "motd", &[], &["db"], "unfed");
    let asked = |body: Value| ask(&reader, &body);
    let all = vec![hosts.clone(), prompt.clone(), shell.clone(), motd.clone()];
    assert_eq!(asked(json!({"what": "collections"})), (all, false));
    assert_eq!(asked(json!({"what": "collections", "node": "cellar"})), (vec![motd], false));
    assert_eq!(asked(json!({"what": "collections", "module": "late"})), (vec![hosts.clone()], true));
    tester.kv_delete(COLLECT, "attic.prompt.web");
    assert_eq!(asked(json!({"what": "collections", "node": "attic"})), (vec![hosts, shell], true));
}

#[test]
fn nodes_are_counted_with_their_last_write() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    fill(&tester);
    let asked = |body: Value| {
        let (entries, ok) = ask(&reader, &body);
        let is_young = |entry: &Value| entry["age_seconds"].as_u64().is_some_and(|age| age < 600);
        assert!(entries.iter().all(is_young), "{entries:?}");
        (entries.iter().map(ageless).collect::<Vec<_>>(), ok)
    };
    let row = |node: &str, counts: [usize; 3], last: String, stale: Option<bool>| {
        let [needs, applied, collect] = counts;
        let mut row = json!({
            "node": node, "needs": needs, "applied": applied, "collect": collect, "malformed": 0,
            "last_write_at": last,
        });
        if let Some(stale) = stale {
            row["stale"] = json!(stale);
        }
        row
    };
    let (attic, cellar) =
        (at(&tester, COLLECT, "attic.prompt.web"), at(&tester, NEEDS, "cellar.gone.port.http"));
    let rows = |stale| {
        vec![row("attic", [5, 2, 4], attic.clone(), stale), row("cellar", [1, 1, 0], cellar.clone(), stale)]
    };
    assert_eq!(asked(json!({"what": "nodes"})), (rows(None), true));
    assert_eq!(asked(json!({"what": "nodes", "stale_after": 3_600})), (rows(Some(false)), true));
    assert_eq!(asked(json!({"what": "nodes", "node": "cellar"})), (rows(None)[1..].to_vec(), true));
}

#[test]
fn their_rows_and_malformed_keys_are_paged_like_keys() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    fill(&tester);
    tester.kv_put(NEEDS, "attic.web.port", "1");
    tester.kv_put(APPLIED, "attic.=61", "1");
    for what in ["drift", "collections", "nodes"] {
        let whole = reader.ask(&json!({"what": what})).good();
        let pages = reader.ask_all(&json!({"what": what, "limit": 1}));
        assert_eq!(
            pages.iter().filter(|page| page.entries().len() == 1).count(),
            whole.entries().len(),
            "{what}"
        );
        let rows: Vec<Value> = pages.iter().flat_map(Answer::entries).map(ageless).collect();
        assert_eq!(rows, whole.entries().iter().map(ageless).collect::<Vec<_>>(), "{what}");
        let said = match what {
            "collections" => vec![("attic.web.port", "shape")],
            _ => vec![("attic.=61", "token"), ("attic.web.port", "shape")],
        };
        assert_eq!(whole.complaints(), said, "{what}");
        assert_eq!(pages.iter().flat_map(Answer::complaints).collect::<Vec<_>>(), said, "{what}");
        let ok = |answer: &Answer| answer.body()["ok"].as_bool();
        assert!(pages.iter().all(|page| ok(page) == Some(false)), "{what}: ok is of the whole, on each page");
    }
}

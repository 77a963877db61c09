//! What values do to files: cases K04 and K07, every kind at once, and that no trace of a secret is left anywhere.

use std::path::Path;

use mesh_testing::process::memory;
use serde_json::{Value, json};

use super::node::{APPLIED, BUCKETS, Mesh, Module, NEEDS, Node, REPORTS};
use super::{CANARY, state};

/// A module with these resources and needs.
fn module(name: &'static str, needs: &Value, resources: &Value, settings: Value) -> Module {
    let assignment = json!({"module": name, "version": "1", "needs": needs, "resources": resources});
    Module { name, assignment, settings }
}

fn file(module: &str, name: &str, content: &str) -> Value {
    let id = format!("{module}.{}", name.replace('.', "-"));
    json!({"id": id, "type": "file", "path": format!("/srv/{name}"), "content": content})
}

/// Quotes, newlines and backslashes go in as they are. Where the file says its format, what would break it is not applied
/// and the place is named; where it says an encoding, it is right.
#[test]
fn k04_quotes_and_newlines_break_no_file() {
    let odd = "a\"b'c\nd\te\\";
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    let needs = json!([{"kind":"config","name":"odd"}]);
    let settings = || json!({"odd": odd});
    let raw = file("raw", "raw.txt", "x=${config:odd};\n");
    let mut broken = file("broken", "broken.json", r#"{"a":"${config:odd}"}"#);
    broken["format"] = json!("json");
    let mut coded = file("coded", "coded.json", r#"{"a":"${config:odd}"}"#);
    (coded["format"], coded["encode"]) = (json!("json"), json!("json"));
    let mut shell = file("coded", "coded.sh", "x=${config:odd}\n");
    shell["encode"] = json!("shell");
    mesh.push(&[
        module("raw", &needs, &json!([raw]), settings()),
        module("broken", &needs, &json!([broken]), settings()),
        module("coded", &needs, &json!([coded, shell]), settings()),
    ]);
    node.start_host();
    node.start_client();
    node.until_file("/srv/raw.txt", format!("x={odd};\n").as_bytes());
    node.until_file("/srv/coded.json", format!("{{\"a\":{}}}", inside(odd)).as_bytes());
    node.until_file("/srv/coded.sh", b"x='a\"b'\\''c\nd\te\\'\n");
    node.until_key(&mesh, REPORTS, "attic", |value| {
        let why = value.unwrap_or_default()["modules"]["broken"]["why"].clone();
        why.as_str().is_some_and(|why| why.contains("broken.broken-json") && why.contains("not json"))
    });
    assert_eq!(node.read("/srv/broken.json"), None);
    node.until_key(&mesh, APPLIED, "attic.coded", |value| value.is_some());
    node.until_key(&mesh, APPLIED, "attic.broken", |value| value.is_none());
}

/// A text as JSON has it.
fn inside(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Every byte, and the largest secret: exact as the whole of a file, and within a text.
#[test]
fn k07_the_bytes_of_a_secret_are_kept() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    let vault = mesh.vault(&node);
    let every: Vec<u8> = (0..=255).collect();
    let mut number = 7_u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number.to_be_bytes()[0]
    };
    let large: Vec<u8> = (0..256 << 10).map(|_| next()).collect();
    vault.set("keys", "every", 1, &every);
    vault.set("keys", "large", 1, &large);
    let needs = json!([{"kind":"secret","name":"every","accept":true},{"kind":"secret","name":"large","accept":true}]);
    let resources = json!([
        file("keys", "every.key", "${secret:every}"),
        file("keys", "large.key", "${secret:large}"),
        file("keys", "inline", "before ${secret:every} after\n"),
    ]);
    mesh.push(&[module("keys", &needs, &resources, json!({}))]);
    node.start_host();
    node.start_client();
    node.until_file("/srv/every.key", &every);
    node.until_file("/srv/inline", &[b"before ", &every[..], b" after\n"].concat());
    node.until_file("/srv/large.key", &large);
}

/// A module whose resources use every one of the thirteen kinds is filled to the byte, under the rights of a node; and of
/// the secrets in it no trace is in a bucket, a log, a state file, an argument or the memory of the client.
#[test]
fn every_kind_fills_one_module_to_the_byte_and_leaves_no_trace() {
    let mut mesh = Mesh::start();
    let mut node = Node::new(&mesh);
    mesh.tester.create_bucket("postgres_bound", &json!({}));
    let vault = mesh.vault(&node);
    let canary = String::from_utf8(CANARY.to_vec()).unwrap();
    let passwords = ["canary-u7x2-password-of-web", "canary-m1q8-password-of-mail"];
    vault.set("all", "key", 1, CANARY);
    let credential = json!({"user":"all_database_attic","password":passwords[0]}).to_string();
    vault.set("all", "database", 1, credential.as_bytes());
    let consumers = [("cellar", "web", "database"), ("garage", "mail", "store")];
    let of: Vec<(&str, &str, &str, &str, &str)> = consumers
        .iter()
        .zip(passwords)
        .map(|((node, module, name), password)| (*node, *module, *name, "user", password))
        .collect();
    vault.set_consumers("all", "postgres", 1, &of);
    mesh.tester.kv_put("postgres_bound", "attic.all.postgres.database", r#"{"host":"10.0.0.2","port":5432}"#);
    let listed: Vec<Value> = consumers
        .iter()
        .map(|(node, module, name)| json!({"node":node,"module":module,"name":name}))
        .collect();
    let provider = json!({"node":"cellar","module":"postgres"});
    let needs = json!([
        {"kind":"dir","name":"state"}, {"kind":"access","name":"films"}, {"kind":"port","name":"http"},
        {"kind":"seat","name":"primary"}, {"kind":"machine","name":"zone"}, {"kind":"config","name":"db.pool"},
        {"kind":"secret","name":"key","make":{"bytes":32,"as":"hex"}},
        {"kind":"secret","name":"database","provision":"postgres","provider":provider},
        {"kind":"consumers","name":"postgres","of":listed},
        {"kind":"bound","name":"database","provision":"postgres","provider":provider},
        {"kind":"collected","name":"sites"}, {"kind":"shell","name":"zsh:normal"},
        {"kind":"environment","name":"login"}, {"kind":"contribution","name":"cron:daily"},
    ]);
    let content = "${dir:state} ${access:films} ${port:http} ${seat:primary} ${machine:zone} ${config:db.pool}\n\
        ${secret:key} ${secret:database.user}:${secret:database.password}@${bound:database.host}:${bound:database.port}\n\
        ${consumers:postgres}\n${collected:sites}\n${shell:zsh:normal}\n${environment:login}\n${contribution:cron:daily}\n${HOME}\n";
    let mut all = module(
        "all",
        &needs,
        &json!([
            {"id":"all.state","type":"directory","path":"${dir:state}"},
            {"id":"all.file","type":"file","path":"${dir:state}/all","content":content},
        ]),
        json!({"db":{"pool":12}}),
    );
    all.assignment["placement"] = json!({
        "dir":{"state":"/srv/all"},"access":{"films":"/srv/films"},"port":{"http":8080},
        "seat":{"primary":"10.0.0.9"},"machine":{"zone":"home"},
    });
    all.assignment["contributes"] = json!([
        {"collection":"sites","item":{"order":2,"site":"b"}},
        {"collection":"shell:zsh:normal","item":{"order":9,"lines":["setopt x"]}},
        {"collection":"environment:login","item":{"order":1,"lines":["A=1","B=2"]}},
        {"collection":"contribution:cron:daily","item":{"order":1,"lines":["true"]}},
    ]);
    mesh.push(&[all]);
    node.start_host();
    node.start_client();
    let list: Vec<String> = of
        .iter()
        .map(|(node, module, name, user, password)| {
            format!(r#"{{"node":"{node}","module":"{module}","name":"{name}","user":"{user}","password":"{password}"}}"#)
        })
        .collect();
    let filled = format!(
        "/srv/all /srv/films 8080 10.0.0.9 home 12\n{canary} all_database_attic:{}@10.0.0.2:5432\n[{}]\n\
         [{{\"order\":2,\"site\":\"b\"}}]\nsetopt x\nA=1\nB=2\ntrue\n${{HOME}}\n",
        passwords[0],
        list.join(",")
    );
    node.until_file("/srv/all/all", filled.as_bytes());
    for key in ["consumers.postgres", "secret.database", "contribution.cron=3Adaily"] {
        node.until_key(&mesh, NEEDS, &format!("attic.all.{key}"), |value| state(value.as_ref()) == "filled");
    }
    node.until_key(&mesh, APPLIED, "attic.all", |value| {
        let revisions = json!({"consumers:postgres": 1, "database": 1, "key": 1});
        value.is_some_and(|value| value["needs"] == 14 && value["secrets"] == revisions)
    });
    node.until_key(&mesh, REPORTS, "attic", |value| value.is_some());

    // A new password is a new revision of the list, and reaches the file.
    let third = "canary-z5t9-third-password";
    let mut newer = of.clone();
    newer[1].4 = third;
    vault.set_consumers("all", "postgres", 2, &newer);
    mesh.tester.kv_put(
        super::REVISIONS,
        "attic.all.consumers=3Apostgres",
        r#"{"revision":2,"origin":"made","recovery":null}"#,
    );
    node.until_file("/srv/all/all", filled.replace(passwords[1], third).as_bytes());
    leaves_no_trace(&mesh, &node, &[&canary, passwords[0], passwords[1], third]);
}

fn leaves_no_trace(mesh: &Mesh, node: &Node, secrets: &[&str]) {
    for bucket in BUCKETS {
        for key in mesh.tester.kv_keys(bucket) {
            let stored = mesh.tester.kv_get(bucket, &key).map(|stored| stored.value).unwrap_or_default();
            assert_eq!(found(&stored, secrets), None, "{bucket} {key}");
            let sealed = bucket != REPORTS && found(&stored, &["sealed:v1"]).is_some();
            assert!(!sealed, "not even sealed: {bucket} {key}");
        }
    }
    assert_eq!(found(node.logs().as_bytes(), secrets), None, "a log");
    let mut files = Vec::new();
    for folder in ["var", "run", "etc"] {
        search(&node.root().join(folder), secrets, &mut files);
    }
    search(mesh.server.directory(), secrets, &mut files);
    assert_eq!(files, [""; 0], "a file of state or of the bus");
    for id in node.processes() {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap();
            assert_eq!(found(&bytes, secrets), None, "{file} of {id}");
        }
        let core = memory(id);
        assert!(found(&core, &[node.root().to_str().unwrap()]).is_some(), "the memory of {id} was read");
        assert_eq!(found(&core, secrets), None, "the memory of {id}");
    }
}

fn found<'s>(bytes: &[u8], needles: &[&'s str]) -> Option<&'s str> {
    needles
        .iter()
        .find(|needle| bytes.windows(needle.len()).any(|window| window == needle.as_bytes()))
        .copied()
}

fn search(folder: &Path, needles: &[&str], files: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, needles, files);
        } else if let Ok(bytes) = std::fs::read(&path)
            && found(&bytes, needles).is_some()
        {
            files.push(path.display().to_string());
        }
    }
}

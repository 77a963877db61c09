//! The schemas under `packaging/schema/mesh`: whatever the readers take keeps to them, and an unknown field breaks
//! them wherever it breaks the reader.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use mesh_model::assignment::Assignment;
use mesh_model::declaration::Declaration;
use mesh_model::digest::Digest;
use mesh_model::json::{At, Json, Read};
use mesh_model::manifest::{Manifest, check};
use mesh_model::report::Report;
use mesh_model::resource::{Draft, Resource};
use serde_json::Value;

const RESOURCES: &str = r#"[
 {"id":"a","type":"directory","path":"/a","mode":"0750","owner":"web:web"},
 {"id":"b","type":"access","path":"/b","mode":"read"},
 {"id":"c","type":"file","path":"/c","content":"x","mode":"4755","owner":"0:0","create-once":true,"encode":"json","format":"toml","in-place":true,"through-link":true,"insert":{}},
 {"id":"d","type":"file","into":"/d","content":"{}","format":"json"},
 {"id":"e","type":"file","path":"/e","bytes":"eA=="},
 {"id":"f","type":"service","unit":"f","state":"running","boot":"enabled","restart-on":["c"],"reload-on":["d"],"settle":"500ms"},
 {"id":"g","type":"package","package":"curl"},
 {"id":"h","type":"network","name":"mesh"},
 {"id":"i","type":"user","name":"web","uid":900,"group":"web","groups":["adm"],"home":"/a","shell":"/bin/sh","system":true},
 {"id":"j","type":"process","name":"web","command":["web"],"env":{"A":"b"},"user":"web","dir":"/a","restart-on":["c"],"settle":"2s","insert":{}},
 {"id":"k","type":"archive","path":"/k","source":"/b.tar","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","strip":1,"owner":"web"},
 {"id":"l","type":"container","name":"web","image":"web:2","env":{"A":"b"},"env-file":["/e"],"ports":["80:80"],"volumes":["/a:/b:ro"],"network":"mesh","hosts":{"db":"10.0.0.2"},"args":["-v"],"restart-on":["c"],"settle":"2s","stop":"10s","insert":{}},
 {"id":"m","type":"container","name":"job","image":"web:2","schedule":"0 3 * * *","zone":"Europe/Berlin","limit":"1h"},
 {"id":"n","type":"container","name":"once","image":"web:2","run-once":true},
 {"id":"o","type":"action","command":["a"],"verify":["b"],"in":"web","env":{"A":"b"},"limit":"1m","insert":{}},
 {"id":"p","type":"opening","port":"8080","protocol":"udp","from":["10.0.0.0/8"]}
]"#;

fn validator(name: &str) -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../packaging/schema/mesh/{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema["$id"], format!("urn:mesh:v1:{name}"));
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    jsonschema::draft202012::new(&schema).unwrap()
}

fn value(json: &Json) -> Value {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// `json` with each of its values replaced by others or taken away, one at a time. Not by `null`: to the readers it is
/// an absent field, and the schemas do not offer that.
fn mutated(json: &Json) -> Vec<Json> {
    let mut all: Vec<Json> =
        ["true", "1", "-1", "1.5", "70000", "\"\"", "\"x y\"", "[]", "[1]", "{}", "{\"a\":1}"]
            .map(|text| Json::parse(text).unwrap())
            .to_vec();
    match json {
        Json::List(items) => {
            for (place, item) in items.iter().enumerate() {
                for changed in mutated(item) {
                    let mut items = items.clone();
                    items[place] = changed;
                    all.push(Json::List(items));
                }
            }
        }
        Json::Object(members) => {
            for (place, (_, member)) in members.iter().enumerate() {
                for changed in mutated(member) {
                    let mut members = members.clone();
                    members[place].1 = changed;
                    all.push(Json::Object(members));
                }
                let mut fewer = members.clone();
                fewer.remove(place);
                all.push(Json::Object(fewer));
            }
        }
        _ => {}
    }
    all
}

/// `json` with a field more in each of its objects, one at a time.
fn widened(json: &Json) -> Vec<Json> {
    let mut all = Vec::new();
    match json {
        Json::List(items) => {
            for (place, item) in items.iter().enumerate() {
                for changed in widened(item) {
                    let mut items = items.clone();
                    items[place] = changed;
                    all.push(Json::List(items));
                }
            }
        }
        Json::Object(members) => {
            for (place, (_, member)) in members.iter().enumerate() {
                for changed in widened(member) {
                    let mut members = members.clone();
                    members[place].1 = changed;
                    all.push(Json::Object(members));
                }
            }
            let mut wider = members.clone();
            wider.push(("colour".into(), Json::List(vec![])));
            all.push(Json::Object(wider));
        }
        _ => {}
    }
    all
}

fn agree(schema: &str, sample: &str, takes: impl Fn(&Json) -> Result<(), String>) {
    let validator = validator(schema);
    let sample = Json::parse(sample).unwrap();
    takes(&sample).unwrap_or_else(|why| panic!("{schema}: {why}"));
    let faults: Vec<String> = validator.iter_errors(&value(&sample)).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{schema}: {faults:?}");
    let mut right = 0;
    for document in mutated(&sample) {
        if takes(&document).is_ok() {
            right += 1;
            assert!(
                validator.is_valid(&value(&document)),
                "the reader takes, and the schema does not: {document}"
            );
        }
    }
    assert!(right > 10, "the changes leave something right");
    for document in widened(&sample) {
        assert_eq!(takes(&document).is_ok(), validator.is_valid(&value(&document)), "{document}");
    }
}

fn resources(drafts: &[Draft]) -> Result<(), String> {
    for draft in drafts {
        Resource::read(draft.json(), &At::Root).map_err(|problem| format!("{}: {problem}", draft.id()))?;
    }
    Ok(())
}

#[test]
fn manifests() {
    let sample = format!(
        r#"{{"module":"web","version":"2.4.1","description":"d","resources":{RESOURCES},
        "ports":{{"http":{{"protocol":"tcp","fixed":null}},"dns":{{"protocol":"udp","fixed":53}}}},
        "dirs":{{"state":{{"mode":"0750","owner":"web"}}}},"accesses":{{"films":{{"mode":"read"}}}},
        "secrets":{{"key":{{"make":{{"bytes":32,"as":"base64url"}}}},"token":{{"accept":true}}}},
        "settings":{{"schema":{{}},"defaults":{{"a":1}}}},"requires":{{"database":{{"provision":"postgres"}}}},
        "provides":["site"],"reads":["shell:zsh:normal"],"contributes":{{"shell:zsh:normal":{{"order":5,"lines":["x"]}}}},
        "seats":{{"holds":["primary"],"asks":[],"replicated":[]}},"emits":["web.x"],"consumes":["db.x"],
        "runs-as":"web","data":{{"keeps":"sessions","worth":"low"}}}}"#
    );
    agree("manifest", &sample, |json| {
        let manifest = Manifest::read(json, &At::Root).map_err(|problem| problem.to_string())?;
        match check(&manifest).problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(()),
        }
    });
}

#[test]
fn assignments() {
    let sample = format!(
        r#"{{"module":"web","version":"2.4.1","needs":[{{"kind":"secret","name":"k","make":{{"bytes":32,"as":"hex"}},"accept":true,"weight":1.5}},
        {{"kind":"bound","name":"db","provision":"postgres","provider":{{"node":"n","module":"m"}},"of":[{{"node":"n","module":"m","name":"x"}}]}}],
        "contributes":[{{"collection":"shell:zsh:normal","item":{{"lines":[]}}}}],
        "placement":{{"dir":{{"state":"/a"}},"access":{{"films":"/b"}},"port":{{"http":80}},"seat":{{"primary":"h"}},"machine":{{"name":"n"}}}},
        "resources":{RESOURCES}}}"#
    );
    agree("assignment", &sample, |json| {
        let assignment = Assignment::read(json, &At::Root).map_err(|problem| problem.to_string())?;
        resources(&assignment.resources)
    });
}

#[test]
fn declarations() {
    let (digest, vault) = (Digest::of(b"x"), nkeys::XKey::new().public_key());
    let sample = format!(
        r#"{{"mesh":"m","node":"attic","sequence":17,"fence":3,"at":"now","vault":"{vault}",
        "modules":[{{"module":"web","assignment":"{digest}","settings":"{digest}"}}],
        "adoption":{{"taken":["web"],"resources":[{{"id":"adoption.opening-ssh","type":"opening","port":22}}]}}}}"#
    );
    agree("declaration", &sample, |json| {
        let declaration = Declaration::read(json, &At::Root).map_err(|problem| problem.to_string())?;
        resources(declaration.adoption.as_ref().map_or(&[], |adoption| &adoption.resources))
    });
}

#[test]
fn reports() {
    let digest = Digest::of(b"x");
    let outcome = r#"{"module":"web","id":"web.a","type":"file","target":"/a","word":"failed","cause":"c","detail":"d","from":"1","to":"2","asked":"stat","ms":3}"#;
    let sample = format!(
        r#"{{"v":1,"sequence":17,"fence":3,"changed":true,"gated":false,"totals":{{"not-answered":2}},
        "modules":{{"web":{{"state":"failed","why":"w","assignment":"{digest}","resources":5,"changed":1}}}},
        "first_failure":{outcome},"outcomes":[{outcome}],
        "facts":{{"arch":"x86_64","service_manager":"systemd 252","runtime":null,"package_manager":"apt","firewall":null,"ports_held":[{{"port":80,"id":"web.a"}}],"ephemeral":[32768,60999]}},
        "schedules":[{{"id":"web.b","next":"n","last":null,"well":true,"skipped":0}}]}}"#
    );
    agree("report", &sample, |json| {
        let report = Report::parse(json.to_string().as_bytes())?;
        let written = Json::parse(&serde_json::to_string(&report).unwrap()).unwrap();
        // A list where an object belongs is read field by field, and nobody writes it.
        if alike(json, &written) { Ok(()) } else { Err("read as something else".into()) }
    });
}

/// Whether what stands in both has the same kinds of values.
fn alike(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(members), Json::Object(_)) => {
            members.iter().all(|(name, member)| b.get(name).is_none_or(|other| alike(member, other)))
        }
        (Json::List(x), Json::List(y)) => x.iter().zip(y).all(|(x, y)| alike(x, y)),
        _ => a.kind() == b.kind(),
    }
}

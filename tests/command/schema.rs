//! The schemas under `packaging/schema`: real requests, answers and stored values keep to them, wrong ones do not.

use crate::support::accounts::READER;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::seat::KINDS;
use crate::support::setup::Setup;
use crate::support::verb::AsksTheSeat;
use jsonschema::{Registry, Validator};
use mesh_model::object::Object;
use mesh_model::registry::{ENTRIES, is_entry_of};
use mesh_provisioner_api::reason::Reason;
use mesh_provisioner_api::request::{Ask, What};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// The validators by the names of their files.
static SCHEMAS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let schemas = schemas();
    let mut registry = Registry::new();
    for schema in schemas.values() {
        registry = registry.add(id(schema), schema).expect("a schema's id");
    }
    let registry = registry.prepare().expect("schemas that refer to each other alone");
    let validator = |schema: &Value| {
        jsonschema::options().with_registry(&registry).build(schema).expect("a schema of draft 2020-12")
    };
    schemas.iter().map(|(name, schema)| (name.clone(), validator(schema))).collect()
});

fn schemas() -> BTreeMap<String, Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/schema");
    let files = fs::read_dir(&directory).expect("packaging/schema").map(|file| file.expect("a file").path());
    // Below it are those of the mesh's own documents, which the tests of mesh-model hold.
    let files = files.filter(|path| path.is_file());
    let schema = |path: &Path| {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(path).expect("a file");
        (name, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    files.map(|path| schema(&path)).collect()
}

fn id(schema: &Value) -> &str {
    schema["$id"].as_str().expect("an id")
}

/// What a schema finds wrong with a document.
fn faults(schema: &str, document: &Value) -> Vec<String> {
    let validator = SCHEMAS.get(schema).unwrap_or_else(|| panic!("no schema {schema}"));
    validator.iter_errors(document).map(|fault| format!("{fault} at {}", fault.instance_path())).collect()
}

#[track_caller]
pub(super) fn keeps_to(schema: &str, document: &Value) {
    let faults = faults(schema, document);
    assert!(faults.is_empty(), "{schema}: {faults:#?} in {document:#}");
}

#[track_caller]
fn breaks(schema: &str, document: &Value) {
    assert!(!faults(schema, document).is_empty(), "{schema} takes {document:#}");
}

#[test]
fn each_schema_is_one_and_is_called_as_its_file() {
    for (name, schema) in schemas() {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        assert_eq!(id(&schema), format!("urn:mesh:io.mesh.provisioner.v1.{name}"));
        jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        if name.ends_with("_response") {
            let r#type = format!("io.mesh.provisioner.v1.{name}");
            assert_eq!(schema["properties"]["type"]["const"], r#type);
        }
    }
    for what in What::ALL {
        assert!(SCHEMAS.contains_key(&format!("{}_response", what.word())), "{what:?}");
    }
    let reasons = &schemas()["error_response"]["properties"]["error"]["properties"]["reason"]["enum"];
    assert_eq!(*reasons, json!(Reason::ALL.map(Reason::word)));
}

#[test]
fn a_request_keeps_to_its_schema_exactly_if_the_seat_takes_it() {
    let long = "x".repeat(256);
    let values = [
        json!("a"),
        json!("*"),
        json!(""),
        json!("a\nb"),
        json!("\u{2028}"),
        json!(long),
        json!(0),
        json!(1),
        json!(10_000),
        json!(10_001),
        json!(-1),
        json!(null),
        json!(true),
        json!(["a"]),
    ];
    let fields = ["node", "module", "kind", "collection", "limit", "after", "stale_after", "contributor"];
    let mut tried = 0;
    let mut taken = 0;
    for what in What::ALL.map(|what| Some(what.word())).into_iter().chain([None, Some("everything")]) {
        let plain = what.map_or_else(|| json!({}), |what| json!({"what": what}));
        for field in fields {
            for value in &values {
                let mut request = plain.clone();
                request[field] = value.clone();
                let parsed = Ask::parse(request.to_string().as_bytes());
                let faults = faults("request", &request);
                assert_eq!(parsed.is_ok(), faults.is_empty(), "{request}: {parsed:?}, {faults:?}");
                tried += 1;
                taken += usize::from(parsed.is_ok());
            }
        }
        assert_eq!(Ask::parse(plain.to_string().as_bytes()).is_ok(), faults("request", &plain).is_empty());
    }
    assert!(taken > 100 && tried > 2 * taken, "{taken} of {tried}");
    for wrong in [json!([]), json!("needs"), json!(null), json!({"what": 1})] {
        breaks("request", &wrong);
    }
}

#[test]
fn a_registry_value_keeps_to_its_schema_exactly_if_it_is_one() {
    for entry in &ENTRIES {
        keeps_to("registry_value", &serde_json::from_str(&entry.to_json()).unwrap());
    }
    for other in [
        json!({"kind": "k", "domain": "d", "module": "m"}),
        json!({"kind": "k", "domain": "d", "module": "m", "verb": 1}),
        json!({"kind": "k", "domain": "d", "module": "m", "verb": "v", "bucket": "b", "key": "k"}),
        json!({"kind": "k", "domain": "d", "module": "m", "bucket": "b"}),
        json!({"kind": "k", "domain": "d", "module": "m", "verb": "v", "owner": "o"}),
        json!(["k"]),
    ] {
        let text = other.to_string();
        let ours = Object::parse(text.as_bytes()).is_ok_and(|object| is_entry_of("k", &object));
        assert!(!ours, "{other}");
        breaks("registry_value", &other);
    }
}

/// A mesh with good keys, malformed ones, and values that are not JSON.
fn mesh() -> Mesh {
    let mesh = Mesh::start_on(Setup::shipped().append("max_payload: 65536").start(), &[]);
    let tester = mesh.tester();
    for (key, value) in [
        ("attic.web.port.http", r#"{"port":8080}"#),
        ("attic.web.shell.zsh:normal".replace(':', "=3A").as_str(), "null"),
        ("attic.web.licence.x", "1"),
        ("a=2Eb.db.collected.sites", "not json"),
        ("attic.web.port", "{}"),
        ("attic.=61.port.http", "{}"),
    ] {
        tester.kv_put(NEEDS, key, value);
    }
    tester.kv_put(NEEDS, "attic.web.config.bytes", b"\xff\xfe");
    tester.kv_put(NEEDS, b"attic.web.\xff.x", "{}");
    tester.kv_put(NEEDS, "attic.web.config.large", "x".repeat(60_000));
    tester.kv_put(APPLIED, "attic.web", r#"{"version":"1"}"#);
    tester.kv_put(APPLIED, "orphan.web", "");
    tester.kv_put(COLLECT, "attic.shell=3Azsh=3Anormal.web", "[]");
    tester.kv_put(COLLECT, "attic.unread.web", "[]");
    tester.kv_put(REGISTRY, "strange", "[1]");
    tester.kv_put(REGISTRY, "other", r#"{"kind":"other","domain":"d","module":"m","verb":"m.v","more":1}"#);
    mesh
}

#[test]
fn real_answers_keep_to_their_schemas_and_changed_ones_do_not() {
    let mesh = mesh();
    let reader = mesh.reader();
    for what in What::ALL {
        let word = what.word();
        let schema = format!("{word}_response");
        let mut asks = vec![json!({"what": word})];
        if what != What::Health {
            asks.push(json!({"what": word, "limit": 1}));
        }
        if what == What::Nodes {
            asks.push(json!({"what": word, "stale_after": 3600}));
        }
        for ask in asks {
            let answer = reader.ask(&ask).good();
            let answer = answer.body();
            keeps_to(&schema, answer);
            keeps_to("response", answer);
            let entries = answer["entries"].as_array().map_or(1, Vec::len);
            assert!(entries > 0, "{word} has nothing to look at");
            for changed in changes(answer) {
                breaks(&schema, &changed);
            }
        }
    }
}

#[test]
fn error_answers_keep_to_theirs() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    mesh.admin().delete_bucket(NEEDS);
    for (body, code) in [
        (json!({"what": "everything"}).to_string(), 400),
        ("x".repeat(70_000), 413),
        (json!({"what": "needs"}).to_string(), 503),
    ] {
        let answer = reader.ask_bytes(body);
        answer.expect_error(code);
        keeps_to("error_response", answer.body());
        keeps_to("response", answer.body());
        for changed in changes(answer.body()) {
            breaks("error_response", &changed);
        }
    }
}

#[test]
fn ask_json_prints_what_keeps_to_the_schema() {
    let mesh = mesh();
    let finished = Program::new(&["ask", "registry", "--json"]).server(&mesh.server).account(&READER).run();
    let answer: Value = serde_json::from_str(&finished.expect_code(0).stdout).unwrap();
    keeps_to("registry_response", &answer);
    assert!(answer["entries"].as_array().unwrap().len() > KINDS);
}

/// The document with one thing wrong, for each thing that a schema must see: a field too many in every object, and a
/// field of another type.
fn changes(document: &Value) -> Vec<Value> {
    let mut changes = Vec::new();
    for pointer in objects(document, "") {
        // What is stored under a key is its owner's: anything at all.
        if pointer.ends_with("/value") || pointer.contains("/value/") {
            continue;
        }
        let mut broken = document.clone();
        broken.pointer_mut(&pointer).unwrap()["surplus"] = json!(1);
        changes.push(broken);
        let fields: Vec<String> =
            document.pointer(&pointer).unwrap().as_object().unwrap().keys().cloned().collect();
        for field in fields.into_iter().filter(|field| field != "value") {
            let mut broken = document.clone();
            broken.pointer_mut(&pointer).unwrap()[&field] = json!({"of": ["another type"]});
            changes.push(broken);
        }
    }
    let top: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
    for field in top.into_iter().filter(|field| field != "next") {
        let mut broken = document.clone();
        broken.as_object_mut().unwrap().remove(&field);
        changes.push(broken);
    }
    changes
}

/// The JSON pointers of all objects in the document.
fn objects(document: &Value, pointer: &str) -> Vec<String> {
    let inner = |(field, value): (String, &Value)| objects(value, &format!("{pointer}/{field}"));
    match document {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(field, value)| (field.clone(), value));
            [pointer.to_owned()].into_iter().chain(fields.flat_map(inner)).collect()
        }
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(at, value)| (at.to_string(), value));
            items.flat_map(inner).collect()
        }
        _ => Vec::new(),
    }
}

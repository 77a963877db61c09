use super::*;

fn read(text: &str) -> Resource {
    Resource::from_json_bytes(text.as_bytes()).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn problem(text: &str) -> String {
    Resource::from_json_bytes(text.as_bytes()).expect_err(text).to_string()
}

/// A resource of each kind with every field that it has.
const FULL: [&str; 14] = [
    r#"{"id":"a","type":"directory","path":"/a","mode":"0750","owner":"web:web"}"#,
    r#"{"id":"a","type":"access","path":"/a","mode":"read"}"#,
    r#"{"id":"a","type":"file","path":"/a","content":"x","mode":"4755","owner":"0:0","create-once":true,
        "encode":"json","format":"toml","in-place":true,"through-link":true,"insert":{"config:db":"env"}}"#,
    r#"{"id":"a","type":"file","into":"/a","content":"{}","format":"json"}"#,
    r#"{"id":"a","type":"service","unit":"a","state":"running","boot":"enabled","restart-on":["b"],
        "reload-on":["web.c"],"settle":"500ms"}"#,
    r#"{"id":"a","type":"package","package":"curl"}"#,
    r#"{"id":"a","type":"network","name":"mesh"}"#,
    r#"{"id":"a","type":"user","name":"web","uid":900,"group":"web","groups":["adm"],"home":"/a","shell":"/bin/sh",
        "system":true}"#,
    r#"{"id":"a","type":"process","name":"web","command":["web"],"env":{"A":"${secret:x}"},"user":"web","dir":"/a",
        "restart-on":["b"],"settle":"2s","insert":{}}"#,
    r#"{"id":"a","type":"archive","path":"/a","source":"/b.tar",
        "sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","strip":1,"owner":"web"}"#,
    r#"{"id":"a","type":"container","name":"web","image":"web:2","env":{"A":"b"},"env-file":["/e"],"ports":["80:80"],
        "volumes":["/a:/b:ro"],"network":"mesh","hosts":{"db":"10.0.0.2"},"args":["-v"],"restart-on":["b"],
        "settle":"2s","stop":"10s","insert":{"config:db":"json"}}"#,
    r#"{"id":"a","type":"container","name":"web","image":"web:2","schedule":"0 3 * * *","zone":"Europe/Berlin",
        "limit":"1h"}"#,
    r#"{"id":"a","type":"action","command":["a"],"verify":["b"],"in":"web","env":{"A":"b"},"limit":"1m","insert":{}}"#,
    r#"{"id":"a","type":"opening","port":"8080","protocol":"udp","from":["10.0.0.0/8"]}"#,
];

#[test]
fn every_kind_is_read_with_all_of_its_fields() {
    let kinds: std::collections::BTreeSet<Kind> = FULL.iter().map(|text| read(text).kind()).collect();
    assert_eq!(kinds.len(), Kind::ALL.len());
}

#[test]
fn no_kind_takes_an_unknown_field_or_one_that_stands_twice() {
    for text in FULL {
        let unknown = text.replacen('{', r#"{"colour":"red","#, 1);
        assert!(
            problem(&unknown).starts_with("colour: unknown field; known are id, type"),
            "{}",
            problem(&unknown)
        );
        let twice = text.replacen('{', r#"{"id":"a","#, 1);
        assert_eq!(problem(&twice), "id: this name stands twice");
    }
}

#[test]
fn no_field_takes_another_type() {
    for text in FULL {
        let Json::Object(members) = Json::parse(text).unwrap() else { unreachable!() };
        for (place, (name, _)) in members.iter().enumerate() {
            let mut changed = members.clone();
            changed[place].1 = Json::Number("1.5".into());
            let problem = Resource::read(&Json::Object(changed), &At::Root).expect_err(name);
            assert_eq!(&problem.path, name, "{text}");
        }
    }
}

#[test]
fn an_unknown_kind_is_told_with_the_nearest() {
    assert_eq!(
        problem(r#"{"id":"a","type":"contaner"}"#),
        "type: \"contaner\" is not a type of resource; nearest known: container"
    );
}

#[test]
fn files_say_one_place_and_one_content() {
    let of = |rest: &str| problem(&format!(r#"{{"id":"a","type":"file",{rest}}}"#));
    assert_eq!(of(r#""content":"x""#), "has neither path nor into, or both");
    assert_eq!(of(r#""path":"/a","into":"/b","content":"x""#), "has neither path nor into, or both");
    assert_eq!(of(r#""path":"/a""#), "has neither content nor bytes, or both");
    assert_eq!(of(r#""path":"/a","bytes":"eA""#), "bytes: is not padded standard base64");
    assert_eq!(of(r#""into":"/a","content":"x""#), "into: needs the format of that file: json, toml or ini");
    assert!(
        of(r#""into":"/a","content":"x","format":"json","mode":"0600""#)
            .starts_with("into: the file is the machine's")
    );
    assert!(of(r#""path":"/a","bytes":"eA==","encode":"json""#).starts_with("bytes: nothing is filled"));
    assert!(of(r#""path":"/a/../b","content":"x""#).starts_with("path: \"/a/../b\" is not a path here"));
    assert!(of(r#""path":"/a","content":"x","mode":"75""#).starts_with("mode: \"75\" is not a mode"));
    let empty = read(r#"{"id":"a","type":"file","path":"/a","content":""}"#);
    assert!(matches!(empty.what, What::File(File { content: Content::Text(text), .. }) if text.is_empty()));
}

#[test]
fn containers_run_in_one_way() {
    let of = |rest: &str| {
        problem(&format!(r#"{{"id":"a","type":"container","name":"web","image":"web",{rest}}}"#))
    };
    assert_eq!(of(r#""run-once":true,"schedule":"* * * * *""#), "run-once: stands beside a schedule");
    assert_eq!(of(r#""zone":"UTC""#), "zone: has a meaning only with a schedule");
    assert_eq!(of(r#""limit":"1s""#), "limit: has a meaning only with run-once or schedule");
    assert_eq!(of(r#""run-once":true,"settle":"1s""#), "settle: has no meaning for a container that ends");
    assert_eq!(of(r#""run-once":true,"ports":["80"]"#), "ports: a container that runs once publishes none");
    assert_eq!(of(r#""hosts":{"db":"cellar"}"#), "hosts.db: \"cellar\" is not an address");
    assert_eq!(of(r#""env":{"A-B":"x"}"#), "env.A-B: \"A-B\" is not the name of an environment variable");
    assert!(of(r#""env":{"A":"x\ny"}"#).starts_with("env.A: holds a newline"));
    assert!(of(r#""volumes":["/a:/b","x"]"#).starts_with("volumes[1]: "));
}

#[test]
fn a_container_writes_all_that_was_declared() {
    let text = FULL[10];
    let What::Container(container) = read(text).what else { unreachable!() };
    assert_eq!(
        serde_json::to_string(&container).unwrap(),
        r#"{"name":"web","image":"web:2","env":{"A":"b"},"insert":{"config:db":"json"},"env-file":["/e"],"ports":["80:80"],"volumes":["/a:/b:ro"],"network":"mesh","hosts":{"db":"10.0.0.2"},"args":["-v"],"restart-on":["b"],"settle":"2s","stop":"10s","runs":"always","limit":null}"#
    );
}

#[test]
fn targets_meet_across_kinds() {
    let target = |text: &str| read(text).target();
    let directory = target(r#"{"id":"a","type":"directory","path":"/a"}"#);
    assert_eq!(directory, target(r#"{"id":"b","type":"file","path":"/a","content":""}"#));
    assert_ne!(directory, target(r#"{"id":"b","type":"file","path":"/b","content":""}"#));
    assert!(target(FULL[5]).shared && !directory.shared);
}

#[test]
fn drafts_know_what_may_stand_where() {
    let draft = Draft::from_json_bytes(
        br#"{"id":"a","type":"container","name":"${machine:name}","env":{"A":"${secret:x}"},"args":["${port:http}"],"restart-on":["b"]}"#,
    )
    .unwrap();
    let mut seen = Vec::new();
    draft.strings(|place, text, at| seen.push((at.to_string(), place, text.to_owned())), &At::Root);
    assert!(seen.contains(&("name".into(), Place::Signed, "${machine:name}".into())));
    assert!(seen.contains(&("env.A".into(), Place::Open, "${secret:x}".into())));
    assert!(seen.contains(&("args[0]".into(), Place::Signed, "${port:http}".into())));
    assert!(seen.contains(&("restart-on[0]".into(), Place::Fixed, "b".into())));
    let filled = draft.map_strings(|_, text, _| Ok(text.replace("${port:http}", "80")), &At::Root).unwrap();
    assert_eq!(filled.get("args"), Some(&Json::List(vec![Json::text("80")])));
    assert_eq!(
        draft.below("web").json().to_string(),
        r#"{"id":"web.a","type":"container","name":"${machine:name}","env":{"A":"${secret:x}"},"args":["${port:http}"],"restart-on":["web.b"]}"#
    );
}

#[test]
fn a_process_does_not_take_a_unit_of_the_mesh_itself() {
    let process =
        |name: &str| format!(r#"{{"id":"a","type":"process","name":"{name}","command":["/bin/true"]}}"#);
    for name in
        ["host", "host-undo-1", "vault", "controller", "provisioner", "provisioner-client", "container-web"]
    {
        assert!(problem(&process(name)).contains("is taken by the mesh's own units"), "{name}");
    }
    for name in ["hosts", "web", "vault-proxy", "container"] {
        read(&process(name));
    }
}

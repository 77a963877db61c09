use super::*;
use crate::placeholder::Seen;

const WEB: &str = r#"{"module":"web","version":"2.4.1","description":"A site",
 "resources":[
  {"id":"site","type":"file","path":"${dir:state}/site.json","content":"{\"port\":${port:http},\"key\":\"${secret:session-key}\",\"db\":${config:db}}","format":"json","encode":"json","insert":{"config:db":"json"},"mode":"0640"},
  {"id":"env","type":"file","path":"${dir:state}/env","content":"DB=${bound:database.host} ${secret:database.password} ${HOME}"},
  {"id":"server","type":"container","name":"web","image":"web:2-${machine:arch}","ports":["${port:http}:80"],"volumes":["${access:films}:/films:ro","${dir:state}/site.json:/site.json"],"env-file":["${dir:state}/env"],"restart-on":["site","dir-state"]}
 ],
 "ports":{"http":{"protocol":"tcp","fixed":null}},
 "dirs":{"state":{"mode":"0750","owner":"web"}},
 "accesses":{"films":{"mode":"read"}},
 "secrets":{"session-key":{"make":{"bytes":32,"as":"base64url"}},"api-token":{"accept":true}},
 "settings":{"schema":{"type":"object","properties":{"db":{"type":"object","properties":{"pool":{"type":"integer"}}}}},"defaults":{"db":{"pool":5}}},
 "requires":{"database":{"provision":"postgres"}},
 "provides":["site"],
 "reads":["shell:zsh:normal"],
 "contributes":{"shell:zsh:normal":{"order":50,"lines":["alias weblog='journalctl -fu web' # ${port:http} ${config:db.pool}"]}},
 "seats":{"holds":["primary"],"asks":[],"replicated":[]},
 "emits":["web.events.>"],"consumes":["db.events.>"],
 "runs-as":"web","data":{"keeps":"sessions","worth":"low"}}"#;

fn manifest(text: &str) -> Manifest {
    Manifest::from_json_bytes(text.as_bytes()).unwrap_or_else(|problem| panic!("{problem}: {text}"))
}

fn judged(from: &str, to: &str) -> Judged {
    assert!(WEB.contains(from), "{from}");
    check(&manifest(&WEB.replacen(from, to, 1)))
}

/// The problems after one change, as lines.
fn problems(from: &str, to: &str) -> Vec<String> {
    judged(from, to).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_manifest_with_everything_is_right() {
    assert_eq!(judged("web", "web"), Judged::default());
    assert!(look_alikes(WEB, &manifest(WEB)).is_empty());
    assert!(check(&manifest(r#"{"module":"a","version":"1"}"#)).problems.is_empty());
}

#[test]
fn needs_are_what_resources_use() {
    let needs = manifest(WEB).needs();
    let text: Vec<String> = needs.iter().map(|need| serde_json::to_string(need).unwrap()).collect();
    assert_eq!(
        text,
        [
            r#"{"kind":"access","name":"films"}"#,
            r#"{"kind":"bound","name":"database","provision":"postgres"}"#,
            r#"{"kind":"config","name":"db"}"#,
            r#"{"kind":"dir","name":"state"}"#,
            r#"{"kind":"machine","name":"arch"}"#,
            r#"{"kind":"port","name":"http"}"#,
            r#"{"kind":"secret","name":"database","provision":"postgres"}"#,
            r#"{"kind":"secret","name":"session-key","make":{"bytes":32,"as":"base64url"}}"#,
        ]
    );
}

#[test]
fn a_host_fills_what_the_controller_scanned() {
    let manifest = manifest(WEB);
    let by_needs = crate::placeholder::Declared::by_needs(&manifest.needs());
    for draft in &manifest.resources {
        draft.strings(
            |_, text, _| {
                let here = crate::placeholder::Template::parse(text, &manifest.declared());
                assert_eq!(here, crate::placeholder::Template::parse(text, &by_needs));
            },
            &At::Root,
        );
    }
}

#[test]
fn reading_is_strict() {
    let problem = |from: &str, to: &str| {
        assert!(WEB.contains(from), "{from}");
        Manifest::from_json_bytes(WEB.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    assert_eq!(problem("\"runs-as\"", "\"run-as\""), "run-as: unknown field; nearest known: runs-as");
    assert_eq!(problem("\"fixed\":null", "\"fixed\":0"), "ports.http.fixed: is 0, which is not a port");
    assert_eq!(
        problem("\"accept\":true", "\"accept\":false"),
        "secrets.api-token: says neither make nor \"accept\":true, or both"
    );
    assert_eq!(
        problem("\"worth\":\"low\"", "\"worth\":\"lo\""),
        "data.worth: \"lo\" is not a worth; nearest known: low"
    );
    assert_eq!(
        problem("\"type\":\"integer\"", "\"typ\":\"integer\""),
        "settings.schema.properties.db.properties.pool.typ: unknown keyword; nearest known: type"
    );
    assert_eq!(
        problem("\"provides\"", "\"prepare\":{},\"provides\""),
        "prepare: is reserved for a later version"
    );
    assert_eq!(problem("\"holds\"", "\"hold\""), "seats.hold: unknown field; nearest known: holds");
    assert_eq!(
        problem("\"mode\":\"read\"", "\"mode\":\"reed\""),
        "accesses.films.mode: \"reed\" is not a mode of an access; nearest known: read"
    );
    assert_eq!(
        problem("\"id\":\"site\"", "\"id\":\"Site\""),
        "resources[0].id: \"Site\" is not an id ([a-z0-9][a-z0-9-]{0,63})"
    );
}

#[test]
fn names_are_checked() {
    assert!(
        problems("\"module\":\"web\"", "\"module\":\"mesh-web\"")[..]
            .iter()
            .any(|p| p == "module: \"mesh-web\" is a name of the mesh's own")
    );
    assert!(
        problems("\"module\":\"web\"", "\"module\":\"We b\"")
            .iter()
            .any(|p| p.starts_with("module: \"We b\" is not a name"))
    );
    assert_eq!(
        problems("\"version\":\"2.4.1\"", "\"version\":\"\""),
        ["version: \"\" is not a version: 1 to 64 characters without blanks"]
    );
    assert_eq!(problems("\"api-token\"", "\"api_token\"").len(), 1);
    assert_eq!(
        problems("\"provides\":[\"site\"]", "\"provides\":[\"site\",\"site\"]"),
        ["provides[1]: \"site\" stands twice"]
    );
    assert_eq!(
        problems("\"provides\":[\"site\"]", "\"provides\":[\"joiner\"]"),
        ["provides[0]: \"joiner\" is a name of the mesh's own"]
    );
    assert_eq!(
        problems("\"api-token\":", "\"database\":"),
        ["requires.database: is a secret of the same name too, and ${secret:…} could not tell them apart"]
    );
    assert_eq!(
        problems(
            "\"http\":{\"protocol\":\"tcp\",\"fixed\":null}",
            "\"http\":{\"fixed\":80},\"other\":{\"fixed\":80}"
        ),
        ["ports.other.fixed: is the port of http too"]
    );
}

#[test]
fn k62_contributions_hold_no_value_that_a_verb_answers() {
    let problem = |line: &str| problems("alias weblog='journalctl -fu web' #", line);
    let only = "may not stand in a contribution, only dir, access, port, seat, machine and config";
    let at = "contributes.shell:zsh:normal.lines[0]";
    assert_eq!(problem("${secret:session-key}"), [format!("{at}: secret:session-key {only}")]);
    assert_eq!(problem("${bound:database.host}"), [format!("{at}: bound:database.host {only}")]);
    assert_eq!(problem("${shell:zsh:normal}"), [format!("{at}: shell:zsh:normal {only}")]);
    assert_eq!(problem("${consumers:site}"), [format!("{at}: consumers:site {only}")]);
    assert!(problem("${dir:state}${seat:primary}${machine:name}${access:films} ${HOME}").is_empty());
    assert_eq!(
        problems("\"lines\":[\"alias", "\"line\":[\"alias"),
        ["contributes.shell:zsh:normal: is neither a string nor an object with lines, which are strings"]
    );
    assert_eq!(
        problems("\"order\":50", "\"order\":\"50\""),
        ["contributes.shell:zsh:normal.order: is not a number"]
    );
}

#[test]
fn settings_keep_to_their_schema() {
    assert_eq!(
        problems("\"defaults\":{\"db\":{\"pool\":5}}", "\"defaults\":{\"db\":{\"pool\":\"5\"}}"),
        ["settings.defaults.db.pool: is a string, its type is \"integer\""]
    );
}

#[test]
fn subjects_stay_with_modules() {
    for (subject, what) in [
        ("db.x", "is not below web., where this module's subjects are"),
        (">", "it begins with a wildcard"),
        ("*.x", "it begins with a wildcard"),
        ("$SYS.x", "what begins with $ is the bus's own"),
        ("_INBOX.x", "answers go there"),
        ("_INBOX_mesh.node.x", "answers go there"),
        ("mesh-vault.secret", "what begins with mesh- is the mesh's own"),
        ("web..x", "it has an empty token"),
        ("web.>.x", "a token has a blank or a wildcard within"),
        ("web.a b", "a token has a blank or a wildcard within"),
        ("web.a*", "a token has a blank or a wildcard within"),
    ] {
        let found = problems("\"emits\":[\"web.events.>\"]", &format!("\"emits\":[\"{subject}\"]"));
        assert!(
            found.iter().any(|problem| problem.starts_with("emits[0]") && problem.contains(what)),
            "{subject}: {found:?}"
        );
        if subject != "db.x" {
            let found = problems("\"consumes\":[\"db.events.>\"]", &format!("\"consumes\":[\"{subject}\"]"));
            assert!(found.iter().any(|problem| problem.starts_with("consumes[0]")), "{subject}: {found:?}");
        }
    }
}

#[test]
fn resources_are_read_as_a_node_would_have_them() {
    let file = |field: &str| problems("\"path\":\"${dir:state}/site.json\"", field);
    assert_eq!(
        file("\"path\":\"${dir:state}/../other\""),
        ["resources[0].path: \"/var/lib/web/../other\" is not a path here: it has a component . or .."]
    );
    assert_eq!(
        file("\"path\":\"/a/${secret:session-key}\""),
        [
            "resources[0].path: secret:session-key may not stand here, only in contents and environments; here may stand dir, access, port, seat and machine"
        ]
    );
    assert!(file("\"path\":\"/a/${config:db}\"")[0].contains("config:db may not stand here"));
    assert_eq!(
        file("\"path\":\"${dir:state}\"")[..1],
        ["resources[0]: acts on /var/lib/web, as the declared directory state does"]
    );
    assert_eq!(
        file("\"path\":\"${dir:state}/env\"")[..1],
        ["resources[1]: acts on /var/lib/web/env, as site does"]
    );
    assert_eq!(
        problems("\"id\":\"env\"", "\"id\":\"site\""),
        ["resources[1].id: site is the id of resources[0] too"]
    );
    assert_eq!(
        problems("\"id\":\"env\"", "\"id\":\"web.env\""),
        ["resources[1].id: web.env has a prefix, which the controller sets"]
    );
    assert_eq!(
        problems("\"id\":\"env\"", "\"id\":\"dir-state\""),
        ["resources[1].id: dir-state is the id of a declared directory"]
    );
    assert_eq!(
        problems("\"restart-on\":[\"site\",", "\"restart-on\":[\"sit\",\"server\","),
        [
            "resources[2].restart-on[0]: no resource has the id sit; nearest known: site",
            "resources[2].restart-on[1]: is the resource itself"
        ]
    );
    assert_eq!(
        problems("\"insert\":{\"config:db\"", "\"insert\":{\"config:dc\""),
        ["resources[0].insert.config:dc: no such placeholder stands here"]
    );
    assert_eq!(
        problems("/films:ro", "/films"),
        ["resources[2].volumes[0]: the access films is for reading, so its mounts end in :ro"]
    );
    assert_eq!(problems("\"mode\":\"0640\"", "\"mode\":\"640x\"").len(), 1);
}

#[test]
fn a_file_stands_before_the_container_that_reads_it() {
    let Json::Object(mut members) = Json::parse(WEB).unwrap() else { unreachable!() };
    let Json::List(resources) = &mut members[3].1 else { unreachable!() };
    resources.rotate_right(1);
    let judged = check(&Manifest::read(&Json::Object(members), &At::Root).unwrap());
    let problems: Vec<String> = judged.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "resources[0]: reads /var/lib/web/env, which resources[2] makes later",
            "resources[0]: reads /var/lib/web/site.json, which resources[1] makes later"
        ]
    );
}

#[test]
fn what_works_and_is_hardly_meant_is_a_warning() {
    let warnings = |from: &str, to: &str| -> Vec<String> {
        judged(from, to).warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings("\"env-file\"", "\"env\":{\"KEY\":\"${secret:session-key}\"},\"env-file\""),
        [
            "resources[2].env.KEY: secret:session-key can be read by everyone who may query the container runtime; a mounted file cannot"
        ]
    );
    assert_eq!(
        warnings("\"mode\":\"0640\"", "\"mode\":\"0644\""),
        ["resources[0].mode: 0644 lets everybody see secret:session-key"]
    );
}

#[test]
fn look_alikes_have_their_line_and_column() {
    let text = WEB.replacen("${HOME}", "${port:-8080}", 1);
    let findings = look_alikes(&text, &manifest(&text));
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].line, findings[0].column), (4, 120));
    assert_eq!(findings[0].seen, Seen::LooksLike("port:-8080 is not declared".into()));
}

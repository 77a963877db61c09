use super::*;

const WEB: &str = r#"{"module":"web","version":"2.4.1","needs":[{"kind":"port","name":"http"},{"kind":"secret","name":"session-key","make":{"bytes":32,"as":"base64url"}},{"kind":"secret","name":"api-token","accept":true},{"kind":"bound","name":"database","provision":"postgres","provider":{"node":"cellar","module":"postgres"},"weight":1.50,"x":{"b":1,"a":2e400}},{"kind":"consumers","name":"web","of":[{"node":"attic","module":"shell","name":"site"}]}],"contributes":[{"collection":"shell:zsh:normal","item":{"order":50.0,"lines":["a"]}}],"placement":{"dir":{"state":"/var/lib/web"},"access":{},"port":{"http":8080},"seat":{"primary":"10.0.0.2"},"machine":{"name":"attic"}},"resources":[{"id":"web.site","type":"file","path":"${dir:state}/site.json","content":"${port:http}"}]}"#;

fn problem(text: &str) -> String {
    Assignment::from_json_bytes(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_assignment_is_written_as_it_was_read() {
    let assignment = Assignment::from_json_bytes(WEB.as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&assignment).unwrap(), WEB);
    let needs = assignment.needs.as_ref().unwrap();
    assert_eq!(needs[3].provider, Some(Provider { node: "cellar".into(), module: "postgres".into() }));
    assert_eq!(needs[3].further[1].1.at_path("a"), Some(&Json::Number("2e400".into())));
    assert_eq!(needs[4].of.as_ref().unwrap()[0].name, "site");
    assert_eq!(assignment.placement.value(PlacedKind::Port, "http").as_deref(), Some("8080"));
    assert_eq!(assignment.placement.value(PlacedKind::Dir, "cache"), None);
}

#[test]
fn absent_needs_are_told_from_empty_ones() {
    let of = |needs: &str| {
        let text = format!(r#"{{"module":"web","version":"1"{needs}}}"#);
        Assignment::from_json_bytes(text.as_bytes()).unwrap().needs
    };
    assert_eq!((of(""), of(r#","needs":[]"#)), (None, Some(Vec::new())));
}

#[test]
fn what_is_wrong_in_an_assignment_is_told_with_its_place() {
    for (from, to, what) in [
        (r#""needs":"#, r#""need":"#, "need: unknown field; nearest known: needs"),
        (r#""bytes":32"#, r#""bytes":8"#, "needs[1].make.bytes: 8 is not from 16 to 1024"),
        (
            r#""as":"base64url""#,
            r#""as":"base32""#,
            "needs[1].make.as: \"base32\" is not a way to write a secret; nearest known: base64",
        ),
        (r#""kind":"port""#, r#""kind":"Port""#, "needs[0].kind: \"Port\" is not a kind ([a-z]+)"),
        (r#""name":"http""#, r#""name":"""#, "needs[0].name: is not the name of a placeholder"),
        (r#""http":8080"#, r#""http":"8080""#, "placement.port.http: is a string where a number belongs"),
        (r#""seat":"#, r#""seats":"#, "placement.seats: unknown field; nearest known: seat"),
        (
            r#""id":"web.site""#,
            r#""id":"web.s.t""#,
            "resources[0].id: \"web.s.t\" is not an id ([a-z0-9][a-z0-9-]{0,63})",
        ),
        (
            r#""provider":{"#,
            r#""provider":{"zone":"a","#,
            "needs[3].provider.zone: unknown field; known are node, module",
        ),
    ] {
        assert!(WEB.contains(from), "{from}");
        assert_eq!(problem(&WEB.replacen(from, to, 1)), what);
    }
}

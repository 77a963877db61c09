use super::*;
use crate::json::Json;
use crate::resource::{Encode, Insert};
use proptest::prelude::*;

fn declared(keys: &[&str]) -> Declared {
    let mut declared = Declared::default();
    for key in keys {
        let (kind, name) = key.split_once(':').unwrap();
        declared.add(kind, name);
    }
    declared
}

/// Fills `text` where each declared placeholder has the value beside it.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let declared = declared(&values.iter().map(|(key, _)| *key).collect::<Vec<_>>());
    let template = Template::parse(text, &declared);
    let value_of = |placeholder: Placeholder<'_>| {
        let (_, value) = values.iter().find(|(key, _)| *key == placeholder.key)?;
        Some((Value::Bytes(value.as_bytes()), Insertion::default()))
    };
    String::from_utf8(template.look_up(value_of).unwrap().to_bytes()).unwrap()
}

/// How one JSON value is written where its placeholder stands.
fn insert(json: &str, insert: Option<Insert>, encode: Option<Encode>) -> Result<String, NotFilled> {
    let json = Json::parse(json).unwrap();
    let declared = declared(&["config:db"]);
    let template = Template::parse("${config:db}", &declared);
    let filling = template.look_up(|_| Some((Value::Json(&json), Insertion { insert, encode })));
    let filling = filling.map_err(|unfilled| unfilled[0].why)?;
    let bytes = filling.to_bytes();
    assert_eq!(bytes.len(), filling.len());
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn shell_text_stays() {
    let text = "${port:-8080} ${dir:=/x} ${secret:?e} ${HOME} ${a.b} ${secret:db ${} ${:} ${secret:} $ $$ $${ ${shell:0:3} ${port:http\n}";
    assert_eq!(fill(text, &[("port:http", "1"), ("secret:db", "2")]), text);
}

#[test]
fn one_dollar_is_taken() {
    let values = &[("secret:db", "x")];
    for (text, filled) in [
        ("${secret:db}", "x"),
        ("$${secret:db}", "${secret:db}"),
        ("$$${secret:db}", "$${secret:db}"),
        ("$$$${secret:db}", "$$${secret:db}"),
        ("$${secret:other} $$ $$$", "$${secret:other} $$ $$$"),
        ("${secret:db}${secret:db}$${secret:db}$", "xx${secret:db}$"),
        ("a$${secret:db}${secret:db}", "a${secret:db}x"),
    ] {
        assert_eq!(fill(text, values), filled);
    }
}

#[test]
fn the_scanner_goes_on_one_byte_after_the_dollar_of_what_is_none() {
    assert_eq!(fill("${a:${port:http}}", &[("port:http", "80")]), "${a:80}");
    assert_eq!(fill("${port:${port:http}", &[("port:http", "80")]), "${port:80");
}

#[test]
fn what_is_inserted_is_never_read_again() {
    let values =
        &[("config:motto", "${secret:db}"), ("secret:a", "${secret:"), ("secret:db", "!"), ("secret:c", "$")];
    assert_eq!(fill("${config:motto}", values), "${secret:db}");
    assert_eq!(fill("${secret:a}db}", values), "${secret:db}");
    assert_eq!(fill("${secret:c}{secret:db}", values), "${secret:db}");
    assert_eq!(fill("${secret:c}${secret:db}", values), "$!");
}

#[test]
fn values_are_bytes() {
    let declared = declared(&["secret:key"]);
    let template = Template::parse("<${secret:key}>", &declared);
    let all: Vec<u8> = (0..=255).collect();
    let filling = template.look_up(|_| Some((Value::Bytes(&all), Insertion::default()))).unwrap();
    assert_eq!(filling.to_bytes(), [b"<", &all[..], b">"].concat());
    let json = Insertion { encode: Some(Encode::Json), insert: None };
    let refused = template.look_up(|_| Some((Value::Bytes(&all), json))).err().unwrap();
    assert_eq!(refused[0].to_string(), "secret:key: is not UTF-8, which no JSON string can hold");
    let shell = Insertion { encode: Some(Encode::Shell), insert: None };
    assert!(template.look_up(|_| Some((Value::Bytes(b"a\0"), shell))).is_err());
    assert_eq!(
        template.look_up(|_| Some((Value::Bytes(b"a'b\xFF"), shell))).unwrap().to_bytes(),
        b"<'a'\\''b\xFF'>"
    );
}

#[test]
fn null_is_missing_and_an_empty_text_is_a_value() {
    assert_eq!(insert("null", None, None), Err(NotFilled::Missing));
    assert_eq!(insert("\"\"", None, None).as_deref(), Ok(""));
    assert_eq!(insert("[]", None, None).as_deref(), Ok("[]"));
    assert_eq!(insert("\"\"", None, Some(Encode::Shell)).as_deref(), Ok("''"));
}

#[test]
fn each_missing_value_is_named_once() {
    let declared = declared(&["secret:a", "secret:b"]);
    let template = Template::parse("${secret:b}${secret:a}${secret:b}", &declared);
    let unfilled = template.look_up(|_| None).err().unwrap();
    assert_eq!(
        unfilled.iter().map(|unfilled| unfilled.key.as_str()).collect::<Vec<_>>(),
        ["secret:b", "secret:a"]
    );
}

#[test]
fn numbers_go_in_digit_for_digit() {
    for digits in ["1.10", "1e400", "100000000000000000000000000000", "-0"] {
        assert_eq!(insert(digits, Some(Insert::Toml), None).as_deref(), Ok(digits));
    }
}

#[test]
fn objects_and_lists_as_the_resource_says() {
    let db = r#"{"host":"a\"b\n","pool":1.10,"tags":["x",true],"my key":{"a":[]},"e":{}}"#;
    let of = |way| insert(db, Some(way), None);
    assert_eq!(insert(db, None, None).as_deref(), Ok(db));
    assert_eq!(of(Insert::Json).as_deref(), Ok(db));
    let toml = of(Insert::Toml).unwrap();
    assert_eq!(
        toml,
        "host = \"a\\\"b\\n\"\npool = 1.10\ntags = [\"x\", true]\n\"my key\" = { a = [] }\ne = {}"
    );
    assert!(of(Insert::Env).is_err() && of(Insert::Lines).is_err());
    assert_eq!(
        insert(r#"{"A":"x y","B":1.0,"C":false}"#, Some(Insert::Env), None).as_deref(),
        Ok("A=x y\nB=1.0\nC=false")
    );
    assert_eq!(insert(r#"["a b",1,{"c":2}]"#, Some(Insert::Lines), None).as_deref(), Ok("a b\n1\n{\"c\":2}"));
    assert_eq!(
        insert("[1,\"\\u007f\\u0001\"]", Some(Insert::Toml), None).as_deref(),
        Ok("[1, \"\\u007F\\u0001\"]")
    );
    assert_eq!(
        insert(r#"{"A":"x\ny"}"#, Some(Insert::Env), None),
        Err(NotFilled::Shape("has a member with a newline, which no variable's line can hold"))
    );
    assert!(insert("[null]", Some(Insert::Toml), None).is_err());
    assert!(insert("[9223372036854775808]", Some(Insert::Toml), None).is_err());
}

#[test]
fn encoding_comes_after_the_form() {
    assert_eq!(insert(r#"{"a":"b\n"}"#, None, Some(Encode::Json)).as_deref(), Ok(r#"{\"a\":\"b\\n\"}"#));
    assert_eq!(insert("\"it's\"", None, Some(Encode::Shell)).as_deref(), Ok("'it'\\''s'"));
    assert_eq!(insert("[\"it's\"]", Some(Insert::Lines), Some(Encode::Shell)).as_deref(), Ok("'it'\\''s'"));
}

#[test]
fn collections_have_one_order() {
    let item = |text: &str| Json::parse(text).unwrap();
    let items = [
        item(r#"{"order":50,"lines":["c"]}"#),
        item(r#"{"order":50,"lines":["d"]}"#),
        item("\"b\""),
        item(r#"{"order":-1,"lines":"a"}"#),
    ];
    let collected = |order: [usize; 4]| {
        order.map(|place| Collected { contributor: ["w", "x", "y", "z"][place], item: &items[place] })
    };
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        assert_eq!(joined(collected(order)).as_deref(), Ok("a\nb\nc\nd"));
    }
    assert_eq!(joined([]).as_deref(), Ok(""));
    assert_eq!(collect([]), Json::List(Vec::new()));
    let wrong = item(r#"{"lines":[1]}"#);
    assert_eq!(joined([Collected { contributor: "w", item: &wrong }]), Err("w"));
}

#[test]
fn lint_tells_what_is_odd() {
    let text = "${port:http} $${port:http} ${port:-8080} ${secret:?e} ${HOME} ${a.b} ${secret:db\n é${} ${:} ${secret:} ${secrt:db} ${x:-1} ${port:httpp}";
    let findings = lint(text, &declared(&["port:http"]));
    let looks = |why: &str| Seen::LooksLike(why.to_owned());
    let seen: Vec<(usize, usize, &str, Seen)> =
        findings.iter().map(|f| (f.line, f.column, f.text.as_str(), f.seen.clone())).collect();
    assert_eq!(
        seen,
        [
            (1, 1, "${port:http}", Seen::Placeholder),
            (1, 14, "$${port:http}", Seen::Escaped),
            (1, 28, "${port:-8080}", looks("port:-8080 is not declared")),
            (1, 42, "${secret:?e}", looks("secret:?e is not declared")),
            (1, 55, "${HOME} ${a.b} ${secret:db", Seen::Literal),
            (1, 63, "${a.b} ${secret:db", Seen::Literal),
            (1, 70, "${secret:db", looks("it does not end on its line")),
            (
                2,
                3,
                "${} ${:} ${secret:} ${secrt:db} ${x:-1} ${port:httpp}",
                looks("it has no kind and no name")
            ),
            (2, 7, "${:} ${secret:} ${secrt:db} ${x:-1} ${port:httpp}", looks("it has no kind and no name")),
            (2, 12, "${secret:} ${secrt:db} ${x:-1} ${port:httpp}", looks("it has no name")),
            (2, 23, "${secrt:db}", looks("there is no kind secrt; nearest known: secret")),
            (2, 35, "${x:-1}", Seen::Literal),
            (2, 43, "${port:httpp}", looks("port:httpp is not declared")),
        ]
    );
}

#[test]
fn a_text_of_dollars_is_read_in_one_pass() {
    let text = "${a:".repeat(200_000);
    assert_eq!(Template::parse(&text, &declared(&["a:b"])).parts(), [Part::Literal(&text)]);
}

/// Texts that are close to placeholders.
fn near() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("$".to_owned()),
        Just("${".to_owned()),
        Just("}".to_owned()),
        Just("port:http".to_owned()),
        Just("${port:http}".to_owned()),
        Just("${secret:db}".to_owned()),
        Just("${HOME}".to_owned()),
        Just("\n".to_owned()),
        ".{0,3}",
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_declared_changes_nothing(text in near()) {
        prop_assert_eq!(fill(&text, &[]), text);
    }

    #[test]
    fn inserting_the_placeholder_itself_changes_only_escapes(text in near()) {
        // Every byte outside of placeholders and of taken dollars is kept.
        let filled = fill(&text, &[("port:http", "${port:http}"), ("secret:db", "${secret:db}")]);
        let mut rest = text.as_bytes();
        for byte in filled.bytes() {
            while rest.first() != Some(&byte) {
                prop_assert_eq!(rest.first(), Some(&b'$'), "only dollars are taken");
                rest = &rest[1..];
            }
            rest = &rest[1..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn parts_are_the_text_but_for_taken_dollars(text in near()) {
        let declared = declared(&["port:http", "secret:db"]);
        let template = Template::parse(&text, &declared);
        let mut at = 0;
        for part in template.parts() {
            let (piece, shown) = match part {
                Part::Literal(literal) => (*literal, literal.len()),
                Part::Placeholder(placeholder) => {
                    prop_assert!(declared.has(placeholder.key));
                    (placeholder.key, placeholder.key.len() + 3)
                }
            };
            prop_assert!(!piece.is_empty());
            let start = piece.as_ptr() as usize - text.as_ptr() as usize - if matches!(part, Part::Placeholder(_)) { 2 } else { 0 };
            prop_assert!(start == at || start == at + 1 && &text[at..start] == "$");
            at = start + shown;
        }
        prop_assert_eq!(at, text.len());
    }

    #[test]
    fn a_value_appears_as_it_is_once_for_each_place(value: Vec<u8>, before in "[a-z $]{0,9}", times in 0usize..5) {
        let text = format!("{before}-${{secret:db}}").repeat(times);
        let declared = declared(&["secret:db"]);
        let template = Template::parse(&text, &declared);
        let filled = template.look_up(|_| Some((Value::Bytes(&value), Insertion::default()))).unwrap().to_bytes();
        prop_assert_eq!(filled, [format!("{before}-").as_bytes(), &value[..]].concat().repeat(times));
    }

    #[test]
    fn lint_finds_what_the_template_fills(text in near()) {
        let declared = declared(&["port:http", "secret:db"]);
        let filled = Template::parse(&text, &declared).placeholders().count();
        let found = lint(&text, &declared).iter().filter(|finding| finding.seen == Seen::Placeholder).count();
        prop_assert_eq!(filled, found);
    }

    #[test]
    fn json_inside_of_a_json_string_is_that_text(text: String) {
        let json = Json::text(&*text).to_string();
        let written = insert(&json, None, Some(Encode::Json)).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{written}\"")).unwrap(), text);
    }
}

use super::*;
use proptest::prelude::*;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn schema(text: &str) -> Schema {
    Schema::check(&json(text), &At::Root).unwrap()
}

fn problems(rules: &str, value: &str) -> Vec<String> {
    schema(rules).problems(&json(value), Asked::All).iter().map(ToString::to_string).collect()
}

#[test]
fn a_keyword_that_nothing_holds_is_refused() {
    let problem = |text: &str| Schema::check(&json(text), &At::Root).unwrap_err()[0].to_string();
    assert_eq!(problem(r#"{"maxlength":1}"#), "maxlength: unknown keyword; nearest known: maxLength");
    assert!(
        problem(r#"{"properties":{"a":{"$ref":"x"}}}"#)
            .starts_with("properties.a.$ref: unknown keyword; known are type")
    );
    assert!(problem(r#"{"items":{"pattern":"x"}}"#).starts_with("items.pattern: unknown keyword"));
    assert_eq!(problem(r#"{"type":"text"}"#), "type: is not a type, or list of types");
    assert_eq!(problem(r#"{"minLength":-1}"#), "minLength: is not a bound");
    assert_eq!(problem(r#"{"minimum":"1"}"#), "minimum: is not a bound");
    assert_eq!(problem(r#"{"required":[1]}"#), "required: is not a list of names");
    assert_eq!(problem("3"), "is a number where a schema belongs");
    let both = Schema::check(&json(r#"{"x":1,"y":2}"#), &At::Root).unwrap_err();
    assert_eq!(both.len(), 2, "all of them are told");
}

#[test]
fn what_is_wrong_in_a_schema_is_told_with_its_place() {
    let rules = r#"{"type":"object","properties":{"pool":{"type":"integer","minimum":1,"maximum":9},"tags":{"type":"array","items":{"type":"string","maxLength":2},"maxItems":2},"mode":{"enum":["a",1]},"flag":{"const":true}},"additionalProperties":false,"required":["pool"]}"#;
    assert!(problems(rules, r#"{"pool":9,"tags":["é2"],"mode":1.0,"flag":true}"#).is_empty());
    assert_eq!(problems(rules, "{}"), ["has no pool"]);
    assert_eq!(problems(rules, r#"{"pool":10}"#), ["pool: 10 is more than 9"]);
    assert_eq!(problems(rules, r#"{"pool":1.5}"#), ["pool: is a number, its type is \"integer\""]);
    assert_eq!(problems(rules, r#"{"pool":{}}"#), ["pool: is an object, its type is \"integer\""]);
    assert_eq!(
        problems(rules, r#"{"pool":1,"pol":1}"#),
        ["pol: the schema does not know it; nearest known: pool"]
    );
    assert_eq!(
        problems(rules, r#"{"pool":1,"tags":["abc"]}"#),
        ["tags[0]: has 3 characters, the bound is 2"]
    );
    assert_eq!(problems(rules, r#"{"pool":1,"tags":["a","b","c"]}"#), ["tags: has 3 items, the bound is 2"]);
    assert_eq!(
        problems(rules, r#"{"pool":1,"mode":"b","flag":1}"#),
        ["mode: is not one of [\"a\",1]", "flag: is not true"]
    );
}

#[test]
fn one_layer_may_leave_out_and_take_away() {
    let schema = schema(r#"{"properties":{"a":{"type":"string"}},"required":["a"]}"#);
    assert!(schema.problems(&json("{}"), Asked::Types).is_empty());
    assert!(schema.problems(&json(r#"{"a":null}"#), Asked::Types).is_empty());
    assert_eq!(schema.problems(&json(r#"{"a":1}"#), Asked::Types).len(), 1);
    assert_eq!(schema.problems(&json(r#"{"a":null}"#), Asked::All).len(), 1);
}

/// Schemas of the part that is understood here.
fn rules() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        prop::sample::select(&TYPES[..]).prop_map(|name| json(&format!(r#"{{"type":"{name}"}}"#))),
        (0u64..4).prop_map(|limit| json(&format!(
            r#"{{"minimum":{limit},"maxLength":{limit},"minItems":{limit}}}"#
        ))),
        (0u64..4).prop_map(|limit| json(&format!(
            r#"{{"exclusiveMaximum":{limit},"minLength":{limit},"maxItems":{limit}}}"#
        ))),
        values().prop_map(|value| Json::Object(vec![("const".into(), value)])),
        prop::collection::vec(values(), 0..3)
            .prop_map(|list| Json::Object(vec![("enum".into(), Json::List(list))])),
        any::<bool>().prop_map(Json::Bool),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| Json::Object(vec![("items".into(), items)])),
            (inner.clone(), inner, any::<bool>()).prop_map(|(a, rest, required)| {
                let required = if required { vec![Json::text("a")] } else { vec![] };
                Json::Object(vec![
                    ("properties".into(), Json::Object(vec![("a".into(), a)])),
                    ("additionalProperties".into(), rest),
                    ("required".into(), Json::List(required)),
                ])
            }),
        ]
    })
}

fn values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        prop::sample::select(vec!["0", "1", "1.0", "2.5", "-1", "3"])
            .prop_map(|digits| Json::Number(digits.into())),
        "[aé]{0,4}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::List),
            prop::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_whole_validator_says_the_same(rules in rules(), value in values()) {
        let ours = Schema::check(&rules, &At::Root).unwrap().problems(&value, Asked::All).is_empty();
        let text = |json: &Json| serde_json::from_str::<serde_json::Value>(&json.to_string()).unwrap();
        let theirs = jsonschema::validator_for(&text(&rules)).unwrap().is_valid(&text(&value));
        prop_assert_eq!(ours, theirs, "{} {}", rules, value);
    }
}

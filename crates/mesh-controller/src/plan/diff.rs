//! How two JSON documents differ, path by path. It knows no field of any document, so it forgets none.

use crate::compose::reason::Path;
use mesh_model::json::Json;

/// One place where two documents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: Path,
    /// What stood there.
    pub old: Option<Json>,
    /// What is to stand there.
    pub new: Option<Json>,
}

/// Every place where two documents differ. Empty only when both are written alike, byte for byte, as compact JSON.
pub fn diff(old: Option<&Json>, new: Option<&Json>) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), old, new, &mut found);
    if found.is_empty() && old != new {
        // A document of empty parts alone.
        found.push(Difference { path: Vec::new(), old: old.cloned(), new: new.cloned() });
    }
    found
}

fn walk(path: &mut Path, old: Option<&Json>, new: Option<&Json>, found: &mut Vec<Difference>) {
    match (old, new) {
        (None, None) => {}
        (Some(old), Some(new)) => between(path, old, new, found),
        (Some(gone), None) => whole(path, gone, &mut |path, json| {
            found.push(Difference { path, old: Some(json), new: None });
        }),
        (None, Some(come)) => whole(path, come, &mut |path, json| {
            found.push(Difference { path, old: None, new: Some(json) });
        }),
    }
}

fn between(path: &mut Path, old: &Json, new: &Json, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    let before = found.len();
    match (old, new) {
        (Json::Object(was), Json::Object(is)) => {
            members(path, was, is, found);
        }
        (Json::List(was), Json::List(is)) => {
            if let (Some(was), Some(is)) = (keys(was), keys(is)) {
                members(path, &was, &is, found);
            } else {
                members(path, &placed(was), &placed(is), found);
            }
        }
        _ => {}
    }
    // Scalars, values of two kinds, and what differs by the order of its members alone.
    if found.len() == before {
        found.push(Difference { path: path.clone(), old: Some(old.clone()), new: Some(new.clone()) });
    }
}

/// Items of a list by their places.
fn placed(items: &[Json]) -> Vec<(String, Json)> {
    items.iter().enumerate().map(|(place, item)| (format!("[{place}]"), item.clone())).collect()
}

fn members(path: &mut Path, was: &[(String, Json)], is: &[(String, Json)], found: &mut Vec<Difference>) {
    let before = found.len();
    for (name, value) in was {
        path.push(name.clone());
        walk(path, Some(value), is.iter().find(|(other, _)| other == name).map(|(_, value)| value), found);
        path.pop();
    }
    for (name, value) in is.iter().filter(|(name, _)| !was.iter().any(|(other, _)| other == name)) {
        path.push(name.clone());
        let so_far = found.len();
        walk(path, None, Some(value), found);
        if found.len() == so_far {
            found.push(Difference { path: path.clone(), old: None, new: Some(value.clone()) });
        }
        path.pop();
    }
    // A member without content that went leaves no line of its own above.
    if found.len() == before {
        for (name, value) in was.iter().filter(|(name, _)| !is.iter().any(|(other, _)| other == name)) {
            let mut gone = path.clone();
            gone.push(name.clone());
            found.push(Difference { path: gone, old: Some(value.clone()), new: None });
        }
    }
}

/// A part that came or went: each leaf, and each item of a list as one. Parts without content are not worth a line.
fn whole(path: &mut Path, json: &Json, put: &mut dyn FnMut(Path, Json)) {
    match json {
        Json::Object(members) if path.iter().all(|name| !name.starts_with('[')) => {
            for (name, value) in members {
                path.push(name.clone());
                whole(path, value, put);
                path.pop();
            }
        }
        Json::List(items) if items.is_empty() => {}
        Json::List(items) => match keys(items) {
            Some(keyed) => {
                for (name, value) in keyed {
                    path.push(name);
                    put(path.clone(), value);
                    path.pop();
                }
            }
            None => put(path.clone(), json.clone()),
        },
        _ => put(path.clone(), json.clone()),
    }
}

/// Items of a list by what names them: an id, a kind and a name, a collection. `None` where they have no such names, or two
/// have the same one.
fn keys(items: &[Json]) -> Option<Vec<(String, Json)>> {
    let mut keyed: Vec<(String, Json)> = Vec::with_capacity(items.len());
    for item in items {
        let text = |name: &str| item.get(name).and_then(Json::as_text);
        let key = match (
            text("id"),
            text("kind"),
            text("name"),
            text("collection"),
            text("node"),
            text("module"),
        ) {
            (Some(id), ..) => id.to_owned(),
            (_, Some(kind), Some(name), ..) => format!("{kind}:{name}"),
            (.., Some(collection), _, _) => collection.to_owned(),
            (_, _, Some(name), _, Some(node), Some(module)) => format!("{node}.{module}.{name}"),
            _ => return None,
        };
        let key = format!("[{key}]");
        if keyed.iter().any(|(other, _)| *other == key) {
            return None;
        }
        keyed.push((key, item.clone()));
    }
    Some(keyed)
}

/// A path as people read it: `placement.port.http`, `resources[web.site].path`.
pub fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for name in path {
        if !text.is_empty() && !name.starts_with('[') {
            text.push('.');
        }
        text.push_str(name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn lines(old: &str, new: &str) -> Vec<String> {
        let side = |json: &Option<Json>| json.as_ref().map_or("-".to_owned(), ToString::to_string);
        diff(Some(&json(old)), Some(&json(new)))
            .iter()
            .map(|found| format!("{} {} {}", shown(&found.path), side(&found.old), side(&found.new)))
            .collect()
    }

    #[test]
    fn each_changed_path_has_a_line() {
        assert_eq!(
            lines(r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1.0,"d":{"e":3}}}"#),
            ["a.b 1 1.0", "a.c 2 -", "a.d.e - 3"]
        );
        assert_eq!(
            lines(
                r#"{"r":[{"id":"x","p":1},{"id":"y"}]}"#,
                r#"{"r":[{"id":"n"},{"id":"x","p":2},{"id":"y"}]}"#
            ),
            ["r[x].p 1 2", r#"r[n] - {"id":"n"}"#]
        );
        assert_eq!(lines("[1,2]", "[1,3,4]"), ["[1] 2 3", "[2] - 4"]);
        assert_eq!(lines(r#"{"a":1}"#, r#"{"a":{"b":1}}"#), [r#"a 1 {"b":1}"#]);
    }

    #[test]
    fn order_and_emptiness_are_differences_too() {
        assert_eq!(lines(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#), [r#" {"a":1,"b":2} {"b":2,"a":1}"#]);
        assert_eq!(lines(r#"{"a":{}}"#, "{}"), ["a {} -"]);
        assert_eq!(lines("{}", r#"{"a":[]}"#), ["a - []"]);
        assert_eq!(diff(None, Some(&json("{}"))).len(), 1);
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            (0u64..4).prop_map(Json::from),
            "[ab]?".prop_map(Json::Text)
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let object =
                prop::collection::vec(("id|name|kind|[ab]", inner.clone()), 0..4).prop_map(|members| {
                    let mut unique: Vec<(String, Json)> = Vec::new();
                    for (name, value) in members {
                        if !unique.iter().any(|(other, _)| *other == name) {
                            unique.push((name, value));
                        }
                    }
                    Json::Object(unique)
                });
            prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Json::List), object]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn p01_whatever_differs_is_shown(old in any_json(), new in any_json()) {
            prop_assert_eq!(diff(Some(&old), Some(&new)).is_empty(), old == new);
            prop_assert!(diff(Some(&old), Some(&old.clone())).is_empty());
            prop_assert!(!diff(None, Some(&new)).is_empty() && !diff(Some(&old), None).is_empty());
        }
    }
}

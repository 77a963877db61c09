use std::collections::BTreeMap;

use crate::json::Json;

/// The result of merging layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// What the layers come to. Digits and the order of members are kept.
    pub value: Json,
    /// The layer that each leaf is from, by the names that lead to it.
    pub origins: BTreeMap<Vec<String>, String>,
    /// The layer that took a member away with `null`, by the names that led to it.
    pub removed: BTreeMap<Vec<String>, String>,
}

/// Merges layers, the later ones over the earlier ones: objects member by member, everything else as a whole, and
/// `null` takes a member away at any depth.
///
/// ```
/// use mesh_model::json::Json;
/// use mesh_model::settings::merge;
/// let defaults = Json::parse(r#"{"db":{"pool":5,"trace":true},"rate":1.10}"#).unwrap();
/// let node = Json::parse(r#"{"db":{"pool":9,"trace":null}}"#).unwrap();
/// let merged = merge(&[("defaults", &defaults), ("node", &node)]);
/// assert_eq!(merged.value.to_string(), r#"{"db":{"pool":9},"rate":1.10}"#);
/// assert_eq!(merged.origins[&vec!["db".to_owned(), "pool".into()]], "node");
/// assert_eq!(merged.removed[&vec!["db".to_owned(), "trace".into()]], "node");
/// ```
pub fn merge(layers: &[(&str, &Json)]) -> Merged {
    let mut root = Node::empty("");
    let mut removed = BTreeMap::new();
    for (layer, json) in layers {
        root.merge(json, layer, &mut Vec::new(), &mut removed);
    }
    let mut origins = BTreeMap::new();
    let value = root.finish(&mut Vec::new(), &mut origins);
    Merged { value, origins, removed }
}

/// A value and where it is from. An object without members is a leaf too, in the end.
enum Node {
    Leaf { json: Json, layer: String },
    Object { members: Vec<(String, Node)>, layer: String },
}

impl Node {
    fn empty(layer: &str) -> Node {
        Node::Object { members: Vec::new(), layer: layer.to_owned() }
    }

    fn merge(
        &mut self,
        change: &Json,
        layer: &str,
        path: &mut Vec<String>,
        removed: &mut BTreeMap<Vec<String>, String>,
    ) {
        let Json::Object(changes) = change else {
            *self = Node::Leaf { json: change.clone(), layer: layer.to_owned() };
            return;
        };
        if matches!(self, Node::Leaf { .. }) {
            *self = Node::empty(layer);
        }
        let Node::Object { members, .. } = self else { return };
        for (name, change) in changes {
            path.push(name.clone());
            let place = members.iter().position(|(known, _)| known == name);
            match (change, place) {
                (Json::Null, Some(place)) => {
                    members.remove(place);
                    removed.insert(path.clone(), layer.to_owned());
                }
                (Json::Null, None) => {}
                (change, place) => {
                    let place = place.unwrap_or_else(|| {
                        members.push((name.clone(), Node::empty(layer)));
                        members.len() - 1
                    });
                    removed.remove(path);
                    members[place].1.merge(change, layer, path, removed);
                }
            }
            path.pop();
        }
    }

    fn finish(self, path: &mut Vec<String>, origins: &mut BTreeMap<Vec<String>, String>) -> Json {
        match self {
            Node::Leaf { json, layer } => {
                origins.insert(path.clone(), layer);
                json
            }
            Node::Object { members, layer } => {
                if members.is_empty() && !path.is_empty() {
                    origins.insert(path.clone(), layer);
                }
                let mut finished = Vec::with_capacity(members.len());
                for (name, node) in members {
                    path.push(name.clone());
                    finished.push((name, node.finish(path, origins)));
                    path.pop();
                }
                Json::Object(finished)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn merged(layers: &[&str]) -> Merged {
        let layers: Vec<Json> = layers.iter().map(|text| json(text)).collect();
        let names = ["defaults", "mesh", "node"];
        merge(&names.iter().copied().zip(&layers).collect::<Vec<_>>())
    }

    /// RFC 7396, appendix A.
    #[test]
    fn the_standards_own_cases() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":[null]}"#, r#"{"a":1}"#, r#"{"e":[null],"a":1}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":"foo"}"#, r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#),
        ] {
            assert_eq!(merged(&[target, patch]).value.to_string(), result, "{target} {patch}");
        }
    }

    #[test]
    fn null_takes_away_at_each_layer_and_depth() {
        for text in [r#"{"a":null}"#, r#"{"a":{"b":null}}"#, r#"{"a":{"b":{"c":null}}}"#] {
            let merged = merged(&[r#"{"a":{"b":{"c":1}},"z":0}"#, text]);
            assert!(!merged.value.to_string().contains("\"c\""), "{text}: {}", merged.value);
            assert_eq!(merged.removed.values().collect::<Vec<_>>(), ["mesh"]);
        }
        let back = merged(&[r#"{"a":1}"#, r#"{"a":null}"#, r#"{"a":2}"#]);
        assert!(back.removed.is_empty());
        assert_eq!(back.origins[&vec!["a".to_owned()]], "node");
        assert!(merged(&["{}", r#"{"a":null}"#]).removed.is_empty(), "nothing was there");
    }

    #[test]
    fn every_leaf_has_its_layer() {
        let merged =
            merged(&[r#"{"a":{"x":1.10,"y":[1]},"e":{}}"#, r#"{"a":{"y":[2]}}"#, r#"{"b":1e400,"e":{}}"#]);
        assert_eq!(merged.value.to_string(), r#"{"a":{"x":1.10,"y":[2]},"e":{},"b":1e400}"#);
        let origins: Vec<(String, &str)> =
            merged.origins.iter().map(|(path, layer)| (path.join("."), layer.as_str())).collect();
        assert_eq!(
            origins,
            [
                ("a.x".into(), "defaults"),
                ("a.y".into(), "mesh"),
                ("b".into(), "node"),
                ("e".into(), "defaults")
            ]
        );
    }

    fn settings() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            (0u64..9).prop_map(Json::from),
            Just(Json::List(vec![Json::Null])),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect()))
        })
        .prop_map(|json| match json {
            Json::Object(members) => Json::Object(members),
            other => Json::Object(vec![("a".into(), other)]),
        })
    }

    /// RFC 7396, section 2, as it is written there.
    fn by_the_standard(target: &Json, patch: &Json) -> Json {
        let Json::Object(changes) = patch else { return patch.clone() };
        let mut members = match target {
            Json::Object(members) => members.clone(),
            _ => Vec::new(),
        };
        for (name, change) in changes {
            let known = members.iter().position(|(known, _)| known == name);
            match (change, known) {
                (Json::Null, Some(place)) => drop(members.remove(place)),
                (Json::Null, None) => {}
                (change, Some(place)) => members[place].1 = by_the_standard(&members[place].1, change),
                (change, None) => members.push((name.clone(), by_the_standard(&Json::Null, change))),
            }
        }
        Json::Object(members)
    }

    proptest! {
        #[test]
        fn it_is_the_standards_merge(layers in prop::collection::vec(settings(), 1..4)) {
            let named: Vec<(&str, &Json)> = layers.iter().map(|json| ("layer", json)).collect();
            let expected = layers.iter().fold(Json::Object(vec![]), |target, patch| by_the_standard(&target, patch));
            prop_assert_eq!(merge(&named).value, expected);
        }

        #[test]
        fn every_leaf_has_an_origin_and_nothing_else_has(layers in prop::collection::vec(settings(), 1..4)) {
            let named: Vec<(&str, &Json)> = layers.iter().map(|json| ("layer", json)).collect();
            let merged = merge(&named);
            let mut leaves = Vec::new();
            leaves_of(&merged.value, &mut Vec::new(), &mut leaves);
            leaves.sort();
            prop_assert_eq!(merged.origins.keys().cloned().collect::<Vec<_>>(), leaves);
        }
    }

    fn leaves_of(json: &Json, path: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) {
        match json {
            Json::Object(members) if path.is_empty() || !members.is_empty() => {
                for (name, value) in members {
                    path.push(name.clone());
                    leaves_of(value, path, leaves);
                    path.pop();
                }
            }
            _ => leaves.push(path.clone()),
        }
    }
}

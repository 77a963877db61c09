//! JSON as it was written: numbers digit for digit, members in their order, no name twice.
//!
//! Settings and resources pass through several programs, and a digest covers their bytes. So nothing here turns
//! `1.10` into `1.1`, and a document that says a name twice is refused, since two readers could take two values.

mod nearest;
mod read;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::object::Object;
pub use nearest::nearest;
pub(crate) use read::text_form;
pub use read::{At, Fields, Problem, Read};

/// How deep a document may be nested.
pub const MAX_DEPTH: usize = 64;

/// A JSON value. Two values are equal when they were written alike, spacing apart.
///
/// ```
/// use mesh_model::json::Json;
/// let json = Json::parse(r#"{"rate": 1.10, "name": "a"}"#).unwrap();
/// assert_eq!(json.to_string(), r#"{"rate":1.10,"name":"a"}"#);
/// assert!(Json::parse(r#"{"a":1,"a":2}"#).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its digits were written.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// The members of an object, in the order in which they were written. No name stands twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one document.
    pub fn parse(text: &str) -> Result<Json, Problem> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| Problem::at_root(format!("not JSON: {error}")))?;
        build(raw, &At::Root, 0)
    }

    /// Reads one document from bytes, which must be UTF-8.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Json, Problem> {
        Json::parse(std::str::from_utf8(bytes).map_err(|_| Problem::at_root("not UTF-8"))?)
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// The member `name` of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// How deep it is nested: 0 for what holds nothing else.
    pub fn depth(&self) -> usize {
        let inside = match self {
            Json::List(items) => items.iter().map(Json::depth).max(),
            Json::Object(members) => members.iter().map(|(_, value)| value.depth()).max(),
            _ => return 0,
        };
        inside.unwrap_or_default() + 1
    }

    /// The member that a dotted path leads to; an empty path leads to the value itself.
    pub fn at_path(&self, path: &str) -> Option<&Json> {
        if path.is_empty() { Some(self) } else { path.split('.').try_fold(self, |json, name| json.get(name)) }
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "true or false",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// Hands on compact JSON, piece by piece; each piece is a whole text.
    pub(crate) fn write(&self, put: &mut dyn FnMut(&str)) {
        match self {
            Json::Null => put("null"),
            Json::Bool(value) => put(if *value { "true" } else { "false" }),
            Json::Number(digits) => put(digits),
            Json::Text(text) => write_text(text, put),
            Json::List(items) => {
                put("[");
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        put(",");
                    }
                    item.write(put);
                }
                put("]");
            }
            Json::Object(members) => {
                put("{");
                for (place, (name, value)) in members.iter().enumerate() {
                    if place > 0 {
                        put(",");
                    }
                    write_text(name, put);
                    put(":");
                    value.write(put);
                }
                put("}");
            }
        }
    }
}

/// Hands on `text` as a JSON string with its quotes.
fn write_text(text: &str, put: &mut dyn FnMut(&str)) {
    put("\"");
    escape(text, put);
    put("\"");
}

/// Hands on `text` as it stands inside of a JSON string: what must be escaped is, and nothing else.
pub(crate) fn escape(text: &str, put: &mut dyn FnMut(&str)) {
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        put(&text[written..at]);
        match byte {
            b'"' => put("\\\""),
            b'\\' => put("\\\\"),
            b'\n' => put("\\n"),
            b'\r' => put("\\r"),
            b'\t' => put("\\t"),
            other => put(&format!("\\u{other:04x}")),
        }
        written = at + 1;
    }
    put(&text[written..]);
}

/// Compact JSON.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut result = Ok(());
        self.write(&mut |text| result = result.and_then(|()| f.write_str(text)));
        result
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        Json::Number(number.to_string())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::text(text)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(digits) => {
                RawValue::from_string(digits.clone()).map_err(S::Error::custom)?.serialize(serializer)
            }
            Json::Text(text) => serializer.serialize_str(text),
            Json::List(items) => serializer.collect_seq(items),
            Json::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// Reads from `serde_json` alone, which is what keeps the digits.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        build(&raw, &At::Root, 0).map_err(de::Error::custom)
    }
}

fn build(raw: &RawValue, at: &At<'_>, depth: usize) -> Result<Json, Problem> {
    let text = raw.get();
    let wrong = |error: serde_json::Error| at.problem(format!("not JSON: {error}"));
    if depth > MAX_DEPTH {
        return Err(at.problem(format!("nested deeper than {MAX_DEPTH}")));
    }
    Ok(match text.as_bytes()[0] {
        b'n' => Json::Null,
        b't' => Json::Bool(true),
        b'f' => Json::Bool(false),
        b'"' => Json::Text(serde_json::from_str(text).map_err(wrong)?),
        b'[' => {
            let items: Items<'_> = serde_json::from_str(text).map_err(wrong)?;
            let built =
                items.0.iter().enumerate().map(|(place, item)| build(item, &at.index(place), depth + 1));
            Json::List(built.collect::<Result<_, _>>()?)
        }
        b'{' => {
            let members = Object::parse(text.as_bytes()).map_err(wrong)?;
            if let Some(name) = members.repeated() {
                return Err(at.field(name).problem("this name stands twice"));
            }
            let mut built = Vec::with_capacity(members.0.len());
            for (name, value) in members.0 {
                let value = build(value, &at.field(&name), depth + 1)?;
                built.push((name, value));
            }
            Json::Object(built)
        }
        _ => Json::Number(text.to_owned()),
    })
}

/// A list, its items unread.
struct Items<'a>(Vec<&'a RawValue>);
impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?".prop_map(Json::Number),
            any::<String>().prop_map(Json::Text),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::List),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(json in json()) {
            prop_assert_eq!(&Json::parse(&json.to_string()).unwrap(), &json);
            prop_assert_eq!(serde_json::to_string(&json).unwrap(), json.to_string());
        }

        #[test]
        fn no_input_panics(text in ".{0,200}") {
            let _ = Json::parse(&text);
        }
    }

    #[test]
    fn digits_and_order_are_kept() {
        let text = r#"{"z":1.10,"a":[100000000000000000000000000001,1e400,-0],"b":"é\u0001"}"#;
        assert_eq!(Json::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_with_its_place() {
        let problem = Json::parse(r#"{"a":[{"b":1,"\u0062":2}]}"#).unwrap_err();
        assert_eq!(problem.to_string(), "a[0].b: this name stands twice");
    }

    #[test]
    fn depth_has_a_limit() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(Json::parse(&deep(MAX_DEPTH)).unwrap().depth(), MAX_DEPTH);
        assert_eq!(Json::parse(r#"[{},{"a":[[]]}]"#).unwrap().depth(), 4);
        assert!(Json::parse(&deep(MAX_DEPTH + 1)).unwrap_err().to_string().contains("nested deeper than 64"));
        assert!(Json::parse(&deep(100_000)).is_err());
    }

    #[test]
    fn a_dotted_path_leads_into_objects() {
        let json = Json::parse(r#"{"db":{"pool":5}}"#).unwrap();
        assert_eq!(json.at_path("db.pool"), Some(&Json::Number("5".into())));
        assert_eq!(json.at_path("db.none"), None);
        assert_eq!(json.at_path("db.pool.deeper"), None);
        assert_eq!(json.at_path(""), Some(&json));
    }
}

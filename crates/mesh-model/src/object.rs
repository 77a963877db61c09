//! A JSON object read field by field, with repeated fields kept: `serde`'s own maps drop them without a word.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The fields of one JSON object, in their order, each value as it was written.
#[derive(Debug)]
pub struct Object<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads `text`, which must be one JSON object and nothing else.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The first field name that stands twice.
    pub fn repeated(&self) -> Option<&str> {
        let names = self.0.iter().map(|(name, _)| name.as_str()).enumerate();
        names
            .into_iter()
            .find(|(at, name)| self.0[..*at].iter().any(|(earlier, _)| earlier == name))
            .map(|(_, name)| name)
    }

    /// The value of the field `name`, if that is a JSON string.
    pub fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        serde_json::from_str(value.get()).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are_written_and_repeats_are_seen() {
        let object = Object::parse(br#" {"a": 1.0, "b":"x", "a":2} "#).unwrap();
        assert_eq!(object.0[0].1.get(), "1.0");
        assert_eq!(object.text("b").as_deref(), Some("x"));
        assert_eq!(object.text("a"), None);
        assert_eq!(object.repeated(), Some("a"));
        assert_eq!(Object::parse(br#"{"a":{"b":1,"b":2}}"#).unwrap().repeated(), None);
    }

    #[test]
    fn anything_else_is_no_object() {
        for text in ["", "[]", "1", "{} {}", "{\"a\"}", "\u{feff}{}"] {
            assert!(Object::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}

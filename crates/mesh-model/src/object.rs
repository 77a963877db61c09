//! A JSON object parsed field by field, with repeated fields: `serde`'s own maps drop them silently.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt;

/// The fields of one JSON object in order, each value as written.
#[derive(Debug)]
pub struct Object<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Parses `text`, which must be exactly one JSON object.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Parses `text` like [`Object::parse`], but ends at the first field that is not one of `known` or is repeated. A
    /// client that sends thousands of fields then costs no more than one that sends a single wrong one.
    pub fn parse_known(text: &'a [u8], known: &[&str]) -> Result<Self, FieldError> {
        let mut fault = None;
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let fields = KnownFields { known, fault: &mut fault };
        let object = fields.deserialize(&mut deserializer);
        match (object, fault) {
            (Ok(fields), _) => {
                deserializer.end().map_err(FieldError::Json)?;
                Ok(Object(fields))
            }
            (Err(_), Some(fault)) => Err(fault),
            (Err(error), None) => Err(FieldError::Json(error)),
        }
    }

    /// The first repeated field name.
    pub fn repeated(&self) -> Option<&str> {
        let mut earlier = BTreeSet::new();
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !earlier.insert(*name))
    }

    /// The value of the field `name`, if it is a JSON string.
    pub fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        serde_json::from_str(value.get()).ok()
    }
}

/// Why an object was not parsed completely.
#[derive(Debug)]
pub enum FieldError {
    /// The text is not one JSON object.
    Json(serde_json::Error),
    /// This field is not one of the known ones.
    Unknown(String),
    /// This field occurs twice.
    Repeated(String),
}

/// Reads the fields of an object as long as they are known and new.
struct KnownFields<'k> {
    known: &'k [&'k str],
    fault: &'k mut Option<FieldError>,
}

impl<'de> DeserializeSeed<'de> for KnownFields<'_> {
    type Value = Vec<(String, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KnownFields<'_> {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Self::Value = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let fault = if !self.known.contains(&name.as_str()) {
                FieldError::Unknown(name)
            } else if fields.iter().any(|(earlier, _)| *earlier == name) {
                FieldError::Repeated(name)
            } else {
                fields.push((name, map.next_value()?));
                continue;
            };
            *self.fault = Some(fault);
            return Err(A::Error::custom("a field that is not accepted"));
        }
        Ok(fields)
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
    fn reading_ends_at_the_first_field_that_is_unknown_or_repeated() {
        let parse = |text: &'static str| Object::parse_known(text.as_bytes(), &["a", "b"]);
        assert_eq!(parse(r#"{"b":1,"a":2}"#).unwrap().0.len(), 2);
        // What follows the wrong field is not even JSON: it was not looked at.
        assert!(matches!(parse(r#"{"a":1,"c":2,!"#), Err(FieldError::Unknown(name)) if name == "c"));
        assert!(matches!(parse(r#"{"a":1,"a":2,!"#), Err(FieldError::Repeated(name)) if name == "a"));
        for text in ["", "[]", "1", "{} {}", r#"{"a":1"#, r#"{"a":!}"#] {
            assert!(matches!(parse(text), Err(FieldError::Json(_))), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_object() {
        for text in ["", "[]", "1", "{} {}", "{\"a\"}", "\u{feff}{}"] {
            assert!(Object::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}

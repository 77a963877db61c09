//! Strict reading: every problem says where it is, an unknown field is refused and compared with the known ones.

use std::collections::BTreeMap;
use std::fmt;

use super::{Json, nearest};

/// Where in a document a value stands, such as `resources[3].path`.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// The document itself.
    Root,
    /// A member of an object.
    Field(&'a At<'a>, &'a str),
    /// An item of a list.
    Index(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    /// The member `name` of the value here.
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> At<'a> {
        At::Field(self, name)
    }

    /// The item of that index of the list here.
    #[must_use]
    pub fn index(&'a self, place: usize) -> At<'a> {
        At::Index(self, place)
    }

    /// A problem of the value here.
    pub fn problem(&self, what: impl Into<String>) -> Problem {
        Problem { path: self.to_string(), what: what.into() }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Field(At::Root, name) => f.write_str(name),
            At::Field(outer, name) => write!(f, "{outer}.{name}"),
            At::Index(outer, place) => write!(f, "{outer}[{place}]"),
        }
    }
}

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The JSON path, such as `resources[3].path`; empty for the document itself.
    pub path: String,
    /// What is wrong, as a lower-case fragment.
    pub what: String,
}

impl Problem {
    /// A problem of the document itself.
    pub fn at_root(what: impl Into<String>) -> Problem {
        Problem { path: String::new(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// What can be read from JSON, strictly.
pub trait Read: Sized {
    /// Reads the value that stands at `at`.
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem>;

    /// Reads a whole document.
    fn from_json_bytes(bytes: &[u8]) -> Result<Self, Problem> {
        Self::read(&Json::parse_bytes(bytes)?, &At::Root)
    }
}

/// The members of one object while it is read. What nobody took is refused at the end, by [`Fields::done`].
#[derive(Debug)]
pub struct Fields<'a> {
    members: &'a [(String, Json)],
    at: &'a At<'a>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Begins to read an object.
    pub fn of(json: &'a Json, at: &'a At<'a>) -> Result<Fields<'a>, Problem> {
        match json {
            Json::Object(members) => Ok(Fields { members, at, known: Vec::new() }),
            other => Err(at.problem(format!("is {} where an object belongs", other.kind()))),
        }
    }

    /// Where the object stands.
    pub fn at(&self) -> &'a At<'a> {
        self.at
    }

    /// A field that may be absent or `null`.
    pub fn optional<T: Read>(&mut self, name: &'static str) -> Result<Option<T>, Problem> {
        self.known.push(name);
        match self.members.iter().find(|(key, _)| key == name) {
            None | Some((_, Json::Null)) => Ok(None),
            Some((_, json)) => T::read(json, &self.at.field(name)).map(Some),
        }
    }

    /// A field that must be there. A mistyping of its name is the problem that is told.
    pub fn required<T: Read>(&mut self, name: &'static str) -> Result<T, Problem> {
        if let Some(value) = self.optional(name)? {
            return Ok(value);
        }
        let mut unread = self.members.iter().filter(|(key, _)| !self.known.contains(&key.as_str()));
        Err(match unread.find(|(key, _)| nearest(key, [name]).is_some()) {
            Some((key, _)) => self.at.field(key).problem(format!("unknown field; nearest known: {name}")),
            None => self.at.problem(format!("has no {name}")),
        })
    }

    /// A field that is empty when it is absent.
    pub fn or_default<T: Read + Default>(&mut self, name: &'static str) -> Result<T, Problem> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// The end: a field that nobody took is refused.
    pub fn done(self) -> Result<(), Problem> {
        for (name, _) in self.members {
            if !self.known.contains(&name.as_str()) {
                let near = match nearest(name, self.known.iter().copied()) {
                    Some(near) => format!("unknown field; nearest known: {near}"),
                    None => format!("unknown field; known are {}", self.known.join(", ")),
                };
                return Err(self.at.field(name).problem(near));
            }
        }
        Ok(())
    }

    /// The end where unknown fields are kept: those that nobody took.
    pub fn rest(self) -> Vec<(String, Json)> {
        self.members.iter().filter(|(name, _)| !self.known.contains(&name.as_str())).cloned().collect()
    }
}

fn not(json: &Json, at: &At<'_>, wanted: &str) -> Problem {
    at.problem(format!("is {} where {wanted} belongs", json.kind()))
}

impl Read for Json {
    fn read(json: &Json, _: &At<'_>) -> Result<Self, Problem> {
        Ok(json.clone())
    }
}

impl Read for String {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        json.as_text().map(str::to_owned).ok_or_else(|| not(json, at, "a string"))
    }
}

impl Read for bool {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        match json {
            Json::Bool(value) => Ok(*value),
            other => Err(not(other, at, "true or false")),
        }
    }
}

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl Read for $type {
            fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
                match json {
                    Json::Number(digits) => digits.parse().map_err(|_| {
                        at.problem(format!("{digits} is not a whole number from {} to {}", <$type>::MIN, <$type>::MAX))
                    }),
                    other => Err(not(other, at, "a number")),
                }
            }
        }
    )*};
}
whole_number!(u8, u16, u32, u64, i64);

impl<T: Read> Read for Vec<T> {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        match json {
            Json::List(items) => {
                items.iter().enumerate().map(|(place, item)| T::read(item, &at.index(place))).collect()
            }
            other => Err(not(other, at, "a list")),
        }
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        match json {
            Json::Object(members) => members
                .iter()
                .map(|(name, value)| Ok((name.clone(), T::read(value, &at.field(name))?)))
                .collect(),
            other => Err(not(other, at, "an object")),
        }
    }
}

/// Makes a type that has `FromStr` and `Display` readable and writable as a JSON string.
macro_rules! text_form {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::json::Read for $type {
            fn read(
                json: &$crate::json::Json,
                at: &$crate::json::At<'_>,
            ) -> Result<Self, $crate::json::Problem> {
                <String as $crate::json::Read>::read(json, at)?.parse().map_err(|why: String| at.problem(why))
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
pub(crate) use text_form;

#[cfg(test)]
mod tests {
    use super::*;

    struct Port {
        number: u16,
        name: Option<String>,
    }

    impl Read for Port {
        fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
            let mut fields = Fields::of(json, at)?;
            let port = Port { number: fields.required("number")?, name: fields.optional("name")? };
            fields.done()?;
            Ok(port)
        }
    }

    fn problem(text: &str) -> String {
        Vec::<Port>::from_json_bytes(text.as_bytes()).err().unwrap().to_string()
    }

    #[test]
    fn problems_name_the_place_and_the_nearest_name() {
        assert_eq!(problem(r#"[{"nunber":1}]"#), "[0].nunber: unknown field; nearest known: number");
        assert_eq!(problem(r#"[{"name":"a"}]"#), "[0]: has no number");
        assert_eq!(problem(r#"[{"number":1,"nmae":"a"}]"#), "[0].nmae: unknown field; nearest known: name");
        assert_eq!(
            problem(r#"[{"number":1,"colour":"a"}]"#),
            "[0].colour: unknown field; known are number, name"
        );
        assert_eq!(
            problem(r#"[{"number":70000}]"#),
            "[0].number: 70000 is not a whole number from 0 to 65535"
        );
        assert_eq!(problem(r#"[{"number":"1"}]"#), "[0].number: is a string where a number belongs");
        assert_eq!(problem("{}"), "is an object where a list belongs");
    }

    #[test]
    fn null_is_absent() {
        let ports = Vec::<Port>::from_json_bytes(br#"[{"number":1,"name":null}]"#).unwrap();
        assert_eq!((ports[0].number, ports[0].name.as_deref()), (1, None));
    }
}

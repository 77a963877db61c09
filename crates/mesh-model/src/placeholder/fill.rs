//! Filling: one pass over the parts, into memory that is allocated first. So a secret is never left behind in a buffer
//! that was outgrown.

use std::fmt;

use super::encode::Encoder;
use super::insert::write;
use super::{Insertion, Part, Placeholder, Template, Value};

/// Why one placeholder cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfilled {
    /// `kind:name`
    pub key: String,
    /// Why.
    pub why: NotFilled,
}

/// Why a placeholder cannot be filled. No text of a value is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFilled {
    /// There is no value, or it is `null`.
    Missing,
    /// It is an object or a list that cannot be written in the way that is asked for.
    Shape(&'static str),
    /// It holds bytes that the encoding has no way to write.
    Encoding(&'static str),
}

impl fmt::Display for NotFilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotFilled::Missing => f.write_str("value missing"),
            NotFilled::Shape(why) | NotFilled::Encoding(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Unfilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

/// A template with its values, checked and measured: nothing about it can fail any more.
pub struct Filling<'f> {
    parts: Vec<Filled<'f>>,
    bytes: usize,
}

enum Filled<'f> {
    Literal(&'f str),
    Value(Value<'f>, Insertion),
}

impl Template<'_> {
    /// Looks up every placeholder. Either all of them can be filled, or each that cannot is named once.
    ///
    /// ```
    /// use mesh_model::placeholder::{Declared, Insertion, Template, Value};
    /// let mut declared = Declared::default();
    /// declared.add("port", "http");
    /// let template = Template::parse("listen ${port:http};", &declared);
    /// let filling = template.look_up(|_| Some((Value::Bytes(b"80"), Insertion::default()))).unwrap();
    /// assert_eq!(filling.to_bytes(), b"listen 80;");
    /// assert_eq!(template.look_up(|_| None).err().unwrap()[0].key, "port:http");
    /// ```
    pub fn look_up<'f>(
        &'f self,
        mut value_of: impl FnMut(Placeholder<'f>) -> Option<(Value<'f>, Insertion)>,
    ) -> Result<Filling<'f>, Vec<Unfilled>> {
        let mut filling = Filling { parts: Vec::with_capacity(self.parts().len()), bytes: 0 };
        let mut unfilled: Vec<Unfilled> = Vec::new();
        for part in self.parts() {
            match *part {
                Part::Literal(text) => {
                    filling.bytes += text.len();
                    filling.parts.push(Filled::Literal(text));
                }
                Part::Placeholder(placeholder) => {
                    let found = value_of(placeholder).filter(|(value, _)| value.is_there());
                    let measured = found.ok_or(NotFilled::Missing).and_then(|(value, insertion)| {
                        filling.bytes += measure(value, insertion)?;
                        Ok(Filled::Value(value, insertion))
                    });
                    match measured {
                        Ok(filled) => filling.parts.push(filled),
                        Err(why) if unfilled.iter().all(|known| known.key != placeholder.key) => {
                            unfilled.push(Unfilled { key: placeholder.key.to_owned(), why });
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        if unfilled.is_empty() { Ok(filling) } else { Err(unfilled) }
    }
}

impl Filling<'_> {
    /// How many bytes the filled text has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the filled text is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends the filled text, after making room for all of it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve_exact(self.bytes);
        for part in &self.parts {
            match part {
                Filled::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Filled::Value(Value::Bytes(bytes), Insertion { encode: None, .. }) => {
                    out.extend_from_slice(bytes);
                }
                Filled::Value(value, insertion) => {
                    // It was written once already, when it was measured.
                    let _ = emit(*value, *insertion, &mut |bytes| out.extend_from_slice(bytes));
                }
            }
        }
    }

    /// The filled text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }
}

fn measure(value: Value<'_>, insertion: Insertion) -> Result<usize, NotFilled> {
    if let (Value::Bytes(bytes), None) = (value, insertion.encode) {
        return Ok(bytes.len());
    }
    let mut length = 0;
    emit(value, insertion, &mut |bytes| length += bytes.len())?;
    Ok(length)
}

fn emit(value: Value<'_>, insertion: Insertion, out: &mut dyn FnMut(&[u8])) -> Result<(), NotFilled> {
    let mut encoder = Encoder::begin(insertion.encode, out);
    write(value, insertion.insert, &mut |bytes| encoder.put(bytes))?;
    encoder.end()
}

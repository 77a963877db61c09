//! Texts with placeholders: what is not declared stays, what is inserted is never read again, and the measured length
//! is the written one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_model::json::Json;
use mesh_model::placeholder::{Declared, Insertion, Template, Value, lint};
use mesh_model::resource::{Encode, Insert};

const KEYS: [(&str, &str); 3] = [("a", "b"), ("port", "http"), ("bound", "db")];

fuzz_target!(|input: (&str, &[u8], &str, u8)| {
    let (text, bytes, json, way) = input;
    assert_eq!(
        fill(text, &Declared::default(), Value::Bytes(bytes), Insertion::default()).unwrap(),
        text.as_bytes()
    );

    let mut declared = Declared::default();
    KEYS.iter().for_each(|(kind, name)| declared.add_root(kind, name));
    lint(text, &declared);
    // A value of dollars and braces, inserted, is there as often as a value of the same length without them.
    let odd = fill(text, &declared, Value::Bytes(b"${a:b}"), Insertion::default()).unwrap();
    let plain = fill(text, &declared, Value::Bytes(b"......"), Insertion::default()).unwrap();
    assert_eq!(odd.len(), plain.len());

    let insertion = Insertion {
        insert: [None, Some(Insert::Json), Some(Insert::Toml), Some(Insert::Env), Some(Insert::Lines)]
            [usize::from(way) % 5],
        encode: [None, Some(Encode::Json), Some(Encode::Shell)][usize::from(way) / 5 % 3],
    };
    let _ = fill(text, &declared, Value::Bytes(bytes), insertion);
    if let Ok(json) = Json::parse(json) {
        let _ = fill(text, &declared, Value::Json(&json), insertion);
    }
});

fn fill(text: &str, declared: &Declared, value: Value<'_>, insertion: Insertion) -> Option<Vec<u8>> {
    let template = Template::parse(text, declared);
    let filling = template.look_up(|_| Some((value, insertion))).ok()?;
    let filled = filling.to_bytes();
    assert_eq!(filled.len(), filling.len());
    Some(filled)
}

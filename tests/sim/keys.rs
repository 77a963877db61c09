//! Keys and values as nodes write them, and as nobody should: a generator that likes ugly bytes.
//!
//! What is right is known here by construction, not by the product's own parser.

use mesh_model::bucket::Bucket;
use mesh_testing::dice::Dice;

/// A key: its bytes, and the names that it spells if it is in its bucket's shape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) bytes: Vec<u8>,
    pub(crate) names: Option<Vec<String>>,
}

const NODES: [&str; 7] = ["n1", "n10", "n 2", "*", ">", "\u{e9}", "a.b"];
const MODULES: [&str; 4] = ["web", "db", "$x", "a/b"];
const KINDS: [&str; 5] = ["port", "secret", "licence", "odd kind", "shell"];
const NAMES: [&str; 4] = ["http", "x.y", "${z}", "="];

/// Tokens that spell no name.
const UGLY: [&[u8]; 18] = [
    b"=61",
    b"=3a",
    b"a=4",
    b"=",
    b"=FF",
    b"=00",
    b"=ZZ",
    b"\xff\xfe",
    b"a\xe2\x82",
    b"*",
    b">",
    b"a*",
    "\u{44f}".as_bytes(),
    b"a:b",
    b"a\"b",
    b"a\\b",
    b"\x01\x7f",
    b"~$+",
];

impl Key {
    /// The key that spells `names`.
    pub(crate) fn of(names: &[String]) -> Self {
        let tokens: Vec<String> = names.iter().map(|name| spell(name)).collect();
        Key { bytes: tokens.join(".").into_bytes(), names: Some(names.to_vec()) }
    }

    /// A key that may stand in `bucket`; now and then one out of shape.
    pub(crate) fn any(bucket: Bucket, dice: &mut Dice, ugly_per_mille: u32) -> Self {
        let mut names = Vec::new();
        for what in bucket.token_names() {
            let pool: &[&str] = match *what {
                "node" => &NODES,
                "kind" => &KINDS,
                "module" | "contributor" => &MODULES,
                _ => &NAMES,
            };
            names.push((*dice.pick(pool)).to_owned());
        }
        let key = Key::of(&names);
        if dice.chance(ugly_per_mille) { key.spoiled(dice) } else { key }
    }

    /// One of many keys in shape, this many bytes longer than others: another number, another key.
    pub(crate) fn numbered(bucket: Bucket, dice: &mut Dice, number: usize, longer: usize) -> Self {
        let mut names = Key::any(bucket, dice, 0).names.unwrap_or_default();
        if let Some(last) = names.last_mut() {
            *last = format!("{last}{number}{}", "h".repeat(longer));
        }
        Key::of(&names)
    }

    fn spoiled(&self, dice: &mut Dice) -> Self {
        let mut tokens: Vec<Vec<u8>> = self.bytes.split(|byte| *byte == b'.').map(<[u8]>::to_vec).collect();
        match dice.below(8) {
            0 => tokens.push(b"more".to_vec()),
            1 if tokens.len() > 1 => drop(tokens.pop()),
            2 => *tokens.last_mut().unwrap() = vec![b'x'; 256],
            _ => {
                let at = dice.below(tokens.len());
                tokens[at] = (*dice.pick(&UGLY)).to_vec();
            }
        }
        Key { bytes: tokens.join(&b'.'), names: None }
    }

    /// The key as the bus shows it in JSON: each byte that is not UTF-8 as U+FFFD.
    pub(crate) fn shown(&self) -> String {
        shown(&self.bytes)
    }

    /// Whether asking the bus for it by its name may bring another key's message, or none.
    pub(crate) fn is_elusive(&self) -> bool {
        std::str::from_utf8(&self.bytes).is_err()
            || self.bytes.split(|byte| *byte == b'.').any(|token| token == b"*" || token == b">")
    }
}

/// Bytes as the bus shows them in JSON.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// The token that spells `name`.
pub(crate) fn spell(name: &str) -> String {
    let spelled = name.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'/' => char::from(byte).to_string(),
        other => format!("={other:02X}"),
    });
    spelled.collect()
}

/// A value, and the headers beside it; now and then ugly ones.
pub(crate) fn any_value(dice: &mut Dice, ugly_per_mille: u32) -> (Vec<u8>, Vec<u8>) {
    let values: [&[u8]; 18] = [
        br#"{"port":8080}"#,
        br#"{"state":"waiting","why":"silent","plan":"0"}"#,
        br#"{"state":"filled","plan":"waiting"}"#,
        br#"{"needs":0}"#,
        b"123456789012345678901234567890",
        b"1e400",
        b"-0",
        b"1.0",
        b"",
        b"plain",
        b"\xff\xfe",
        b"{\"a\":1,\"a\":2}",
        b"[1,\n 2]\n",
        b"\"\\u0041\\n\"",
        b"null",
        b"{",
        b"LARGE",
        b"LARGE",
    ];
    let value = match *dice.pick(&values) {
        b"LARGE" => format!("\"{}\"", "x".repeat(1_000 + dice.below(9_000))).into_bytes(),
        other => other.to_vec(),
    };
    let headers: &[u8] = match dice.below(6) {
        0 => b"NATS/1.0\r\nX: y\r\n\r\n",
        1 => b"NATS/1.0\r\nKV-Operation: PUT\r\n\r\n",
        _ => b"",
    };
    let ugly: &[u8] = match dice.below(4) {
        0 => b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n",
        1 => b"NATS/1.0\r\nno colon\r\n\r\n",
        // As if the bus itself had put them there.
        2 => b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n",
        _ => b"NATS/1.0\r\nStatus: 204\r\nNats-UpTo-Sequence: 1000000\r\n\r\n",
    };
    let headers = if dice.chance(ugly_per_mille) { ugly } else { headers };
    (value, headers.to_vec())
}

/// The headers of a marker.
pub(crate) fn any_marker(dice: &mut Dice) -> Vec<u8> {
    let markers: [&[u8]; 3] = [
        b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
        b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n",
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n",
    ];
    dice.pick(&markers).to_vec()
}

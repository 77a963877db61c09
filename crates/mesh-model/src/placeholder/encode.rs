//! How a value is written so that it fits the text around it.

use super::NotFilled;
use crate::json::escape;
use crate::resource::Encode;

/// Takes a value piece by piece and hands it on encoded. Pieces of JSON are whole texts.
pub(super) struct Encoder<'o> {
    encode: Option<Encode>,
    out: &'o mut dyn FnMut(&[u8]),
    wrong: Option<&'static str>,
}

impl<'o> Encoder<'o> {
    pub(super) fn begin(encode: Option<Encode>, out: &'o mut dyn FnMut(&[u8])) -> Encoder<'o> {
        if encode == Some(Encode::Shell) {
            out(b"'");
        }
        Encoder { encode, out, wrong: None }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        match self.encode {
            None => (self.out)(bytes),
            Some(Encode::Json) => match std::str::from_utf8(bytes) {
                Ok(text) => escape(text, &mut |piece| (self.out)(piece.as_bytes())),
                Err(_) => self.wrong = Some("is not UTF-8, which no JSON string can hold"),
            },
            Some(Encode::Shell) => {
                if bytes.contains(&0) {
                    self.wrong = Some("holds a NUL byte, which no shell can hold");
                }
                for (place, piece) in bytes.split(|byte| *byte == b'\'').enumerate() {
                    if place > 0 {
                        (self.out)(b"'\\''");
                    }
                    (self.out)(piece);
                }
            }
        }
    }

    pub(super) fn end(self) -> Result<(), NotFilled> {
        if self.encode == Some(Encode::Shell) {
            (self.out)(b"'");
        }
        self.wrong.map_or(Ok(()), |why| Err(NotFilled::Encoding(why)))
    }
}

//! The lines of the NATS client protocol, in bytes: subjects and headers need not be text.

use std::io::{self, BufRead, Read};

use serde_json::Value;

/// What a server sends.
pub(crate) enum Line {
    Info(Value),
    Message {
        sid: u64,
        message: Message,
    },
    Ping,
    Pong,
    /// The words between the quotes of `-ERR '…'`.
    Error(String),
    Ok,
}

/// A message as it was delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub subject: Vec<u8>,
    pub reply: Option<Vec<u8>>,
    /// The whole block, from `NATS/1.0` to its empty line; empty when there is none.
    pub headers: Vec<u8>,
    pub body: Vec<u8>,
}

impl Message {
    /// The status in the first line of the headers: 503 is "no responders".
    pub fn status(&self) -> Option<u16> {
        let text = String::from_utf8_lossy(&self.headers);
        text.lines().next()?.strip_prefix("NATS/1.0 ")?.get(..3)?.parse().ok()
    }

    /// The value of a header; `name` is spelled as it was sent.
    pub fn header(&self, name: &str) -> Option<String> {
        header(&self.headers, name)
    }

    /// The body as text, for what a person reads.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; panics with the body if it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }
}

/// A header's value within a raw block.
pub fn header(block: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(block);
    text.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then(|| value.trim().to_owned())
    })
}

/// A block of headers, to send.
pub fn headers(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut lines = vec!["NATS/1.0".to_owned()];
    lines.extend(pairs.iter().map(|(name, value)| format!("{name}: {value}")));
    format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

/// Reads one line, with the payload that belongs to it. The end of the stream is an error, as nothing ends
/// well here.
pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let strange = || io::Error::other(format!("strange line {:?}", String::from_utf8_lossy(line)));
    match words.as_slice() {
        [b"MSG", subject, sid, reply @ .., size] => {
            let size = number(size).ok_or_else(strange)?;
            let sid = number(sid).ok_or_else(strange)?;
            let body = payload(stream, size)?;
            Ok(Line::Message { sid, message: message(subject, reply, Vec::new(), body) })
        }
        [b"HMSG", subject, sid, reply @ .., head, size] => {
            let head = number(head).and_then(|head| usize::try_from(head).ok()).ok_or_else(strange)?;
            let size = number(size).ok_or_else(strange)?;
            let sid = number(sid).ok_or_else(strange)?;
            let mut block = payload(stream, size)?;
            if head > block.len() {
                return Err(strange());
            }
            let body = block.split_off(head);
            Ok(Line::Message { sid, message: message(subject, reply, block, body) })
        }
        [b"INFO", ..] => Ok(Line::Info(serde_json::from_slice(&line[b"INFO".len()..])?)),
        [b"PING"] => Ok(Line::Ping),
        [b"PONG"] => Ok(Line::Pong),
        [b"+OK"] => Ok(Line::Ok),
        [b"-ERR", ..] => {
            let words = String::from_utf8_lossy(&line[b"-ERR".len()..]);
            Ok(Line::Error(words.trim().trim_matches('\'').to_owned()))
        }
        _ => Err(strange()),
    }
}

fn message(subject: &[u8], reply: &[&[u8]], headers: Vec<u8>, body: Vec<u8>) -> Message {
    Message { subject: subject.to_vec(), reply: reply.first().map(|reply| reply.to_vec()), headers, body }
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn payload(stream: &mut impl BufRead, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(size + 2).read_to_end(&mut bytes)?;
    if bytes.ends_with(b"\r\n") && bytes.len() as u64 == size + 2 {
        bytes.truncate(bytes.len() - 2);
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

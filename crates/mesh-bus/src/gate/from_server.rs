//! What the server sends, in segments of any size: every line and every message is looked at here before anybody else
//! sees a byte of it.
//!
//! What goes on to the client library is spelt so that it can read it, message by message, each of them whole. Messages
//! of the subscriptions that the gate made itself are taken out, and so is everything else but pongs.

use super::headers;
use super::spelling::spell;
use memchr::memchr;
use std::borrow::Cow;
use std::cell::Cell;
use std::io::Write;
use std::ops::Range;

/// The number of the first subscription that is the gate's own. The library counts from 1.
pub const FIRST_OWN_SID: u64 = 1 << 32;

/// The longest line that a server may send, its end included. Only INFO comes near it.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The longest message, headers included. A nats-server allows no `max_payload` over 64 MiB.
pub const MAX_MESSAGE_BYTES: usize = 65 * 1024 * 1024;

/// The longest words of an error that are kept.
const MAX_ERROR_BYTES: usize = 1024;

/// A buffer that grew beyond this is freed after its message.
const KEPT_BYTES: usize = 1024 * 1024;

/// Something from the server that is not for the library.
#[derive(Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Its INFO, as JSON.
    Info(&'a [u8]),
    /// Its `-ERR`, in its own words, cut to a kilobyte.
    Error(String),
    /// It wants a PONG.
    Ping,
    /// It answered a PING. The library's copy is in the queue already.
    Pong,
    /// A message of one of the gate's own subscriptions.
    Taken(Taken<'a>),
    /// Something was changed on its way to the library, or left out.
    Note(Note),
    /// A message of more than [`LARGE_BYTES`] is about to be passed to the library.
    Large {
        /// Its headers and body, in bytes.
        bytes: usize,
        /// Set it, and the message is left out.
        drop: &'a Cell<bool>,
    },
}

/// A message for the library that has more bytes is announced before it is passed on. How many smaller ones wait there is
/// bounded by their number.
pub const LARGE_BYTES: usize = 4096;

/// A message of one of the gate's own subscriptions.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// The subscription's number.
    pub sid: u64,
    /// The subject, with U+FFFD for bytes that are not UTF-8.
    pub subject: Cow<'a, str>,
    /// Where an answer is to go.
    pub reply: Option<Cow<'a, str>>,
    /// The header block as it was sent; empty if there is none.
    pub headers: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// What was changed on its way to the library, or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A subject or reply subject was spelt in ASCII.
    Subject,
    /// Header lines that cannot be read were left out.
    Headers,
    /// A line of no known kind was left out.
    Line,
}

/// The server sent something after which nobody knows where the next message begins: why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

/// Reads what the server sends.
#[derive(Debug, Default)]
pub struct FromServer {
    /// A line that has not ended, then the line of the message that is being read.
    line: Vec<u8>,
    /// The message whose body is being read.
    message: Option<Head>,
    /// What has come of its headers and body.
    payload: Vec<u8>,
    /// How many pings the server has yet to answer.
    pings: u64,
}

/// The line of a message, as places in it.
#[derive(Debug, Clone)]
struct Head {
    subject: Range<usize>,
    sid: u64,
    reply: Option<Range<usize>>,
    /// How many bytes are headers; `None` for a message that cannot have any.
    headers: Option<usize>,
    /// Headers and body.
    size: usize,
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The line end after a body.
const END: usize = 2;

impl FromServer {
    /// So many pings the server has yet to answer. A pong beyond that is left out: the library would take it for the
    /// answer to a later ping.
    pub const fn expect_pongs(&mut self, pings: u64) {
        self.pings = pings;
    }

    /// Takes what came next: adds to `library` what the library may read, and tells `sink` the rest.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        library: &mut Vec<u8>,
        sink: &mut dyn FnMut(Op<'_>),
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            bytes = match self.message.take() {
                Some(head) => self.payload(head, bytes, library, sink),
                None => self.line(bytes, library, sink)?,
            };
        }
        Ok(())
    }

    /// Takes bytes of a message's headers and body; returns what comes after them.
    fn payload<'a>(
        &mut self,
        head: Head,
        bytes: &'a [u8],
        library: &mut Vec<u8>,
        sink: &mut dyn FnMut(Op<'_>),
    ) -> &'a [u8] {
        let left = head.size + END - self.payload.len();
        let (now, rest) = bytes.split_at(left.min(bytes.len()));
        if self.payload.is_empty() && now.len() == left {
            head.deliver(&self.line, &now[..head.size], library, sink);
        } else {
            self.payload.extend_from_slice(now);
            if now.len() < left {
                self.message = Some(head);
                return rest;
            }
            head.deliver(&self.line, &self.payload[..head.size], library, sink);
            self.payload.clear();
            self.payload.shrink_to(KEPT_BYTES);
        }
        self.line.clear();
        rest
    }

    /// Takes a line, or the beginning of one; returns what comes after it.
    fn line<'a>(
        &mut self,
        bytes: &'a [u8],
        library: &mut Vec<u8>,
        sink: &mut dyn FnMut(Op<'_>),
    ) -> Result<&'a [u8], Broken> {
        let (now, rest) = bytes.split_at(memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1));
        self.line.extend_from_slice(now);
        if self.line.len() > MAX_LINE_BYTES {
            return Err(Broken(format!("the server sent a line of more than {MAX_LINE_BYTES} bytes")));
        }
        if !now.ends_with(b"\n") {
            return Ok(rest);
        }
        let line = self.line.trim_ascii_end();
        let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let is = |op: &[u8]| name.eq_ignore_ascii_case(op);
        let arguments = &line[name.len()..];
        if is(b"MSG") || is(b"HMSG") {
            self.message = Some(Head::parse(line, name.len(), is(b"HMSG"))?);
            return Ok(rest);
        }
        if is(b"PING") {
            sink(Op::Ping);
        } else if is(b"PONG") && self.pings > 0 {
            self.pings -= 1;
            library.extend_from_slice(b"PONG\r\n");
            sink(Op::Pong);
        } else if is(b"INFO") {
            sink(Op::Info(arguments.trim_ascii()));
        } else if is(b"-ERR") {
            let words = arguments.trim_ascii();
            let words = words.strip_prefix(b"'").unwrap_or(words);
            let words = words.strip_suffix(b"'").unwrap_or(words);
            let words = &words[..words.len().min(MAX_ERROR_BYTES)];
            sink(Op::Error(String::from_utf8_lossy(words).into_owned()));
        } else if !is(b"+OK") && !name.is_empty() {
            sink(Op::Note(Note::Line));
        }
        self.line.clear();
        self.line.shrink_to(KEPT_BYTES);
        Ok(rest)
    }
}

impl Head {
    /// Reads `<op> <subject> <sid> [reply] [#headers] <#bytes>`, whose first word has `word` bytes.
    fn parse(line: &[u8], op: usize, has_headers: bool) -> Result<Head, Broken> {
        let broken = || {
            let shown = &line[..line.len().min(120)];
            Broken(format!("the server sent a line that cannot be read: \"{}\"", shown.escape_ascii()))
        };
        let mut words: [Range<usize>; 6] = std::array::from_fn(|_| 0..0);
        let mut count = 0;
        let mut at = op;
        while at < line.len() {
            let start = at + line[at..].iter().take_while(|byte| is_blank(**byte)).count();
            let length = line[start..].iter().position(|byte| is_blank(*byte)).unwrap_or(line.len() - start);
            at = start + length;
            *words.get_mut(count).ok_or_else(broken)? = start..at;
            count += 1;
        }
        let number = |word: &Range<usize>| -> Result<u64, Broken> {
            let digits = std::str::from_utf8(&line[word.clone()]).ok();
            digits.and_then(|digits| digits.parse().ok()).ok_or_else(broken)
        };
        let (reply, numbers) = match (&words[..count], has_headers) {
            ([_, _, numbers @ ..], true) if numbers.len() == 2 => (None, numbers),
            ([_, _, reply, numbers @ ..], true) if numbers.len() == 2 => (Some(reply.clone()), numbers),
            ([_, _, numbers @ ..], false) if numbers.len() == 1 => (None, numbers),
            ([_, _, reply, numbers @ ..], false) if numbers.len() == 1 => (Some(reply.clone()), numbers),
            _ => return Err(broken()),
        };
        let size = |word| -> Result<usize, Broken> {
            let size = number(word)?;
            let fits = usize::try_from(size).ok().filter(|size| *size <= MAX_MESSAGE_BYTES);
            fits.ok_or_else(|| Broken(format!("the server announced a message of {size} bytes")))
        };
        let (headers, bytes) = match numbers {
            [headers, bytes] => (Some(size(headers)?), size(bytes)?),
            [bytes, ..] => (None, size(bytes)?),
            [] => return Err(broken()),
        };
        if headers.is_some_and(|headers| headers > bytes) {
            return Err(broken());
        }
        Ok(Head { subject: words[0].clone(), sid: number(&words[1])?, reply, headers, size: bytes })
    }

    fn deliver(&self, line: &[u8], payload: &[u8], library: &mut Vec<u8>, sink: &mut dyn FnMut(Op<'_>)) {
        let (block, body) = payload.split_at(self.headers.unwrap_or(0));
        let subject = &line[self.subject.clone()];
        let reply = self.reply.clone().map(|reply| &line[reply]);
        if self.sid >= FIRST_OWN_SID {
            return sink(Op::Taken(Taken {
                sid: self.sid,
                subject: String::from_utf8_lossy(subject),
                reply: reply.map(String::from_utf8_lossy),
                headers: block,
                body,
            }));
        }
        if payload.len() > LARGE_BYTES {
            let drop = Cell::new(false);
            sink(Op::Large { bytes: payload.len(), drop: &drop });
            if drop.get() {
                return;
            }
        }
        let (subject, reply) = (spell(subject), reply.map(spell));
        if matches!(subject, Cow::Owned(_)) || matches!(reply, Some(Cow::Owned(_))) {
            sink(Op::Note(Note::Subject));
        }
        let block = self.headers.map(|_| {
            if headers::is_readable(block) {
                Cow::Borrowed(block)
            } else {
                sink(Op::Note(Note::Headers));
                Cow::Owned(headers::readable_part(block).into_bytes())
            }
        });
        let op = if block.is_some() { "HMSG" } else { "MSG" };
        let (separator, reply) = reply.as_deref().map_or(("", ""), |reply| (" ", reply));
        // Writing to memory does not fail.
        write!(library, "{op} {subject} {}{separator}{reply}", self.sid).ok();
        if let Some(block) = &block {
            write!(library, " {}", block.len()).ok();
        }
        let block = block.as_deref().unwrap_or_default();
        write!(library, " {}\r\n", block.len() + body.len()).ok();
        library.extend_from_slice(block);
        library.extend_from_slice(body);
        library.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is told of a feed, in a form that can be compared.
    fn told(op: Op<'_>) -> String {
        match op {
            Op::Info(json) => format!("info {}", json.escape_ascii()),
            Op::Taken(Taken { sid, subject, reply, headers, body }) => {
                let (headers, body) = (headers.escape_ascii(), body.escape_ascii());
                format!("taken {sid} {subject} {reply:?} {headers}|{body}")
            }
            other => format!("{other:?}"),
        }
    }

    fn read<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> Result<(String, Vec<String>), Broken> {
        let mut from_server = FromServer::default();
        let (mut library, mut said) = (Vec::new(), Vec::new());
        from_server.expect_pongs(1);
        for segment in segments {
            from_server.feed(segment, &mut library, &mut |op| said.push(told(op)))?;
        }
        Ok((library.escape_ascii().to_string(), said))
    }

    fn library(bytes: &[u8]) -> String {
        read([bytes]).unwrap().0
    }

    #[test]
    fn good_messages_and_pongs_go_on_as_they_are() {
        let sent = b"MSG a.b 1 2\r\nhi\r\nPONG\r\nMSG a 2 _INBOX.x 0\r\n\r\nHMSG a 3 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n";
        assert_eq!(library(sent), sent.escape_ascii().to_string());
        assert_eq!(read([&sent[..]]).unwrap().1, ["Pong"]);
        assert_eq!(library(b"PONG\r\nPONG\r\n"), r"PONG\r\n", "one ping has one answer");
    }

    #[test]
    fn what_the_library_cannot_read_is_spelt_so_that_it_can() {
        assert_eq!(
            library("MSG a\u{a0}b 1 r\u{2003} 2\r\nhi\r\n".as_bytes()),
            r"MSG \x01a\\xc2\\xa0b 1 \x01r\\xe2\\x80\\x83 2\r\nhi\r\n"
        );
        assert_eq!(
            library(b"HMSG a 1 18 20\r\nNATS/1.0\r\nbad\r\nA:1hi\r\n"),
            r"HMSG a 1 17 19\r\nNATS/1.0\r\nA:1\r\n\r\nhi\r\n"
        );
        assert_eq!(library(b"HMSG a 1 0 2\r\nhi\r\n"), r"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    }

    #[test]
    fn everything_else_stays_on_our_side() {
        let sent = b"INFO {\"a\":1} \r\n-ERR 'Permissions Violation for Publish to \"x\"'\r\nPING\r\n+OK\r\nwhat\r\n\r\n\
              HMSG i.7 4294967296 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG i.8 4294967297 r 0\r\n\r\n";
        let (library, said) = read([&sent[..]]).unwrap();
        assert_eq!(library, "");
        assert_eq!(
            said,
            [
                r#"info {\"a\":1}"#,
                r#"Error("Permissions Violation for Publish to \"x\"")"#,
                "Ping",
                "Note(Line)",
                r"taken 4294967296 i.7 None NATS/1.0\r\n\r\n|hi",
                r#"taken 4294967297 i.8 Some("r") |"#,
            ]
        );
    }

    #[test]
    fn lines_of_any_length_leave_short_ones() {
        let reply = "\"".repeat(3990);
        let error =
            format!("-ERR 'Permissions Violation for Publish to \"_INBOX_{}\"'\r\n", "\\\"".repeat(3990));
        let (_, said) = read(error.as_bytes().chunks(1448)).unwrap();
        assert!(said[0].len() < 3000 && said[0].starts_with("Error(\"Permissions Violation"), "{said:?}");
        let message = format!("MSG mesh-provisioner.provisioning 2 _INBOX_{reply} 2\r\nhi\r\n");
        let (library, said) = read(message.as_bytes().chunks(1448)).unwrap();
        assert!(library.len() < 1000, "{library}");
        assert_eq!(said, ["Note(Subject)"]);
    }

    #[test]
    fn lost_framing_ends_the_link_in_words() {
        for (sent, words) in [
            (&b"MSG a 1 x\r\n"[..], "the server sent a line that cannot be read: \"MSG a 1 x\""),
            (b"HMSG a 1 5 4\r\n", "the server sent a line that cannot be read: \"HMSG a 1 5 4\""),
            (b"MSG a\r\n", "the server sent a line that cannot be read: \"MSG a\""),
            (b"MSG a 1 r 2 3 4 5\r\n", "the server sent a line that cannot be read: \"MSG a 1 r 2 3 4 5\""),
            (b"MSG a 1 99999999999\r\n", "the server announced a message of 99999999999 bytes"),
        ] {
            assert_eq!(read([sent]), Err(Broken(words.to_owned())));
        }
        let endless = vec![b'x'; MAX_LINE_BYTES + 1];
        assert!(read([&endless[..]]).is_err());
    }

    fn op() -> impl Strategy<Value = Vec<u8>> {
        let word = || {
            prop_oneof![
                Just(b"_INBOX.a".to_vec()),
                proptest::collection::vec(
                    any::<u8>().prop_filter("no blank", |byte| !b" \t\r\n".contains(byte)),
                    1..8
                ),
            ]
        };
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let sid = prop_oneof![Just(1), Just(FIRST_OWN_SID)];
        prop_oneof![
            Just(b"PONG\r\n".to_vec()),
            Just(b"INFO {}\r\n".to_vec()),
            Just(b"-ERR 'x'\r\n".to_vec()),
            (word(), sid.clone(), bytes()).prop_map(|(subject, sid, body)| {
                [b"MSG ", &subject[..], format!(" {sid} {}\r\n", body.len()).as_bytes(), &body, b"\r\n"]
                    .concat()
            }),
            (word(), sid, word(), bytes(), bytes()).prop_map(|(subject, sid, reply, block, body)| {
                let sizes = format!(" {} {}\r\n", block.len(), block.len() + body.len());
                let sid = format!(" {sid} ");
                [b"HMSG ", &subject[..], sid.as_bytes(), &reply, sizes.as_bytes(), &block, &body, b"\r\n"]
                    .concat()
            }),
        ]
    }

    proptest! {
        #[test]
        fn segments_make_no_difference(
            ops in proptest::collection::vec(op(), 1..10),
            cuts in proptest::collection::vec(1_usize..20, 1..20),
        ) {
            let sent = ops.concat();
            let whole = read([&sent[..]]);
            let mut segments = Vec::new();
            let mut rest = &sent[..];
            for cut in cuts.into_iter().cycle() {
                let (segment, after) = rest.split_at(cut.min(rest.len()));
                segments.push(segment);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(read(segments), whole);
        }

        #[test]
        fn no_bytes_at_all_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read([&bytes[..]]).ok();
        }
    }
}

//! Headers of a stored message. Both ways to read a bucket must interpret them alike: repeated equal values count
//! once, and a line that begins with white space continues the previous one.

/// The header with the operation of a write.
pub(crate) const OPERATION: &str = "KV-Operation";

/// The header of a marker that the server stored in place of a message.
pub(crate) const MARKER: &str = "Nats-Marker-Reason";

/// What every block starts with.
const VERSION: &[u8] = b"NATS/1.0";

/// The header lines of a block as name and value, without the blanks around the value. A key may end with white space
/// of Unicode, so no other byte is taken off.
pub(crate) fn fields(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(block).skip(1).filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = line.split_at(colon);
        let mut value = &value[1..];
        while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
            value = rest;
        }
        Some((name, value))
    })
}

/// The status of the block's first line with its description, such as `204 EOB`.
pub(crate) fn status(block: &[u8]) -> Option<&[u8]> {
    let status = lines(block).next()?.strip_prefix(VERSION)?.trim_ascii();
    (!status.is_empty()).then_some(status)
}

/// The code and the words of a service's error, as the services API of NATS (ADR-32) puts them into the headers of a
/// response.
pub fn service_error(block: &[u8]) -> Option<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let find = |wanted: &[u8]| fields(block).find(|(name, _)| *name == wanted).map(|(_, value)| text(value));
    Some((find(b"Nats-Service-Error-Code")?, find(b"Nats-Service-Error").unwrap_or_default()))
}

/// Whether a block is readable at a glance and holds nothing that says what the message is: most do.
fn is_plain(block: &[u8]) -> bool {
    let mut lines = lines(block);
    let version = lines.next().unwrap_or_default();
    let is_plain = |line: &[u8]| {
        line.is_empty()
            || line.is_ascii()
                && line[0].is_ascii_alphabetic()
                && line.contains(&b':')
                && !line.starts_with(b"KV-")
                && !line.starts_with(b"Nats-Marker")
    };
    version.starts_with(VERSION) && lines.all(is_plain)
}

fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// What a header block says of its message, as far as it can be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredHeaders {
    /// None of a block that is plain.
    fields: Vec<(String, String)>,
    /// What is wrong with it.
    pub(crate) fault: Option<&'static str>,
}

impl StoredHeaders {
    /// Parses a block. An empty block has no headers.
    pub(crate) fn read(block: &[u8]) -> Self {
        let mut read = StoredHeaders::default();
        if is_plain(block) {
            return read;
        }
        let mut lines = lines(block);
        let version = lines.next().unwrap_or_default();
        if !block.is_empty() && !version.starts_with(VERSION) {
            read.fault = Some("the header block does not start with NATS/1.0");
        }
        let mut may_go_on = false;
        for line in lines {
            let Ok(line) = std::str::from_utf8(line) else {
                read.fault = Some("a header line is not UTF-8");
                may_go_on = false;
                continue;
            };
            let goes_on = may_go_on && line.starts_with([' ', '\t']);
            match (line.split_once(':'), read.fields.last_mut()) {
                (_, Some((_, value))) if goes_on => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                _ if line.is_empty() => may_go_on = false,
                (Some((name, value)), _) => {
                    read.fields.push((name.trim().to_owned(), value.trim().to_owned()));
                    may_go_on = true;
                }
                (None, _) => {
                    read.fault = Some("a header line has no colon");
                    may_go_on = false;
                }
            }
        }
        read
    }

    /// Whether they mark the key as deleted.
    pub(crate) fn say_deleted(&self) -> bool {
        self.values(OPERATION).any(|operation| operation != "PUT") || self.values(MARKER).next().is_some()
    }

    /// The values of the header `name`.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &str) -> (Vec<(String, String)>, Option<&'static str>) {
        let StoredHeaders { fields, fault } = StoredHeaders::read(block.as_bytes());
        (fields, fault)
    }

    fn field(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_line_that_begins_with_white_space_continues_the_one_before() {
        let block = "NATS/1.0\r\nX: a\r\n  b: c \r\n\td\r\nY: e\r\n\r\n";
        assert_eq!(read(block), (vec![field("X", "a b: c d"), field("Y", "e")], None));
        assert_eq!(read("NATS/1.0\r\n X: a\r\n\r\n"), (vec![field("X", "a")], None), "there is none before");
        assert_eq!(read("NATS/1.0\r\nX: a\r\nY: b\r\n\r\n"), (vec![], None), "a plain block says nothing");
    }

    #[test]
    fn what_cannot_be_read_is_a_fault_and_the_rest_is_read() {
        assert_eq!(read(""), (vec![], None));
        assert_eq!(
            read("NATS/1.0\r\nX: \r\nno colon\r\n goes on\r\n\r\n").1,
            Some("a header line has no colon")
        );
        assert_eq!(
            read("HTTP/1.1\r\nX: a\r\n\r\n"),
            (vec![field("X", "a")], Some("the header block does not start with NATS/1.0"))
        );
        let block = StoredHeaders::read(b"NATS/1.0\r\nX: \xff\r\nY: a\r\n\r\n");
        assert_eq!(
            (block.fault, block.values("Y").collect()),
            (Some("a header line is not UTF-8"), vec!["a"])
        );
    }
}

//! Header blocks: which of them the client library can read, and what is left of one that it cannot.
//!
//! The library drops its connection over a block that is not UTF-8, has another version line, or has a line without a
//! colon. Anybody who may publish can send such a block.

/// What every block begins with.
const VERSION: &str = "NATS/1.0";

/// Whether the client library reads the block.
pub fn is_readable(block: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(block) else { return false };
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with(VERSION)) {
        return false;
    }
    let mut may_continue = false;
    lines.all(|line| {
        let is_continuation = may_continue && is_continuation(line);
        may_continue = is_continuation || !line.is_empty();
        is_continuation || line.is_empty() || line.contains(':')
    })
}

fn is_continuation(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// What the library can read of a block that it cannot: the version line and every line with a colon, with U+FFFD for
/// bytes that are no UTF-8.
pub fn readable_part(block: &[u8]) -> String {
    let text = String::from_utf8_lossy(block);
    let mut lines = text.lines();
    let first = lines.next().filter(|line| line.starts_with(VERSION)).unwrap_or(VERSION);
    let mut part = format!("{first}\r\n");
    for line in lines.filter(|line| line.contains(':') && !is_continuation(line)) {
        part.push_str(line);
        part.push_str("\r\n");
    }
    part.push_str("\r\n");
    part
}

#[cfg(test)]
#[expect(deprecated, reason = "upstream deprecates the whole synchronous client")]
mod tests {
    use super::*;
    use nats::HeaderMap;
    use proptest::prelude::*;

    /// A block of pieces that matter to one reader or the other.
    fn block() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => Just(b"NATS/1.0".to_vec()),
            6 => Just(b"\r\n".to_vec()),
            2 => Just(b"\n".to_vec()),
            1 => Just(b"\r".to_vec()),
            4 => Just(b"Name: value".to_vec()),
            2 => Just(b"no colon".to_vec()),
            2 => Just(b" continued".to_vec()),
            1 => Just(b"\t:".to_vec()),
            1 => Just(" 503 \u{85}".as_bytes().to_vec()),
            1 => Just("\u{a0}:\u{2028}".as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..6),
        ];
        let start = prop_oneof![3 => Just(b"NATS/1.0\r\n".to_vec()), 1 => Just(Vec::new())];
        (start, proptest::collection::vec(piece, 0..12)).prop_map(|(mut start, pieces)| {
            start.extend(pieces.concat());
            start
        })
    }

    proptest! {
        #[test]
        fn what_is_called_readable_is_what_the_library_reads(block in block()) {
            prop_assert_eq!(is_readable(&block), HeaderMap::try_from(&block[..]).is_ok());
        }

        #[test]
        fn the_readable_part_of_any_block_is_readable(block in block()) {
            let part = readable_part(&block);
            prop_assert!(is_readable(part.as_bytes()));
            prop_assert!(HeaderMap::try_from(part.as_bytes()).is_ok());
        }
    }

    #[test]
    fn good_lines_of_a_bad_block_are_kept() {
        let part = readable_part(b"NATS/1.0 503\r\nno colon\r\nA: 1\r\n b\r\nC: \xff\r\n\r\n");
        assert_eq!(part, "NATS/1.0 503\r\nA: 1\r\nC: \u{fffd}\r\n\r\n");
    }
}

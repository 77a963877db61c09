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
/// bytes that are not UTF-8.
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
mod tests {
    use super::*;

    #[test]
    fn good_lines_of_a_bad_block_are_kept() {
        let part = readable_part(b"NATS/1.0 503\r\nno colon\r\nA: 1\r\n b\r\nC: \xff\r\n\r\n");
        assert_eq!(part, "NATS/1.0 503\r\nA: 1\r\nC: \u{fffd}\r\n\r\n");
    }
}

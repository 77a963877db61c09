//! What the client library sends, in segments of any size: where its lines and bodies begin, so that its pings can be
//! counted, and so that words of the gate's own go in between and never into the middle of a message.

use memchr::memchr;
use std::collections::BTreeSet;

/// The longest line that is taken for one. The library sends none near it.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The library sent something that is not a line of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Follows what the library sends.
#[derive(Debug, Default)]
pub(super) struct FromLibrary {
    /// A line that has not ended.
    line: Vec<u8>,
    /// How many bytes of a body, its line end included, are still to come.
    body: usize,
    pings: u64,
    /// The numbers of its subscriptions.
    sids: BTreeSet<u64>,
    /// Lines of the gate's own that wait for the end of a message.
    own: Vec<u8>,
}

impl FromLibrary {
    /// How many pings the library has sent.
    pub(super) const fn pings(&self) -> u64 {
        self.pings
    }

    /// The numbers of the library's subscriptions. They are given up at the server from now on.
    pub(super) fn take_sids(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.sids)
    }

    /// Adds a line of the gate's own to `server`: now, or as soon as the message that is on its way has ended.
    pub(super) fn say(&mut self, line: &[u8], server: &mut Vec<u8>) {
        let queue = if self.is_between() { server } else { &mut self.own };
        queue.extend_from_slice(line);
    }

    /// Takes what came next, and adds it to `server`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], server: &mut Vec<u8>) -> Result<(), Unreadable> {
        while !bytes.is_empty() {
            let taken = if self.body > 0 { self.body(bytes) } else { self.line(bytes)? };
            let (taken, rest) = bytes.split_at(taken);
            server.extend_from_slice(taken);
            bytes = rest;
            if self.is_between() {
                server.append(&mut self.own);
            }
        }
        Ok(())
    }

    const fn is_between(&self) -> bool {
        self.body == 0 && self.line.is_empty()
    }

    fn body(&mut self, bytes: &[u8]) -> usize {
        let taken = self.body.min(bytes.len());
        self.body -= taken;
        taken
    }

    fn line(&mut self, bytes: &[u8]) -> Result<usize, Unreadable> {
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..taken]);
        if self.line.len() > MAX_LINE_BYTES {
            return Err(Unreadable);
        }
        if end.is_none() {
            return Ok(taken);
        }
        if self.line.starts_with(b"PING") {
            self.pings += 1;
        } else if let Some(made) = self.line.strip_prefix(b"SUB ") {
            self.sids.extend(number(made.trim_ascii_end().rsplit(|byte| *byte == b' ').next()));
        } else if let Some(ended) = self.line.strip_prefix(b"UNSUB ") {
            if let Some(sid) = number(ended.trim_ascii_end().split(|byte| *byte == b' ').next()) {
                self.sids.remove(&sid);
            }
        } else if self.line.starts_with(b"PUB ") || self.line.starts_with(b"HPUB ") {
            let size = number(self.line.trim_ascii_end().rsplit(|byte| *byte == b' ').next());
            let size = size.and_then(|size| u32::try_from(size).ok());
            self.body = size.ok_or(Unreadable)? as usize + 2;
        }
        self.line.clear();
        Ok(taken)
    }
}

fn number(text: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(text?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_its_subscriptions_are_known() {
        let mut from_library = FromLibrary::default();
        let said = b"SUB a 1\r\nSUB a.> queue 2\r\nPUB a 7\r\nSUB b 9\r\nSUB c 3\r\nUNSUB 1\r\n";
        from_library.feed(said, &mut Vec::new()).unwrap();
        assert_eq!(from_library.take_sids(), BTreeSet::from([2, 3]));
        assert_eq!(from_library.take_sids(), BTreeSet::new());
    }

    const SENT: &[u8] =
        b"SUB a 1\r\nPUB a 6\r\nPING\r\n\r\nPING\r\nHPUB a b 12 18\r\nNATS/1.0\r\n\r\nPING\r\n\r\nPING\r\n";

    #[test]
    fn pings_are_counted_outside_of_bodies_whatever_the_segments() {
        for size in 1..SENT.len() {
            let (mut from_library, mut server) = (FromLibrary::default(), Vec::new());
            for segment in SENT.chunks(size) {
                from_library.feed(segment, &mut server).unwrap();
            }
            assert_eq!((from_library.pings(), &server[..]), (2, SENT), "in segments of {size}");
        }
    }

    #[test]
    fn our_own_lines_go_between_messages() {
        for at in 0..=SENT.len() {
            let (mut from_library, mut server) = (FromLibrary::default(), Vec::new());
            from_library.feed(&SENT[..at], &mut server).unwrap();
            from_library.say(b"PONG\r\n", &mut server);
            from_library.feed(&SENT[at..], &mut server).unwrap();
            let server = String::from_utf8(server).unwrap();
            let place = server.find("PONG\r\n").unwrap();
            assert!(place >= at, "after what was sent before");
            assert!([0, 9, 26, 32, 68, 74].contains(&place), "between messages: {server:?}");
            assert_eq!(server.replace("PONG\r\n", "").as_bytes(), SENT);
        }
    }

    #[test]
    fn a_size_that_is_none_is_not_guessed() {
        assert_eq!(FromLibrary::default().feed(b"PUB a x\r\n", &mut Vec::new()), Err(Unreadable));
    }
}

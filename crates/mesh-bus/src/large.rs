//! How many bytes of large messages may wait in the client library, which bounds only their number.

use std::collections::VecDeque;

/// How many bytes of large messages may wait to be taken, besides what the sockets on the way to the library hold.
pub const MAX_LARGE_BYTES: usize = 16 * 1024 * 1024;

/// The large messages that were passed to the library last.
#[derive(Debug, Default)]
pub(crate) struct Large {
    /// Their sizes, the newest last.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl Large {
    /// Whether another large message may be passed on. `waiting` is how many messages wait, large ones or not: no more
    /// than that many of the large ones can be among them, and those are the newest.
    pub(crate) fn has_room(&mut self, bytes: usize, waiting: impl FnOnce() -> usize) -> bool {
        if self.bytes + bytes > MAX_LARGE_BYTES {
            let waiting = waiting();
            while self.sizes.len() > waiting {
                self.bytes -= self.sizes.pop_front().unwrap_or_default();
            }
        }
        // One always has room, however large.
        let has_room = self.sizes.is_empty() || self.bytes + bytes <= MAX_LARGE_BYTES;
        if has_room {
            self.sizes.push_back(bytes);
            self.bytes += bytes;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_in_bytes_and_what_was_taken_makes_room() {
        const MIB: usize = 1024 * 1024;
        let mut large = Large::default();
        for waiting in 0..16 {
            assert!(large.has_room(MIB, || waiting));
        }
        assert!(!large.has_room(MIB, || 16), "all of them wait");
        assert!(large.has_room(MIB, || 15), "one was taken");
        assert!(!large.has_room(MIB, || 16));
        assert!(large.has_room(64 * MIB, || 0), "one has room however large it is");
        assert!(!large.has_room(1, || 1));
    }
}

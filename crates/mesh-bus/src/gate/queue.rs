//! Bytes that wait for a socket.

use std::io::{self, ErrorKind, Write};

/// A queue that is this full takes no more from the other side: the rest waits in the kernel, and then at the
/// sender.
pub(super) const FULL_BYTES: usize = 1024 * 1024;

/// Bytes that wait for a socket.
#[derive(Debug, Default)]
pub(super) struct Queue {
    bytes: Vec<u8>,
    /// How many of them have left.
    left: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.left == self.bytes.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() - self.left >= FULL_BYTES
    }

    /// Where to add more.
    pub(super) const fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.left..]
    }

    pub(super) fn remove(&mut self, count: usize) {
        self.left += count;
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(FULL_BYTES);
            self.left = 0;
        } else if self.left > FULL_BYTES {
            self.bytes.drain(..self.left);
            self.left = 0;
        }
    }

    /// Writes what the socket takes now.
    pub(super) fn write_to(&mut self, mut socket: impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match socket.write(self.waiting()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.remove(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three bytes at a time, and every other time none.
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_bytes_leave_in_their_order() {
        let (mut queue, mut slow) = (Queue::default(), Slow(Vec::new(), false));
        queue.end().extend_from_slice(b"01234");
        queue.write_to(&mut slow).unwrap();
        queue.write_to(&mut slow).unwrap();
        queue.end().extend_from_slice(b"567");
        while !queue.is_empty() {
            queue.write_to(&mut slow).unwrap();
        }
        assert_eq!(slow.0, b"01234567");
        assert!(!queue.is_full());
        queue.end().resize(FULL_BYTES, 0);
        assert!(queue.is_full());
    }
}

//! What is kept of an output: its beginning and its end.

use std::fmt;
use zeroize::Zeroize as _;

/// The two ends of an output. It may hold what was given to the command, so it is wiped when it is dropped.
pub struct Capture {
    half: usize,
    head: Vec<u8>,
    /// A ring, full once it has `half` bytes.
    tail: Vec<u8>,
    /// Where the ring's oldest byte is.
    oldest: usize,
    skipped: u64,
}

impl Capture {
    /// Keeps half of `keep` bytes from each end.
    pub(super) const fn new(keep: usize) -> Self {
        Self { half: keep / 2, head: Vec::new(), tail: Vec::new(), oldest: 0, skipped: 0 }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        grow(&mut self.head, first);
        for byte in rest {
            if self.tail.len() < self.half {
                grow(&mut self.tail, &[*byte]);
            } else {
                self.tail[self.oldest] = *byte;
                self.oldest = (self.oldest + 1) % self.half;
                self.skipped += 1;
            }
        }
    }

    /// The output, if nothing of it was left out.
    pub fn whole(&self) -> Option<Vec<u8>> {
        (self.skipped == 0).then(|| [self.head.as_slice(), &self.tail].concat())
    }

    /// The output as text, if nothing of it was left out and it is UTF-8.
    pub fn text(&self) -> Option<String> {
        self.whole().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// The last lines, as one line of at most about 1 KiB.
    pub fn last_lines(&self) -> String {
        const SHOWN: usize = 1 << 10;
        let end = [&self.head, &self.tail[self.oldest..], &self.tail[..self.oldest]].concat();
        let text = String::from_utf8_lossy(&end);
        let mut lines: Vec<&str> = Vec::new();
        let mut length = 0;
        for line in text.lines().rev().map(str::trim).filter(|line| !line.is_empty()) {
            length += line.len();
            if lines.len() == 5 || length > SHOWN && !lines.is_empty() {
                break;
            }
            lines.push(line);
        }
        lines.reverse();
        let mut joined = lines.join("; ");
        if joined.len() > SHOWN {
            let cut = (0..=SHOWN).rev().find(|at| joined.is_char_boundary(*at)).unwrap_or(0);
            joined.truncate(cut);
            joined.push('…');
        }
        joined
    }
}

/// Adds bytes; an outgrown buffer is wiped.
fn grow(buffer: &mut Vec<u8>, bytes: &[u8]) {
    if buffer.len() + bytes.len() > buffer.capacity() {
        let mut larger = Vec::with_capacity((buffer.len() + bytes.len()).next_power_of_two().max(512));
        larger.extend_from_slice(buffer);
        buffer.zeroize();
        *buffer = larger;
    }
    buffer.extend_from_slice(bytes);
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.head.zeroize();
        self.tail.zeroize();
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({} bytes)", (self.head.len() + self.tail.len()) as u64 + self.skipped)
    }
}

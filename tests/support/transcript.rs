//! What a child process wrote, kept as it comes, so that a test can wait for a line.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::wait::{PATIENCE, tail, until};

/// The reading end of a pipe, read by a thread of its own.
pub(crate) struct Transcript {
    shared: Arc<Shared>,
    reading_end: String,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    ended: bool,
    hang_up: bool,
}

impl Transcript {
    /// A transcript, and the pipe's end to give to the child.
    ///
    /// The transcript ends when every copy of that end is closed, so keep none.
    pub(crate) fn open() -> (Self, PipeWriter) {
        let (reader, writer) = io::pipe().expect("a pipe");
        let shared = Arc::new(Shared::default());
        let reading_end = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.keep(reader))
        };
        (Self { shared, reading_end, reader: Some(thread) }, writer)
    }

    /// Everything written so far; bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().bytes).into_owned()
    }

    /// How much was written so far: a place to wait from.
    pub(crate) fn mark(&self) -> usize {
        self.shared.lock().bytes.len()
    }

    /// Waits until `needle` was written after the place `mark`, and gives the line that holds it.
    ///
    /// Panics when it does not come `within` that time, or cannot come any more.
    #[track_caller]
    pub(crate) fn wait_for(&self, whose: &str, mark: usize, needle: &str, within: Duration) -> String {
        let deadline = Instant::now() + within;
        let mut seen = self.shared.lock();
        loop {
            let text = String::from_utf8_lossy(&seen.bytes[mark..]);
            // Only whole lines count, so the line that is returned is complete.
            let line = text.split_inclusive('\n').find(|line| line.contains(needle) && line.ends_with('\n'));
            if let Some(line) = line {
                return line.trim_end().to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if seen.ended || left.is_zero() {
                let end = if seen.ended { "it ended before" } else { "it did not come" };
                let text = tail(&text);
                drop(seen);
                panic!(
                    "waited {within:?} for {needle:?} in the {whose}'s log; {end}; since then it holds\n{text}"
                );
            }
            seen = self.shared.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the reading end: from now on every write of the child fails with a broken pipe.
    #[track_caller]
    pub(crate) fn hang_up(&mut self) {
        let mut seen = self.shared.lock();
        seen.hang_up = true;
        // The thread stands in a read, and only a byte wakes it. The pipe can be opened again by its name,
        // which spares us a writing end kept open: with one, the end of the child would never be seen here.
        // The name is right as long as the thread has not ended, and under the lock it does not end.
        let pipe = if seen.ended { None } else { File::options().write(true).open(&self.reading_end).ok() };
        drop(seen);
        if let Some(mut pipe) = pipe {
            // A thread that was awake has closed the pipe by itself.
            let _ = pipe.write_all(b"\n");
        }
        self.finish();
    }

    /// Waits until all is read. For after the end of the child.
    #[track_caller]
    pub(crate) fn finish(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        until("the end of a child's output", PATIENCE, || {
            reader.is_finished().then_some(()).ok_or_else(|| "somebody holds the pipe open".to_owned())
        });
        reader.join().expect("the reader of a child's output");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, mut pipe: PipeReader) {
        let mut chunk = [0; 8192];
        loop {
            let read = pipe.read(&mut chunk).unwrap_or(0);
            let mut seen = self.lock();
            if read == 0 || seen.hang_up {
                seen.ended = true;
                self.changed.notify_all();
                return;
            }
            seen.bytes.extend_from_slice(&chunk[..read]);
            self.changed.notify_all();
        }
    }
}

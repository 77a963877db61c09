//! Waiting for several sockets at once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What is waited for on one socket.
pub(super) struct Interest<'a> {
    socket: BorrowedFd<'a>,
    flags: PollFlags,
}

impl<'a> Interest<'a> {
    /// Nothing as yet.
    pub(super) fn none(socket: &'a impl AsFd) -> Self {
        Interest { socket: socket.as_fd(), flags: PollFlags::empty() }
    }

    /// Something to read, or its end.
    pub(super) fn read(socket: &'a impl AsFd) -> Self {
        Interest { socket: socket.as_fd(), flags: PollFlags::IN }
    }

    /// Also something to read.
    pub(super) fn or_read_if(mut self, wanted: bool) -> Self {
        self.flags.set(PollFlags::IN, wanted);
        self
    }

    /// Also room to write.
    pub(super) fn or_write_if(mut self, wanted: bool) -> Self {
        self.flags.set(PollFlags::OUT, wanted);
        self
    }

    /// Nothing, unless `wanted`.
    pub(super) fn only_if(mut self, wanted: bool) -> Self {
        if !wanted {
            self.flags = PollFlags::empty();
        }
        self
    }
}

/// Waits until one of them is ready, at most so long; which ones are. A socket that nothing is waited for on is left
/// out: its end would be told at once, again and again.
pub(super) fn wait(interests: &[Interest<'_>], at_most: Option<Duration>) -> io::Result<Vec<bool>> {
    let at_most = at_most.map(|at_most| Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    });
    let wanted = |interest: &&Interest<'_>| !interest.flags.is_empty();
    let mut polled: Vec<PollFd<'_>> = interests
        .iter()
        .filter(wanted)
        .map(|interest| PollFd::from_borrowed_fd(interest.socket, interest.flags))
        .collect();
    match poll(&mut polled, at_most.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut results = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(interests.iter().map(|interest| wanted(&interest) && results.next().unwrap_or(false)).collect())
}

//! Signals as messages of a channel.

use std::io;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The stack of the thread that signals arrive on, in bytes.
const STACK_BYTES: usize = 128 * 1024;

/// Enough for every message that can differ from the ones before it.
const CAPACITY: usize = 4;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// TERM or INT: finish what is under way and exit.
    Stop,
    /// Another INT: exit at once.
    StopNow,
    /// HUP: reload, at the seat a registry pass.
    Reload,
}

/// Handles TERM, INT and HUP from now on; they arrive on the channel, from a separate thread.
///
/// Call it before anything slow: the kernel ignores a signal without a handler if we are PID 1, and kills us
/// otherwise. Keep the receiver to the end: without it these signals do nothing. PIPE needs no handler, because Rust
/// programs ignore it.
pub fn start() -> io::Result<Receiver<Signal>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = bounded(CAPACITY);
    thread::Builder::new().name("signals".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let mut interrupted = false;
        for number in signals.forever() {
            let signal = match number {
                SIGHUP => Signal::Reload,
                SIGINT if interrupted => Signal::StopNow,
                _ => Signal::Stop,
            };
            interrupted |= number == SIGINT;
            if !deliver(&sender, signal) {
                break;
            }
        }
    })?;
    Ok(receiver)
}

/// Returns whether the receiver still exists. A request to stop waits for room; of several requests to reload one is
/// enough.
fn deliver(sender: &Sender<Signal>, signal: Signal) -> bool {
    match signal {
        Signal::Reload => !sender.try_send(signal).is_err_and(|error| error.is_disconnected()),
        Signal::Stop | Signal::StopNow => sender.send(signal).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn each_signal_has_its_message() {
        let receiver = start().unwrap();
        for (number, signal) in [
            (SIGHUP, Signal::Reload),
            (SIGTERM, Signal::Stop),
            (SIGINT, Signal::Stop),
            (SIGHUP, Signal::Reload),
            (SIGINT, Signal::StopNow),
            (SIGINT, Signal::StopNow),
        ] {
            raise(number).unwrap();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(5)), Ok(signal));
        }
    }

    #[test]
    fn no_request_to_stop_is_lost_behind_others() {
        let (sender, receiver) = bounded(1);
        assert!(deliver(&sender, Signal::Reload));
        assert!(deliver(&sender, Signal::Reload));
        let waiting = thread::spawn(move || deliver(&sender, Signal::Stop));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Signal::Reload, Signal::Stop]);
        assert!(waiting.join().unwrap());
        let (sender, receiver) = bounded(1);
        drop(receiver);
        assert!(!deliver(&sender, Signal::Reload));
        assert!(!deliver(&sender, Signal::Stop));
    }
}

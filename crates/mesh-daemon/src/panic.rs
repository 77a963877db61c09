//! A panic is a bug, and ends the whole process.

use crate::exit::Exit;
use log::error;
use std::panic;

/// From now on a panic in any thread ends the process with a code that says that it is a bug: a thread of a library
/// that died alone would leave a program that is there and does nothing.
pub fn end_process() {
    panic::set_hook(Box::new(|panic| {
        error!("a bug: {panic}: please report it with this log");
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

//! A panic is a bug, and ends the whole process.

use crate::exit::Exit;
use log::error;
use std::panic;

/// From now on a panic in any thread ends the process with a code that says that it is a bug: a thread that died alone
/// would leave a program that is there and does nothing. The exception is a panic that `is_contained`: somebody sees to
/// it that nothing but a connection is lost.
pub fn end_process(is_contained: fn() -> bool) {
    panic::set_hook(Box::new(move |panic| {
        if is_contained() {
            return error!("the client library failed, and the connection is given up: {panic}");
        }
        error!("a bug: {panic}: please report it with this log");
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

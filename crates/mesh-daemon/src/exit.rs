//! The exit codes: the meaning of each, and what an operator does about it.
//!
//! From 64 on they are those of `sysexits.h`, which service managers and scripts know. All commands share one table,
//! so that a unit file can set `RestartPreventExitStatus=64 78`.

use std::process::ExitCode;

/// How a command ended. The discriminant is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: done; `serve` stopped on request; `health` found the seat alive; `plan` found no difference.
    Done = 0,
    /// 1: the command ran and failed: `ask` got an error response, a line of `check` failed, `health` found no live
    /// seat, `init` could not create a bucket. The output says which. Correct that and run it again.
    Failed = 1,
    /// 2: `plan` found something that the next registry pass would change. This alone is not a fault.
    Differs = 2,
    /// 3: `ask gaps`, `ask drift` or `ask health` got a response that is not ok. Look at its entries.
    NotOk = 3,
    /// 64: the command line is wrong. Read `--help`; a restart without a change does not help.
    Usage = 64,
    /// 69: the bus cannot be reached, or nobody responded (one-shot commands; `serve` keeps trying instead). Check
    /// whether the server and the seat run, and try again.
    Unavailable = 69,
    /// 70: a bug in this program. Report it with the log; a restart is safe.
    Bug = 70,
    /// 75: the connection is stuck and the program cannot repair it. A restart does: let the supervisor do it.
    Stuck = 75,
    /// 77: the server denies a permission that the command needs. Compare with what `permissions` prints.
    Denied = 77,
    /// 78: the configuration is wrong. One line on stderr says what to change; a restart without a change does not
    /// help.
    Configuration = 78,
    /// 130: a second INT ended the process at once, without finishing what was under way.
    Interrupted = 130,
}

impl Exit {
    /// All of them, in the order of PROTOCOL.md.
    pub const ALL: [Exit; 11] = [
        Exit::Done,
        Exit::Failed,
        Exit::Differs,
        Exit::NotOk,
        Exit::Usage,
        Exit::Unavailable,
        Exit::Bug,
        Exit::Stuck,
        Exit::Denied,
        Exit::Configuration,
        Exit::Interrupted,
    ];

    /// The exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

//! The exit codes: what each means, and what an operator does about it.
//!
//! From 64 on they are those of `sysexits.h`, which service managers and scripts know already. One table for
//! all commands, so that a unit file may say `RestartPreventExitStatus=64 78` and be right.

use std::process::ExitCode;

/// How a command ended. The discriminant is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: done; `serve` was asked to stop and did; `health` found the seat alive; `plan` found nothing to do.
    Done = 0,
    /// 1: the command ran and its answer is bad: `ask` got an error answer, a line of `check` failed,
    /// `health` found no live seat, `init` could not make a bucket. The output says which; put that right,
    /// ask again.
    Failed = 1,
    /// 2: `plan` found something that the next registry write would change. Nothing is wrong by that alone.
    Differs = 2,
    /// 3: `ask gaps`, `ask drift` or `ask health` was answered, and the answer is not ok. Look at its
    /// entries.
    NotOk = 3,
    /// 64: the command line is wrong. Read `--help`; starting again without a change is of no use.
    Usage = 64,
    /// 69: the bus cannot be reached, or nobody answered (one-shot commands; `serve` keeps trying instead).
    /// Look whether the server and the seat run, and try again.
    Unavailable = 69,
    /// 70: a bug of this program. Report it with the log; a restart is safe.
    Bug = 70,
    /// 75: the connection is stuck beyond repair from within. A restart is the repair: let the supervisor do
    /// it.
    Stuck = 75,
    /// 77: the bus denies a right that the command needs. Compare with what `permissions` prints.
    Denied = 77,
    /// 78: the configuration is wrong. The one line on stderr says what to change; starting again without a
    /// change is of no use.
    Configuration = 78,
    /// 130: a second INT ended the process at once, with whatever was under way.
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

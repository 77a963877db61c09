//! What the command line of every command has in common.

use mesh_daemon::arguments::Grammar;
use std::fmt::Display;
use std::str::FromStr;

/// The program's name, as it is typed.
pub const PROGRAM: &str = "mesh-provisioner";

/// What the parser does not know of the command line: other spellings, mostly those of the `nats` tool.
pub const GRAMMAR: Grammar = Grammar {
    program: PROGRAM,
    aliases: &[
        ("-s", "--server"),
        ("--tlsca", "--tls-ca"),
        ("--tlscert", "--tls-cert"),
        ("--tlskey", "--tls-key"),
        ("-o", "--output"),
        ("-w", "--watch"),
        ("--colour", "--color"),
        ("--no-header", "--no-headers"),
    ],
    instead: &[
        (
            "--password",
            "set NATS_PASSWORD, since every user of the machine can read the arguments of a process",
        ),
        ("--token", "set NATS_TOKEN, since every user of the machine can read the arguments of a process"),
        ("--timeout", "a question is answered or refused within 6 seconds"),
    ],
    defaults: &[("--watch", "2s")],
};

/// Reads a whole number of an option.
pub(crate) fn parse_whole<T: FromStr + PartialOrd + Display + Copy>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{text:?} is not an integer from {least} to {most}")),
    }
}

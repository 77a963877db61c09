//! The program: arguments in, exit code out. Everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mesh_vault::cli::run(std::env::args_os().skip(1)).into()
}

//! The program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    mesh_controller::cli::run(std::env::args_os().skip(1)).into()
}

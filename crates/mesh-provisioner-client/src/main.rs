//! The program; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mesh_provisioner_client::cli::run(std::env::args_os().skip(1))
}

//! What a program says of its version.

/// The line that `--version` prints: `mesh-vault 1.2.3 (0123456789ab)`. The commit is left out where the build did not know
/// it, as in a copy of the sources without git.
pub fn version(program: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("MESH_PROVISIONER_COMMIT") {
        Some(commit) => format!("{program} {version} ({commit})\n"),
        None => format!("{program} {version}\n"),
    }
}

//! The manual page and the completions that ship are those of the table of commands.
//!
//! `MESH_WRITE_PAGES=1 cargo test -p mesh-controller --test packaging` writes them again.

use mesh_controller::cli::pages::pages;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/mesh-controller");

#[test]
fn what_ships_is_what_the_commands_are() {
    let all = [
        ("mesh-controller.8", pages().manual()),
        ("mesh-controller.bash", pages().bash()),
        ("_mesh-controller", pages().zsh()),
        ("mesh-controller.fish", pages().fish()),
    ];
    for (name, wanted) in all {
        let path = Path::new(FOLDER).join(name);
        if std::env::var_os("MESH_WRITE_PAGES").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == wanted,
            "{name} is old: MESH_WRITE_PAGES=1 cargo test -p mesh-controller --test packaging"
        );
    }
}

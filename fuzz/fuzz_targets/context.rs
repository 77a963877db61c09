//! The file of a context.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_bus::config::{Flags, load};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|text: &[u8]| {
    let path: PathBuf = FOLDER.path().join("lab.json");
    fs::write(&path, text).expect("a file");
    let flags = Flags { context: path.to_str().map(str::to_owned), ..Flags::default() };
    if let Err(error) = load(&flags, &|_| None) {
        assert!(!error.to_string().is_empty());
    }
});

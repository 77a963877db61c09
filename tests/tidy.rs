//! Rules of the repository that no compiler checks.

#[path = "tidy/imports.rs"]
mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest source file, in lines, its unit tests not counted.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the repository whose name ends with `end`, but for what is built.
fn files(end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let built = ["target", "corpus", "artifacts", ".git"].contains(&name.as_str());
            if path.is_dir() && !built {
                folders.push(path);
            } else if path.is_file() && name.ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The source files below these places of the repository, with their paths from its root.
fn sources(places: &[&str]) -> Vec<(String, String)> {
    let relative = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let within =
        |path: &String| places.iter().any(|place| path == place || path.starts_with(&format!("{place}/")));
    let found: Vec<(String, String)> = files(".rs")
        .iter()
        .map(|path| (relative(path), fs::read_to_string(path).unwrap()))
        .filter(|(path, _)| within(path))
        .collect();
    assert!(!found.is_empty(), "nothing under {places:?}");
    found
}

/// The lines of code: their number and text, without those that are comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Whether `word` stands in `line` as a word of its own, as far as its ends are letters.
fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_letter);
        let after = line[at + word.len()..].chars().next().is_some_and(is_letter);
        !(before && word.starts_with(is_letter) || after && word.ends_with(is_letter))
    })
}

/// Every place below `places` where one of `words` stands.
fn places_of(words: &[&str], places: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(places) {
        for (number, line) in code(&text) {
            let words = words.iter().filter(|word| has_word(line, word));
            found.extend(words.map(|word| format!("{path}:{number}: {word}")));
        }
    }
    found
}

fn none(found: &[String], why: &str) {
    assert!(found.is_empty(), "{why}:\n{}", found.join("\n"));
}

#[test]
fn the_machine_and_what_crosses_the_bus_know_nothing_of_the_world() {
    let words = [
        "Instant",
        "SystemTime",
        "std::thread",
        "std::net",
        "std::env",
        "std::fs",
        "std::io",
        "std::process",
        "std::sync::Mutex",
        "std::sync::RwLock",
        "std::sync::Condvar",
        "std::sync::Once",
        "std::sync::LazyLock",
        "std::sync::atomic",
        "std::sync::mpsc",
        "std::sync::{",
        "rand",
        "nuid",
        "nats::",
        "nkeys",
        "crossbeam_channel",
        "signal_hook",
        "env_logger",
        "crate::shell",
        "crate::cli",
        "mesh_bus",
        "mesh_daemon",
        // A group would hide a module from this test.
        "std::{",
    ];
    let pure = [
        "src/seat.rs",
        "src/seat",
        "crates/mesh-provisioner-api/src",
        "crates/mesh-jetstream/src",
        "crates/mesh-model/src",
        "crates/mesh-service/src",
        // What a controller decides: the composition, the plan, the status, and writing one value.
        "crates/mesh-controller/src/compose.rs",
        "crates/mesh-controller/src/compose/bindings.rs",
        "crates/mesh-controller/src/compose/module.rs",
        "crates/mesh-controller/src/compose/ports.rs",
        "crates/mesh-controller/src/compose/reason.rs",
        "crates/mesh-controller/src/compose/seats.rs",
        "crates/mesh-controller/src/compose/snapshot.rs",
        "crates/mesh-controller/src/plan.rs",
        "crates/mesh-controller/src/plan/diff.rs",
        "crates/mesh-controller/src/push/write.rs",
        "crates/mesh-controller/src/status.rs",
        // What the vault decides; what makes and seals is beside it.
        "crates/mesh-provisioner-client/src/machine.rs",
        "crates/mesh-provisioner-client/src/machine",
        "crates/mesh-vault/src/holdings.rs",
        "crates/mesh-vault/src/machine.rs",
        "crates/mesh-vault/src/machine",
        "crates/mesh-vault/src/place.rs",
        "crates/mesh-vault/src/task.rs",
        "crates/mesh-vault/src/wire.rs",
    ];
    // The model of the mesh is where keys and signatures are known; it is given every nonce and every seed.
    let (keys, machine): (Vec<&str>, Vec<&str>) =
        pure.into_iter().partition(|path| path.contains("mesh-model"));
    let without_keys: Vec<&str> = words.into_iter().filter(|word| *word != "nkeys").collect();
    none(&places_of(&words, &machine), "no clock, thread, network, file, chance or environment here");
    // Their order differs from one process to the next, and with it what a machine does.
    none(
        &places_of(&["HashMap", "HashSet"], &pure),
        "take BTreeMap or BTreeSet, so that one seed reproduces a run",
    );
    none(&places_of(&without_keys, &keys), "no clock, thread, network, file, chance or environment here");
    // Printing goes through the shell: the seat only asks for a line.
    none(
        &places_of(&["println!", "eprintln!", "log::warn!", "log::info!", "log::error!"], &pure),
        "no output here",
    );
}

#[test]
fn one_file_knows_the_bus_library() {
    let mut found = places_of(&["::nats::", "use nats::", "extern crate nats"], &["src", "crates"]);
    found.retain(|place| {
        let mut parts = place.split(':');
        let (path, number) = (parts.next().unwrap(), parts.next().unwrap());
        let text = fs::read_to_string(root().join(path)).unwrap();
        let line = text.lines().nth(number.parse::<usize>().unwrap() - 1).unwrap();
        let is_our_module = line.contains("mesh_bus::nats::") || line.contains("crate::nats::");
        // The tests of the gate run the real library behind it.
        path != "crates/mesh-bus/src/nats.rs" && !path.starts_with("crates/mesh-bus/tests/") && !is_our_module
    });
    none(&found, "only crates/mesh-bus/src/nats.rs, and the tests of that crate, name the library");
}

#[test]
fn no_code_is_unsafe() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""), "the lint is not in Cargo.toml");
    none(&places_of(&["unsafe"], &["src", "crates"]), "unsafe code");
}

#[test]
fn nothing_is_left_unfinished() {
    let words = [concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("db", "g!")];
    none(&places_of(&words, &["src", "crates", "tests", "packaging"]), "left over");
}

#[test]
fn no_file_is_too_long_to_read() {
    let long: Vec<String> = sources(&["src", "crates"])
        .into_iter()
        .map(|(path, text)| (path, text.lines().take_while(|line| *line != "#[cfg(test)]").count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    none(&long, "split it");
}

#[test]
fn the_newest_change_is_of_this_version() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let newest =
        changelog.lines().find_map(|line| line.strip_prefix("## ")).expect("a heading for a version");
    let version = newest.split_whitespace().next().unwrap().trim_matches(['[', ']']);
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "the newest heading of CHANGELOG.md is {newest:?}");
}

/// The lines of a document outside its code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    text.lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            in_code ^= fence;
            !in_code && !fence
        })
        .collect()
}

/// The anchors of a document's headings, as the usual renderers make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// Where the links of a document lead, without those to other places of the world.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let documents = files(".md");
    assert!(documents.len() >= 2, "{documents:?}");
    let mut dead = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let (path, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(path, at)| (path, Some(at)));
            let target =
                if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            let leads = match anchor {
                None => target.exists(),
                Some(anchor) => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !leads {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    none(&dead, "dead links");
}

#[test]
fn the_rules_themselves_can_fail() {
    assert!(has_word("use std::time::Instant;", "Instant") && !has_word("Instantly", "Instant"));
    assert!(has_word("::nats::Options", "nats::") && !has_word("use std::fsx", "std::fs"));
    assert_eq!(code("// Instant\nlet a = 1;").collect::<Vec<_>>(), [(2, "let a = 1;")]);
    assert_eq!(links("see [a](b.md#c) and [d](https://e)\n```\n[x](y)\n```"), ["b.md#c"]);
    assert!(anchors("# Names and tokens, `q`").contains("names-and-tokens-q"));
}

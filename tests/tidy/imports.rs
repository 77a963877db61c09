//! Which file may import which, inside the seat and between the crates.

use super::{code, none, root, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The floors of the seat's sources, from the ground up. A file stands on the floor of the longest name here that its path
/// starts with, and imports nothing that stands higher.
const FLOORS: [&[&str]; 11] = [
    // What the machine's parts share.
    &[
        "src/seat/action.rs",
        "src/seat/event.rs",
        "src/seat/limits.rs",
        "src/seat/call.rs",
        "src/seat/topic.rs",
        "src/seat/peers.rs",
        "src/seat/link_state.rs",
        "src/seat/bulk_pauses.rs",
        "src/seat/long_reads.rs",
        "src/seat/check_schedule.rs",
        "src/seat/health_report.rs",
    ],
    &["src/seat/in_flight.rs"],
    &["src/seat/read/", "src/seat/read.rs"],
    &["src/seat/query/key_filter.rs", "src/seat/query/context.rs"],
    &["src/seat/query/", "src/seat/query.rs"],
    &["src/seat/queries.rs", "src/seat/registry/", "src/seat/registry.rs"],
    &["src/seat.rs"],
    // The duties of the seat, a file each.
    &["src/seat/"],
    &["src/shell.rs", "src/shell/"],
    &["src/cli/", "src/cli.rs"],
    &["src/lib.rs", "src/main.rs"],
];

/// Which of the other crates each may depend on. Programs may depend on every one that is not a program; the commands of
/// the seat are the seat's alone.
const ARROWS: [(&str, &[&str]); 9] = [
    ("mesh-model", &[]),
    ("mesh-jetstream", &[]),
    ("mesh-daemon", &[]),
    ("mesh-testing", &[]),
    ("mesh-bus", &["mesh-jetstream"]),
    ("mesh-service", &["mesh-jetstream", "mesh-model"]),
    ("mesh-runtime", &["mesh-bus", "mesh-daemon", "mesh-jetstream"]),
    ("mesh-provisioner-api", &["mesh-jetstream", "mesh-model", "mesh-service"]),
    (
        "mesh-provisioner-cli",
        &[
            "mesh-bus",
            "mesh-daemon",
            "mesh-jetstream",
            "mesh-model",
            "mesh-provisioner-api",
            "mesh-runtime",
            "mesh-service",
        ],
    ),
];

/// The crate that runs as root, and never talks to the network.
const HOST: (&str, &[&str]) = ("mesh-host", &["mesh-model", "mesh-daemon"]);

type Files = BTreeMap<Vec<String>, String>;

/// The module of a source file, as the names after `crate`.
fn module(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    match inner {
        "lib" | "main" => Vec::new(),
        inner => inner.split('/').map(str::to_owned).collect(),
    }
}

/// The paths that a `use` names, its braces opened up.
fn spread(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.trim().to_owned()] };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(spread(&format!("{before}{}", inner[from..at].trim())));
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The files that the file `of` with this text imports, its unit tests not counted.
fn imports(of: &[String], text: &str, files: &Files) -> BTreeSet<String> {
    let own = text.split("#[cfg(test)]").next().unwrap_or_default();
    let text = code(own).map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ");
    let mut found = BTreeSet::new();
    for piece in text.split("use ").skip(1) {
        let Some((path, _)) = piece.split_once(';') else { continue };
        for path in spread(path) {
            let mut names: Vec<&str> = path.split("::").map(str::trim).collect();
            let mut target = match names.first().copied() {
                Some("crate") => Vec::new(),
                Some("self") => of.to_vec(),
                Some("super") => {
                    let mut up = of.to_vec();
                    while names.get(1) == Some(&"super") {
                        names.remove(0);
                        up.pop();
                    }
                    up.pop();
                    up
                }
                Some(first) if files.contains_key(&[of, &[first.to_owned()]].concat()) => {
                    names.insert(0, "self");
                    of.to_vec()
                }
                _ => continue,
            };
            target.extend(names[1..].iter().map(|name| (*name).to_owned()));
            while !target.is_empty() && !files.contains_key(&target) {
                target.pop();
            }
            found.extend(files.get(&target).cloned());
        }
    }
    found.remove(&files[of]);
    found
}

/// Every import among the seat's sources.
fn edges() -> BTreeSet<(String, String)> {
    let all = sources(&["src"]);
    let all = all.iter().filter(|(path, _)| path != "src/main.rs");
    let files: Files = all.clone().map(|(path, _)| (module(path), path.clone())).collect();
    all.flat_map(|(path, text)| {
        imports(&module(path), text, &files).into_iter().map(move |to| (path.clone(), to))
    })
    .collect()
}

fn floor(path: &str) -> usize {
    let named =
        FLOORS.iter().enumerate().flat_map(|(floor, names)| names.iter().map(move |name| (floor, name)));
    named
        .filter(|(_, name)| path.starts_with(**name))
        .max_by_key(|(_, name)| name.len())
        .unwrap_or_else(|| panic!("{path} has no floor: give it one"))
        .0
}

#[test]
fn no_file_imports_one_above_it() {
    let edges = edges();
    assert!(edges.len() > 80, "{edges:?}");
    let up: Vec<String> = edges
        .iter()
        .filter(|(from, to)| floor(to) > floor(from))
        .map(|(from, to)| format!("{from} imports {to}"))
        .collect();
    none(&up, "imports that lead up");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    // The shell and its file of the second connection are one in two files.
    let is_one = |from: &str, to: &str| from.starts_with("src/shell") && to.starts_with("src/shell");
    let mut edges = edges();
    edges.retain(|(from, to)| !is_one(from, to));
    // What imports nothing that is left is in no circle, and goes.
    loop {
        let froms: BTreeSet<String> = edges.iter().map(|(from, _)| from.clone()).collect();
        let before = edges.len();
        edges.retain(|(_, to)| froms.contains(to));
        if edges.len() == before {
            break;
        }
    }
    let circle: Vec<String> = edges.iter().map(|(from, to)| format!("{from} imports {to}")).collect();
    none(&circle, "a circle among these");
}

/// The crates, each with the dependencies of its programs (not of its tests).
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), dependencies(&text));
    }
    let text = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    found.insert("mesh-provisioner".to_owned(), dependencies(&text));
    found
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let from = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    from.take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_depend_downward_only() {
    let crates = manifests();
    let libraries: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (name, dependencies) in &crates {
        let allowed: &[&str] = match ARROWS.iter().chain([&HOST]).find(|(of, _)| of == name) {
            Some((_, allowed)) => allowed,
            None => &libraries,
        };
        for dependency in dependencies.iter().filter(|dependency| dependency.starts_with("mesh-")) {
            let is_anothers = dependency == "mesh-provisioner-cli" && name != "mesh-provisioner";
            if !allowed.contains(&dependency.as_str()) || dependency == "mesh-testing" || is_anothers {
                wrong.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    none(&wrong, "arrows that lead up or aside");
}

#[test]
fn one_crate_depends_on_the_bus_library() {
    let who: Vec<String> = manifests()
        .into_iter()
        .filter(|(_, dependencies)| dependencies.contains("nats"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(who, ["mesh-bus"]);
}

#[test]
fn the_rules_of_imports_can_fail() {
    assert_eq!(spread("a::{b, c::{d, e}}"), ["a::b", "a::c::d", "a::c::e"]);
    let files: Files =
        ["src/a.rs", "src/a/b.rs", "src/c.rs"].map(|path| (module(path), path.to_owned())).into();
    let of = |path: &str, text: &str| imports(&module(path), text, &files).into_iter().collect::<Vec<_>>();
    assert_eq!(of("src/a/b.rs", "use crate::{c::X, a};\nuse std::fs;"), ["src/a.rs", "src/c.rs"]);
    assert_eq!(of("src/a.rs", "use b::Y;"), ["src/a/b.rs"]);
    assert_eq!(of("src/c.rs", "use super::a::b::{self, Z};"), ["src/a/b.rs"]);
    assert_eq!(of("src/c.rs", "#[cfg(test)]\nuse crate::a::T;"), Vec::<String>::new());
    assert!(floor("src/cli/plan.rs") > floor("src/seat/read/cache.rs"));
    assert!(
        dependencies("[dependencies]\nnats.workspace = true\n\n[dev-dependencies]\nx = \"1\"")
            .contains("nats")
    );
}

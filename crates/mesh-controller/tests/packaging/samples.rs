//! The sample manifests can work, say so without a warning, and keep to the schema that ships.

use mesh_model::json::Read;
use mesh_model::manifest::{Manifest, check, look_alikes};
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

fn samples() -> Vec<(String, String)> {
    let folder = Path::new(ROOT).join("sample/modules");
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_sample_can_work_and_keeps_to_the_schema() {
    let schema = std::fs::read_to_string(Path::new(ROOT).join("schema/mesh/manifest.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let samples = samples();
    assert!(samples.len() >= 8, "{}", samples.len());
    for (name, text) in samples {
        let manifest =
            Manifest::from_json_bytes(text.as_bytes()).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_eq!(manifest.module, name);
        let judged = check(&manifest);
        assert!(judged.problems.is_empty() && judged.warnings.is_empty(), "{name}: {judged:?}");
        // The shell's sample shows on purpose what is left as it is.
        if name != "shell" {
            assert!(look_alikes(&text, &manifest).is_empty(), "{name}");
        }
        let errors: Vec<String> = schema
            .iter_errors(&serde_json::from_str(&text).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn together_they_show_every_part_of_a_manifest() {
    let all: Vec<Manifest> =
        samples().iter().map(|(_, text)| Manifest::from_json_bytes(text.as_bytes()).unwrap()).collect();
    let shows = |part: fn(&Manifest) -> bool| assert!(all.iter().any(part));
    shows(|of| of.ports.values().any(|port| port.fixed.is_some()));
    shows(|of| of.ports.values().any(|port| port.fixed.is_none()));
    shows(|of| !of.dirs.is_empty());
    shows(|of| !of.accesses.is_empty());
    shows(|of| of.secrets.values().any(|source| *source == mesh_model::manifest::SecretSource::Accept));
    shows(|of| of.secrets.values().any(|source| *source != mesh_model::manifest::SecretSource::Accept));
    shows(|of| of.settings.schema.is_some());
    shows(|of| !of.requires.is_empty());
    shows(|of| !of.provides.is_empty());
    shows(|of| !of.reads.is_empty());
    shows(|of| of.contributes.contains_key("shell:zsh:normal"));
    shows(|of| !of.seats.holds.is_empty());
    shows(|of| !of.seats.asks.is_empty());
    shows(|of| of.data.is_some());
    for kind in ["file", "archive", "access"] {
        assert!(all.iter().flat_map(|of| &of.resources).any(|draft| draft.kind().as_str() == kind), "{kind}");
    }
}

//! The host: keeps what it last applied, and looks whether what it is given is whole.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::digest::Digest;
use mesh_model::host_api::{Given, Line, ModuleValues, Request};
use mesh_model::json::Read as _;
use mesh_model::report::{ModuleReport, ModuleState, Report, Reported};
use mesh_model::signed::PayloadType;
use serde_json::Value;

use super::judge::{revisions, shown};
use super::{Content, World};

impl World {
    pub(super) fn host(&mut self, request: &[u8], fails: bool) -> Result<Line, String> {
        let request = Request::from_json_bytes(request).unwrap();
        let apply = match request {
            Request::Apply(apply) => apply,
            Request::Drop(values) => {
                for (module, keys) in values {
                    if let Some(copy) = self.copy.get_mut(&module) {
                        copy.retain(|key, _| !keys.contains(key));
                    }
                }
                return Ok(Line::Done {});
            }
            _ => return Ok(Line::Done {}),
        };
        if fails {
            return Err("the host is away".to_owned());
        }
        let mesh_key = self.key.public_key().parse().unwrap();
        let declaration: mesh_model::declaration::Declaration =
            apply.declaration.open(PayloadType::Declaration, &mesh_key).unwrap();
        if declaration.sequence < self.highest {
            return Ok(Line::Error { code: 403, message: "an old sequence".to_owned() });
        }
        self.highest = declaration.sequence;
        let mut report = Report::new(declaration.sequence, 1);
        if apply.only.is_none() {
            self.machine.retain(|module, _| declaration.part(module).is_some());
        }
        for part in &declaration.modules {
            let name = &part.module;
            if apply.only.as_ref().is_some_and(|only| !only.contains(name)) {
                continue;
            }
            let given = match apply.values.get(name) {
                None => None,
                Some(ModuleValues::Same) => Some(
                    self.copy.get(name).cloned().expect("the host has the values that it is said to have"),
                ),
                Some(ModuleValues::Given(values)) => Some(values.clone()),
            };
            let mut state = ModuleState::Waiting;
            if let Some(values) = given {
                self.whole(name, part, &values, &apply);
                self.copy.insert(name.clone(), values.clone());
                *self.applies.entry(name.clone()).or_default() += 1;
                let content = Content {
                    assignment: part.assignment.to_string(),
                    settings: part.settings.to_string(),
                    values: shown(&values),
                };
                state = if self.broken.contains(name) || self.happens(self.faults.host_fails) {
                    ModuleState::Failed
                } else {
                    self.history.insert((name.clone(), content.clone()));
                    let before = self.machine.insert(name.clone(), content.clone());
                    if before == Some(content) {
                        *self.needless.entry(name.clone()).or_default() += 1;
                    }
                    ModuleState::Applied
                };
            }
            report.modules.insert(
                name.clone(),
                ModuleReport {
                    state,
                    why: String::new(),
                    assignment: part.assignment,
                    resources: 1,
                    changed: 1,
                },
            );
        }
        let states: Vec<String> =
            report.modules.iter().map(|(name, module)| format!("{name} {}", module.state)).collect();
        self.note(format!(
            "host applied {} only {:?}: {}",
            declaration.sequence,
            apply.only,
            states.join(", ")
        ));
        Ok(Line::Report(Reported::Report(Box::new(report))))
    }

    /// Whole or nothing: a module comes with the bytes that fit, and with exactly the values that it needs.
    pub(super) fn whole(
        &mut self,
        name: &str,
        part: &mesh_model::declaration::Part,
        values: &BTreeMap<String, Given>,
        apply: &mesh_model::host_api::Apply,
    ) {
        let Some(bytes) = apply.assignments.get(name) else {
            assert_eq!(
                self.machine.get(name).map(|content| content.assignment.clone()),
                Some(part.assignment.to_string())
            );
            return;
        };
        assert_eq!(Digest::of(bytes), part.assignment, "{name}");
        assert_eq!(Digest::of(&apply.settings[name]), part.settings, "{name}");
        let assignment: Value = serde_json::from_slice(bytes).unwrap();
        let needs: BTreeSet<String> = assignment["needs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|need| ["secret", "bound"].contains(&need["kind"].as_str().unwrap()))
            .map(|need| format!("{}:{}", need["kind"].as_str().unwrap(), need["name"].as_str().unwrap()))
            .collect();
        let given: BTreeSet<String> = values.keys().cloned().collect();
        assert_eq!(given, needs, "whole or nothing of {name}");
        for (key, revision) in revisions(values) {
            self.applied_revisions.insert((name.to_owned(), key, revision));
        }
    }
}

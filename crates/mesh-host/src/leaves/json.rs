//! Leaves of JSON. Order and digits stay; the layout is two spaces.

use super::Leaf;
use mesh_model::json::Json;

pub(super) struct Document(Json);

impl super::Document for Document {
    fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Json::Object(Vec::new())));
        }
        match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => {}
            Err(error) => return Err(format!("see line {}", error.line())),
        }
        match Json::parse(text) {
            Ok(json @ Json::Object(_)) => Ok(Self(json)),
            Ok(_) => Err("it is not an object".to_owned()),
            Err(_) => Err("a name stands twice".to_owned()),
        }
    }

    fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        gather(&self.0, &mut Vec::new(), &mut leaves);
        leaves
    }

    fn get(&self, path: &[String]) -> Option<String> {
        path.iter().try_fold(&self.0, |json, name| json.get(name)).map(ToString::to_string)
    }

    fn existing(&self, path: &[String]) -> usize {
        let mut json = &self.0;
        path.iter()
            .take_while(|name| match json.get(name) {
                Some(inner) => {
                    json = inner;
                    true
                }
                None => false,
            })
            .count()
    }

    fn set(&mut self, path: &[String], value: &str) -> Result<(), String> {
        let value = Json::parse(value).map_err(|_| "a value is not JSON".to_owned())?;
        let mut at = &mut self.0;
        for (depth, name) in path.iter().enumerate() {
            let Json::Object(members) = at else {
                let shown = path[..depth].join(".");
                return Err(format!("{shown} is a value in the file, and the content has a table there"));
            };
            let known = members.iter().position(|(known, _)| known == name);
            let place = known.unwrap_or_else(|| {
                members.push((name.clone(), Json::Object(Vec::new())));
                members.len() - 1
            });
            at = &mut members[place].1;
        }
        *at = value;
        Ok(())
    }

    fn remove(&mut self, path: &[String], existing: usize) {
        remove(&mut self.0, path, existing);
    }

    fn write(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }
}

fn gather(json: &Json, path: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    match json {
        Json::Object(members) if !members.is_empty() || path.is_empty() => {
            for (name, value) in members {
                path.push(name.clone());
                gather(value, path, leaves);
                path.pop();
            }
        }
        leaf => leaves.push((path.clone(), leaf.to_string())),
    }
}

/// Removes a leaf; a table below the first `existing` names that is empty then goes with it.
fn remove(json: &mut Json, path: &[String], existing: usize) {
    let (Json::Object(members), Some((name, rest))) = (json, path.split_first()) else { return };
    let Some(place) = members.iter().position(|(known, _)| known == name) else { return };
    if rest.is_empty() {
        members.remove(place);
        return;
    }
    remove(&mut members[place].1, rest, existing.saturating_sub(1));
    if existing == 0 && members[place].1 == Json::Object(Vec::new()) {
        members.remove(place);
    }
}

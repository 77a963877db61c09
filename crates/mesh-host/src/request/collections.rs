//! The collections of this node, out of the signed contributions of its modules.

use crate::prepare::{Held, Values};
use mesh_model::assignment::Assignment;
use mesh_model::json::Json;
use mesh_model::placeholder::{Collected, Declared, Insertion, Template, collect, joined};

/// The kinds whose values are collections.
const JOINED: [&str; 3] = ["shell", "environment", "contribution"];

/// Whether a kind is filled from collections.
pub(super) fn is_collection(kind: &str) -> bool {
    kind == "collected" || JOINED.contains(&kind)
}

/// The items that a module contributes, their placeholders filled with its own signed values.
pub(super) fn contributions(assignment: &Assignment, signed: &Values) -> Result<Vec<(String, Json)>, String> {
    let needs = assignment.needs.as_deref().unwrap_or_default();
    let declared = Declared::by_needs(needs);
    let filled = |item: &Json| fill(item, &declared, signed);
    assignment.contributes.iter().map(|given| Ok((given.collection.clone(), filled(&given.item)?))).collect()
}

fn fill(item: &Json, declared: &Declared, signed: &Values) -> Result<Json, String> {
    Ok(match item {
        Json::Text(text) => {
            let template = Template::parse(text, declared);
            let filling = template
                .look_up(|placeholder| Some((signed.get(placeholder.key)?.value, Insertion::default())))
                .map_err(|unfilled| {
                    let names: Vec<_> = unfilled.iter().map(ToString::to_string).collect();
                    format!("a contribution needs {}", names.join(", "))
                })?;
            Json::text(
                String::from_utf8(filling.to_bytes())
                    .map_err(|_| "a contribution is not UTF-8".to_owned())?,
            )
        }
        Json::List(items) => {
            Json::List(items.iter().map(|item| fill(item, declared, signed)).collect::<Result<_, _>>()?)
        }
        Json::Object(members) => Json::Object(
            members
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill(value, declared, signed)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

/// The value of the need `kind:name`, out of all contributions `(contributor, collection, item)`.
pub(super) fn value(kind: &str, name: &str, all: &[(String, String, Json)]) -> Result<Held, String> {
    let collection = if kind == "collected" { name.to_owned() } else { format!("{kind}:{name}") };
    let items = all
        .iter()
        .filter(|(_, into, _)| *into == collection)
        .map(|(contributor, _, item)| Collected { contributor, item });
    if kind == "collected" {
        return Ok(Held::Plain(collect(items)));
    }
    match joined(items) {
        Ok(text) => Ok(Held::Plain(Json::text(text))),
        Err(contributor) => Err(format!("the item of {contributor} in {collection} has no lines")),
    }
}

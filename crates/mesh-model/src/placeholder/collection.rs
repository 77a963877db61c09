//! Collections: what the modules of one node contribute under one name, in one order.

use std::cmp::Ordering;

use crate::json::Json;

/// An item of a collection, and the module that contributed it. Its placeholders are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected<'c> {
    /// The module.
    pub contributor: &'c str,
    /// The item.
    pub item: &'c Json,
}

/// The items in their order, by their `order` and then by contributor, as `${collected:…}` has them.
///
/// An item without an `order` counts as 0.
///
/// ```
/// use mesh_model::json::Json;
/// use mesh_model::placeholder::{Collected, collect};
/// let (late, early) = (Json::parse(r#"{"order":50}"#).unwrap(), Json::parse(r#"{"order":9.5}"#).unwrap());
/// let list = collect([
///     Collected { contributor: "a", item: &late },
///     Collected { contributor: "b", item: &early },
/// ]);
/// assert_eq!(list.to_string(), r#"[{"order":9.5},{"order":50}]"#);
/// ```
pub fn collect<'c>(items: impl IntoIterator<Item = Collected<'c>>) -> Json {
    Json::List(sorted(items).into_iter().map(|collected| collected.item.clone()).collect())
}

/// The items' `lines`, in the same order, joined by newlines, as `${shell:…}`, `${environment:…}` and
/// `${contribution:…}` have them. An item that is a string is one piece.
///
/// An item of another shape is the error: its contributor.
///
/// ```
/// use mesh_model::json::Json;
/// use mesh_model::placeholder::{Collected, joined};
/// let (a, b) = (Json::text("x=1"), Json::parse(r#"{"order":-1,"lines":["y=2","z=3"]}"#).unwrap());
/// let items = [Collected { contributor: "a", item: &a }, Collected { contributor: "b", item: &b }];
/// assert_eq!(joined(items).unwrap(), "y=2\nz=3\nx=1");
/// ```
pub fn joined<'c>(items: impl IntoIterator<Item = Collected<'c>>) -> Result<String, &'c str> {
    let mut lines = Vec::new();
    for Collected { contributor, item } in sorted(items) {
        match (item, item.get("lines")) {
            (Json::Text(text), _) | (_, Some(Json::Text(text))) => lines.push(text.as_str()),
            (_, Some(Json::List(list))) => {
                for line in list {
                    lines.push(line.as_text().ok_or(contributor)?);
                }
            }
            _ => return Err(contributor),
        }
    }
    Ok(lines.join("\n"))
}

fn sorted<'c>(items: impl IntoIterator<Item = Collected<'c>>) -> Vec<Collected<'c>> {
    let mut items: Vec<Collected<'c>> = items.into_iter().collect();
    items.sort_by(|a, b| {
        order(a.item)
            .partial_cmp(&order(b.item))
            .unwrap_or(Ordering::Equal)
            .then_with(|| a.contributor.cmp(b.contributor))
            .then_with(|| a.item.to_string().cmp(&b.item.to_string()))
    });
    items
}

fn order(item: &Json) -> f64 {
    match item.get("order") {
        Some(Json::Number(digits)) => digits.parse().unwrap_or(0.0),
        _ => 0.0,
    }
}

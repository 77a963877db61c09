use super::{Declared, Insertion, Part, Template, Value, may_stand};
use crate::assignment::{PlacedKind, Placement};
use crate::json::{At, Json, Problem};
use crate::resource::{Draft, Place};

/// Fills the placeholders of a draft outside of contents and environments, which stay templates. What comes out can be
/// read as a [`crate::resource::Resource`].
///
/// ```
/// use mesh_model::assignment::Placement;
/// use mesh_model::json::{At, Read};
/// use mesh_model::placeholder::{Declared, fill_placed};
/// use mesh_model::resource::Draft;
/// let text = br#"{"id":"a","type":"file","path":"${dir:state}/a","content":"${dir:state}"}"#;
/// let draft = Draft::from_json_bytes(text).unwrap();
/// let mut declared = Declared::default();
/// declared.add("dir", "state");
/// let placement = Placement { dir: [("state".into(), "/var/lib/web".into())].into(), ..Placement::default() };
/// let filled = fill_placed(&draft, &declared, &placement, &At::Root).unwrap();
/// assert_eq!(filled.get("path").unwrap().as_text(), Some("/var/lib/web/a"));
/// assert_eq!(filled.get("content").unwrap().as_text(), Some("${dir:state}"));
/// ```
pub fn fill_placed(
    draft: &Draft,
    declared: &Declared,
    placement: &Placement,
    at: &At<'_>,
) -> Result<Json, Problem> {
    draft.map_strings(
        |place, text, at| {
            if place == Place::Open {
                return Ok(text.to_owned());
            }
            let template = Template::parse(text, declared);
            let mut filled = String::with_capacity(text.len());
            for part in template.parts() {
                match part {
                    Part::Literal(literal) => filled.push_str(literal),
                    Part::Placeholder(placeholder) => {
                        if !may_stand(placeholder.kind(), place) {
                            return Err(at.problem(format!(
                                "{} may not stand here, only in contents and environments; here may stand dir, access, \
                                 port, seat and machine",
                                placeholder.key
                            )));
                        }
                        let kind = placeholder.kind().parse::<PlacedKind>().ok();
                        match kind.and_then(|kind| placement.value(kind, placeholder.name())) {
                            Some(value) => filled.push_str(&value),
                            None => return Err(at.problem(format!("the placement has no {}", placeholder.key))),
                        }
                    }
                }
            }
            Ok(filled)
        },
        at,
    )
}

/// Fills the placeholders of a contribution's item: those of the placement, and of the settings.
///
/// The items of an [`crate::assignment::Assignment`] are filled in this way by the controller; nobody fills them again.
///
/// ```
/// use mesh_model::assignment::Placement;
/// use mesh_model::json::{At, Json};
/// use mesh_model::placeholder::{Declared, fill_item};
/// let mut declared = Declared::default();
/// declared.add_root("config", "db");
/// let settings = Json::parse(r#"{"db":{"pool":1.50}}"#).unwrap();
/// let item = Json::parse(r#"{"order":5,"lines":["pool ${config:db.pool}"]}"#).unwrap();
/// let filled = fill_item(&item, &declared, &Placement::default(), &settings, &At::Root).unwrap();
/// assert_eq!(filled.to_string(), r#"{"order":5,"lines":["pool 1.50"]}"#);
/// ```
pub fn fill_item(
    item: &Json,
    declared: &Declared,
    placement: &Placement,
    settings: &Json,
    at: &At<'_>,
) -> Result<Json, Problem> {
    Ok(match item {
        Json::Text(text) => {
            let template = Template::parse(text, declared);
            let placed: Vec<(&str, String)> = template
                .placeholders()
                .filter_map(|placeholder| {
                    let kind = placeholder.kind().parse::<PlacedKind>().ok()?;
                    Some((placeholder.key, placement.value(kind, placeholder.name())?))
                })
                .collect();
            let filling = template.look_up(|placeholder| {
                let value = match placeholder.kind() {
                    "config" => settings.at_path(placeholder.name()).map(Value::Json),
                    _ => placed
                        .iter()
                        .find(|(key, _)| *key == placeholder.key)
                        .map(|(_, value)| Value::Bytes(value.as_bytes())),
                };
                value.map(|value| (value, Insertion::default()))
            });
            let filling = filling.map_err(|unfilled| at.problem(unfilled[0].to_string()))?;
            Json::Text(String::from_utf8(filling.to_bytes()).unwrap_or_else(|_| unreachable!("texts alone")))
        }
        Json::List(items) => {
            let mut filled = Vec::with_capacity(items.len());
            for (place, item) in items.iter().enumerate() {
                filled.push(fill_item(item, declared, placement, settings, &at.index(place))?);
            }
            Json::List(filled)
        }
        Json::Object(members) => {
            let mut filled = Vec::with_capacity(members.len());
            for (name, value) in members {
                let value = fill_item(value, declared, placement, settings, &at.field(name))?;
                filled.push((name.clone(), value));
            }
            Json::Object(filled)
        }
        other => other.clone(),
    })
}

//! A resource as it is written: JSON whose strings may hold placeholders.

use serde::Serialize;

use super::{Id, Kind};
use crate::json::{At, Fields, Json, Problem, Read};

/// What may stand in a string of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Paths, names, images, units, commands: only kinds whose values the controller signs.
    Signed,
    /// Contents of files and values of environment variables: every kind.
    Open,
    /// What identifies the resource: no placeholder.
    Fixed,
}

/// What may stand in the member `field` of a resource of that kind, and in everything below it.
pub fn place(kind: Kind, field: &str) -> Place {
    match (kind, field) {
        (_, "id" | "type" | "insert" | "bytes" | "restart-on" | "reload-on") => Place::Fixed,
        (Kind::File, "content") | (Kind::Container | Kind::Process | Kind::Action, "env") => Place::Open,
        _ => Place::Signed,
    }
}

/// A resource as a manifest or an assignment holds it. Its id and its kind are known, everything else is as written.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::resource::Draft;
/// let draft = Draft::from_json_bytes(br#"{"id":"site","type":"file","path":"${dir:state}/site"}"#).unwrap();
/// assert_eq!(draft.below("web").id().as_str(), "web.site");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Draft {
    json: Json,
    #[serde(skip)]
    id: Id,
    #[serde(skip)]
    kind: Kind,
}

impl Draft {
    /// Its id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The whole of it.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The same resource with the module's token before its id, and before the ids that restart or reload it.
    #[must_use]
    pub fn below(&self, token: &str) -> Draft {
        let prefixed = |json: &Json| match json.as_text().and_then(|text| text.parse::<Id>().ok()) {
            Some(id) => Json::text(id.below(token).as_str()),
            None => json.clone(),
        };
        let mut json = self.json.clone();
        if let Json::Object(members) = &mut json {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("id", id) => *id = prefixed(id),
                    ("restart-on" | "reload-on", Json::List(items)) => {
                        for item in items {
                            *item = prefixed(item);
                        }
                    }
                    _ => {}
                }
            }
        }
        Draft { json, id: self.id.below(token), kind: self.kind }
    }

    /// The same resource, each string replaced by what `fill` makes of it. `fill` is told what may stand there, and
    /// is not called for what is fixed.
    pub fn map_strings(
        &self,
        mut fill: impl FnMut(Place, &str, &At<'_>) -> Result<String, Problem>,
        at: &At<'_>,
    ) -> Result<Json, Problem> {
        let Json::Object(members) = &self.json else { return Ok(self.json.clone()) };
        let mut filled = Vec::with_capacity(members.len());
        for (name, value) in members {
            let value = match place(self.kind, name) {
                Place::Fixed => value.clone(),
                place => map(value, &at.field(name), &mut |text, at| fill(place, text, at))?,
            };
            filled.push((name.clone(), value));
        }
        Ok(Json::Object(filled))
    }

    /// Calls `look` with each string and what may stand there.
    pub fn strings(&self, mut look: impl FnMut(Place, &str, &At<'_>), at: &At<'_>) {
        let Json::Object(members) = &self.json else { return };
        for (name, value) in members {
            visit(value, &at.field(name), &mut |text, at| look(place(self.kind, name), text, at));
        }
    }
}

type Fill<'f> = dyn FnMut(&str, &At<'_>) -> Result<String, Problem> + 'f;

fn map(json: &Json, at: &At<'_>, fill: &mut Fill<'_>) -> Result<Json, Problem> {
    Ok(match json {
        Json::Text(text) => Json::Text(fill(text, at)?),
        Json::List(items) => {
            let mut filled = Vec::with_capacity(items.len());
            for (place, item) in items.iter().enumerate() {
                filled.push(map(item, &at.index(place), fill)?);
            }
            Json::List(filled)
        }
        Json::Object(members) => {
            let mut filled = Vec::with_capacity(members.len());
            for (name, value) in members {
                filled.push((name.clone(), map(value, &at.field(name), fill)?));
            }
            Json::Object(filled)
        }
        other => other.clone(),
    })
}

fn visit(json: &Json, at: &At<'_>, look: &mut dyn FnMut(&str, &At<'_>)) {
    match json {
        Json::Text(text) => look(text, at),
        Json::List(items) => {
            items.iter().enumerate().for_each(|(place, item)| visit(item, &at.index(place), look));
        }
        Json::Object(members) => members.iter().for_each(|(name, value)| visit(value, &at.field(name), look)),
        _ => {}
    }
}

impl Read for Draft {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        Ok(Draft { id: fields.required("id")?, kind: fields.required("type")?, json: json.clone() })
    }
}

//! The part of JSON Schema that settings may use. A keyword that is not known here is refused where the schema is
//! written, so nobody relies on a rule that nothing holds.

use crate::json::{At, Json, Problem, nearest};

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
const BOUNDS: [&str; 8] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];
const OTHERS: [&str; 7] =
    ["type", "properties", "required", "additionalProperties", "items", "enum", "const"];

/// The schema of a module's settings, of which it is known that every keyword is understood.
///
/// ```
/// use mesh_model::json::{At, Json};
/// use mesh_model::settings::{Asked, Schema};
/// let schema = Json::parse(r#"{"properties":{"pool":{"type":"integer","minimum":1}},"required":["pool"]}"#).unwrap();
/// let schema = Schema::check(&schema, &At::Root).unwrap();
/// let problems = schema.problems(&Json::parse(r#"{"pool":0}"#).unwrap(), Asked::Types);
/// assert_eq!(problems[0].to_string(), "pool: 0 is less than 1");
/// let empty = Json::parse("{}").unwrap();
/// assert!(schema.problems(&empty, Asked::Types).is_empty());
/// assert_eq!(schema.problems(&empty, Asked::All)[0].to_string(), "has no pool");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(Json);

/// How much is asked of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// What is there is right; something may be missing, since it is one layer of several.
    Types,
    /// What is required is there too.
    All,
}

impl Schema {
    /// Takes a schema, or tells everything in it that is not understood.
    pub fn check(schema: &Json, at: &At<'_>) -> Result<Schema, Vec<Problem>> {
        let mut problems = Vec::new();
        check(schema, at, &mut problems);
        if problems.is_empty() { Ok(Schema(schema.clone())) } else { Err(problems) }
    }

    /// Everything that is wrong with these settings.
    pub fn problems(&self, settings: &Json, asked: Asked) -> Vec<Problem> {
        let mut problems = Vec::new();
        validate(&self.0, settings, asked, &At::Root, &mut problems);
        problems
    }

    /// The names of the members that it describes.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        match self.0.get("properties") {
            Some(Json::Object(properties)) => properties.as_slice(),
            _ => &[],
        }
        .iter()
        .map(|(name, _)| name.as_str())
    }

    /// Whether a member that it does not describe may be set.
    pub fn is_open(&self) -> bool {
        self.0.get("additionalProperties") != Some(&Json::Bool(false))
    }
}

fn check(schema: &Json, at: &At<'_>, problems: &mut Vec<Problem>) {
    let keywords = match schema {
        Json::Bool(_) => return,
        Json::Object(keywords) => keywords,
        other => {
            problems.push(at.problem(format!("is {} where a schema belongs", other.kind())));
            return;
        }
    };
    for (keyword, value) in keywords {
        let here = at.field(keyword);
        let mut expect = |right: bool, what: &str| {
            if !right {
                problems.push(here.problem(format!("is not a {what}")));
            }
        };
        match (keyword.as_str(), value) {
            ("type", value) => {
                let known = |json: &Json| json.as_text().is_some_and(|name| TYPES.contains(&name));
                expect(known(value) || is_list(value, known), "type, or list of types");
            }
            ("required", value) => expect(is_list(value, |name| name.as_text().is_some()), "list of names"),
            ("enum", value) => expect(matches!(value, Json::List(_)), "list of values"),
            ("const", _) => {}
            ("properties", Json::Object(properties)) => {
                for (name, schema) in properties {
                    check(schema, &here.field(name), problems);
                }
            }
            ("properties", _) => expect(false, "JSON object of schemas"),
            ("items" | "additionalProperties", schema) => check(schema, &here, problems),
            (bound, value) if BOUNDS.contains(&bound) => {
                let whole = matches!(value, Json::Number(digits) if digits.parse::<u64>().is_ok());
                let right = if bound.ends_with("imum") { number(value).is_some() } else { whole };
                expect(right, "bound");
            }
            (unknown, _) => {
                let near = match nearest(unknown, BOUNDS.into_iter().chain(OTHERS)) {
                    Some(near) => format!("unknown keyword; nearest known: {near}"),
                    None => {
                        format!("unknown keyword; known are {}, {}", OTHERS.join(", "), BOUNDS.join(", "))
                    }
                };
                problems.push(here.problem(near));
            }
        }
    }
}

fn is_list(json: &Json, is_right: impl Fn(&Json) -> bool) -> bool {
    matches!(json, Json::List(items) if items.iter().all(is_right))
}

fn validate(schema: &Json, value: &Json, asked: Asked, at: &At<'_>, problems: &mut Vec<Problem>) {
    let keywords = match schema {
        Json::Bool(false) => {
            problems.push(at.problem("is not allowed here"));
            return;
        }
        Json::Object(keywords) => keywords,
        _ => return,
    };
    // In one layer `null` takes a member away, so it is not a value of a type.
    if asked == Asked::Types && *value == Json::Null {
        return;
    }
    for (keyword, rule) in keywords {
        if let Some(problem) = broken(keyword, rule, value) {
            problems.push(at.problem(problem));
        }
    }
    match value {
        Json::List(items) => {
            if let Some(schema) = schema.get("items") {
                for (place, item) in items.iter().enumerate() {
                    validate(schema, item, asked, &at.index(place), problems);
                }
            }
        }
        Json::Object(members) => {
            for (name, member) in members {
                let described = schema.get("properties").and_then(|properties| properties.get(name));
                match described.or_else(|| schema.get("additionalProperties")) {
                    Some(Json::Bool(false)) => {
                        let known = match schema.get("properties") {
                            Some(Json::Object(known)) => known.as_slice(),
                            _ => &[],
                        };
                        let near = nearest(name, known.iter().map(|(known, _)| known.as_str()));
                        let near = near.map(|near| format!("; nearest known: {near}")).unwrap_or_default();
                        problems.push(at.field(name).problem(format!("the schema does not know it{near}")));
                    }
                    Some(schema) => validate(schema, member, asked, &at.field(name), problems),
                    None => {}
                }
            }
            if let (Some(Json::List(required)), Asked::All) = (schema.get("required"), asked) {
                for name in required.iter().filter_map(Json::as_text) {
                    if value.get(name).is_none() {
                        problems.push(at.problem(format!("has no {name}")));
                    }
                }
            }
        }
        _ => {}
    }
}

/// How `value` breaks the rule of one keyword that concerns it alone.
fn broken(keyword: &str, rule: &Json, value: &Json) -> Option<String> {
    let limit = number(rule);
    let compared = |wrong: fn(f64, f64) -> bool, what: &str| match (number(value), limit) {
        (Some(found), Some(limit)) if wrong(found, limit) => Some(format!("{value} is {what} {rule}")),
        _ => None,
    };
    let counted = |count: Option<usize>, wrong: fn(usize, usize) -> bool, what: &str| {
        let limit = rule.to_string().parse().unwrap_or(0);
        count
            .filter(|count| wrong(*count, limit))
            .map(|count| format!("has {count} {what}, the bound is {rule}"))
    };
    let characters = || value.as_text().map(|text| text.chars().count());
    let items = || match value {
        Json::List(items) => Some(items.len()),
        _ => None,
    };
    match keyword {
        "type" => {
            let right = match rule {
                Json::List(types) => types.iter().filter_map(Json::as_text).any(|name| is_type(value, name)),
                name => name.as_text().is_some_and(|name| is_type(value, name)),
            };
            (!right).then(|| format!("is {}, its type is {rule}", value.kind()))
        }
        "const" => (!same(rule, value)).then(|| format!("is not {rule}")),
        "enum" => {
            let right = matches!(rule, Json::List(values) if values.iter().any(|known| same(known, value)));
            (!right).then(|| format!("is not one of {rule}"))
        }
        "minimum" => compared(|found, limit| found < limit, "less than"),
        "maximum" => compared(|found, limit| found > limit, "more than"),
        "exclusiveMinimum" => compared(|found, limit| found <= limit, "not more than"),
        "exclusiveMaximum" => compared(|found, limit| found >= limit, "not less than"),
        "minLength" => counted(characters(), |count, limit| count < limit, "characters"),
        "maxLength" => counted(characters(), |count, limit| count > limit, "characters"),
        "minItems" => counted(items(), |count, limit| count < limit, "items"),
        "maxItems" => counted(items(), |count, limit| count > limit, "items"),
        _ => None,
    }
}

fn is_type(value: &Json, name: &str) -> bool {
    match (value, name) {
        (Json::Number(digits), "integer") => {
            !digits.contains(['.', 'e', 'E']) || number(value).is_some_and(|number| number.fract() == 0.0)
        }
        (Json::Null, "null")
        | (Json::Bool(_), "boolean")
        | (Json::Number(_), "number")
        | (Json::Text(_), "string")
        | (Json::List(_), "array")
        | (Json::Object(_), "object") => true,
        _ => false,
    }
}

fn number(json: &Json) -> Option<f64> {
    match json {
        Json::Number(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// Whether two values are the same to JSON Schema: numbers by value, members in any order.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || number(a).is_some_and(|x| Some(x) == number(b)),
        (Json::List(x), Json::List(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| b.get(name).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;

//! How objects and lists are written: as compact JSON, or as the resource says.

use super::{NotFilled, Value};
use crate::json::{Json, escape};
use crate::resource::{Insert, VariableName};

type Out<'o> = dyn FnMut(&[u8]) + 'o;

/// Writes a value. A string, a number or a truth value goes in as it is, whatever `insert` says.
pub(super) fn write(value: Value<'_>, insert: Option<Insert>, out: &mut Out<'_>) -> Result<(), NotFilled> {
    let json = match value {
        Value::Bytes(bytes) => {
            out(bytes);
            return Ok(());
        }
        Value::Json(json) => json,
    };
    match json {
        Json::Null => return Err(NotFilled::Missing),
        Json::Object(_) | Json::List(_) => {}
        scalar => {
            plain(scalar, out);
            return Ok(());
        }
    }
    match insert.unwrap_or(Insert::Json) {
        Insert::Json => json.write(&mut |text| out(text.as_bytes())),
        Insert::Toml => toml_lines(json, out)?,
        Insert::Env => variables(json, out)?,
        Insert::Lines => lines(json, out)?,
    }
    Ok(())
}

/// A string without its quotes, everything else as JSON.
fn plain(json: &Json, out: &mut Out<'_>) {
    match json {
        Json::Text(text) => out(text.as_bytes()),
        other => other.write(&mut |text| out(text.as_bytes())),
    }
}

fn lines(json: &Json, out: &mut Out<'_>) -> Result<(), NotFilled> {
    let Json::List(items) = json else {
        return Err(NotFilled::Shape("is an object, of which lines cannot be made"));
    };
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out(b"\n");
        }
        plain(item, out);
    }
    Ok(())
}

fn variables(json: &Json, out: &mut Out<'_>) -> Result<(), NotFilled> {
    let Json::Object(members) = json else {
        return Err(NotFilled::Shape("is a list, of which no variables can be made"));
    };
    for (place, (name, value)) in members.iter().enumerate() {
        if name.parse::<VariableName>().is_err() {
            return Err(NotFilled::Shape("has a member whose name no variable can have"));
        }
        match value {
            Json::Text(text) if text.contains(['\n', '\r', '\0']) => {
                return Err(NotFilled::Shape(
                    "has a member with a newline, which no variable's line can hold",
                ));
            }
            Json::Null | Json::List(_) | Json::Object(_) => {
                return Err(NotFilled::Shape("has a member that is not a string, number or truth value"));
            }
            _ => {}
        }
        if place > 0 {
            out(b"\n");
        }
        out(name.as_bytes());
        out(b"=");
        plain(value, out);
    }
    Ok(())
}

/// An object as its `key = value` lines, a list as an array.
fn toml_lines(json: &Json, out: &mut Out<'_>) -> Result<(), NotFilled> {
    let Json::Object(members) = json else { return toml(json, out) };
    for (place, (name, value)) in members.iter().enumerate() {
        if place > 0 {
            out(b"\n");
        }
        toml_member(name, value, out)?;
    }
    Ok(())
}

fn toml_member(name: &str, value: &Json, out: &mut Out<'_>) -> Result<(), NotFilled> {
    let bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if bare {
        out(name.as_bytes());
    } else {
        toml_text(name, out);
    }
    out(b" = ");
    toml(value, out)
}

fn toml(json: &Json, out: &mut Out<'_>) -> Result<(), NotFilled> {
    match json {
        Json::Null => return Err(NotFilled::Shape("holds null, which TOML cannot hold")),
        Json::Number(digits) => {
            let whole = !digits.contains(['.', 'e', 'E']);
            if whole && digits.parse::<i64>().is_err() {
                return Err(NotFilled::Shape("holds a whole number that TOML cannot hold"));
            }
            out(digits.as_bytes());
        }
        Json::Bool(_) => plain(json, out),
        Json::Text(text) => toml_text(text, out),
        Json::List(items) => {
            out(b"[");
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out(b", ");
                }
                toml(item, out)?;
            }
            out(b"]");
        }
        Json::Object(members) => {
            out(b"{");
            for (place, (name, value)) in members.iter().enumerate() {
                out(if place > 0 { b", " } else { b" " });
                toml_member(name, value, out)?;
            }
            out(if members.is_empty() { b"}" } else { b" }" });
        }
    }
    Ok(())
}

/// A basic string. Its escapes are those of JSON, but that DEL must be escaped too.
fn toml_text(text: &str, out: &mut Out<'_>) {
    out(b"\"");
    for (place, piece) in text.split('\u{7F}').enumerate() {
        if place > 0 {
            out(b"\\u007F");
        }
        escape(piece, &mut |escaped| out(escaped.as_bytes()));
    }
    out(b"\"");
}

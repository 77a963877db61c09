//! Coded errors: headers for NATS tools, and a JSON body for programs.

use crate::json::json;
use mesh_jetstream::message::Headers;
use serde::Serialize;

/// The headers of an error response.
pub fn headers(code: u16, message: &str) -> Headers {
    vec![("Nats-Service-Error-Code", code.to_string()), ("Nats-Service-Error", one_line(message))]
}

/// A message as one line for a header, whatever a client or the server put into it.
pub fn one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The body of an error response, whose schema id is `type`; `reason` is a word that programs can act on.
pub fn body(r#type: &str, code: u16, reason: &str, message: &str) -> String {
    #[derive(Serialize)]
    struct Body<'a> {
        r#type: &'a str,
        error: Error<'a>,
    }
    #[derive(Serialize)]
    struct Error<'a> {
        code: u16,
        reason: &'a str,
        message: &'a str,
    }
    json(&Body { r#type, error: Error { code, reason, message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_in_its_header_and_whole_in_its_body() {
        assert_eq!(
            headers(400, "no\nwhat"),
            [("Nats-Service-Error-Code", "400".to_owned()), ("Nats-Service-Error", "no what".to_owned())]
        );
        assert_eq!(
            body("t", 400, "bad", "no\n"),
            r#"{"type":"t","error":{"code":400,"reason":"bad","message":"no\n"}}"#
        );
    }
}

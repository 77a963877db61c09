//! Error responses.

use super::type_name::response_type;
use crate::reason::Reason;
use mesh_service::errors;

/// The body of an error response.
pub fn error_json(reason: Reason, message: &str) -> String {
    errors::body(&response_type("error"), reason.code(), reason.word(), message)
}

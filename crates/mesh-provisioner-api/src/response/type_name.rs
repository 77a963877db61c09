//! The `type` of each response.

/// The type of a response.
pub fn response_type(word: &str) -> String {
    format!("io.mesh.provisioner.v1.{word}_response")
}

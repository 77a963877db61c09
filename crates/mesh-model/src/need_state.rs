//! How a need stands, and whether a module has needs, as others than its client read it: without the keys and digests
//! that the client writes beside it.

use crate::object::Object;

/// Why a need waits, as its value says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The client's words, of at most [`MAX_WHY_BYTES`] bytes: a newer client may know more of them. `None` if the
    /// value does not say why, or says it at length.
    pub why: Option<String>,
}

/// The longest `why`, in bytes.
pub const MAX_WHY_BYTES: usize = 64;

impl Wait {
    /// Reads the value of a need; `None` if that does not say that the need waits.
    ///
    /// ```
    /// use mesh_model::need_state::Wait;
    /// let wait = Wait::read(br#"{"state":"waiting","why":"no responder","plan":"0123456789abcdef"}"#);
    /// assert_eq!(wait.unwrap().why.as_deref(), Some("no responder"));
    /// assert_eq!(Wait::read(br#"{"state":"filled"}"#), None);
    /// assert_eq!(Wait::read(b"8080"), None);
    /// ```
    pub fn read(value: &[u8]) -> Option<Self> {
        // Most needs are filled, and there are many: the value is parsed only if it can say that this one waits.
        let may_wait = value.first() == Some(&b'{')
            && (value.contains(&b'\\') || value.windows(WAITING.len()).any(|window| window == WAITING));
        if !may_wait {
            return None;
        }
        let object = Object::parse(value).ok()?;
        let waits = object.text("state").is_some_and(|state| state.as_bytes() == WAITING);
        waits.then(|| Wait { why: object.text("why").filter(|why| why.len() <= MAX_WHY_BYTES) })
    }
}

const WAITING: &[u8] = b"waiting";

/// Whether the value of an applied module says that it has no needs.
///
/// ```
/// use mesh_model::need_state::says_no_needs;
/// assert!(says_no_needs(br#"{"version":"1.0.0","needs":0}"#));
/// assert!(!says_no_needs(br#"{"version":"1.0.0","needs":5}"#));
/// assert!(!says_no_needs(br#"{"version":"1.0.0"}"#));
/// ```
pub fn says_no_needs(value: &[u8]) -> bool {
    let Ok(object) = Object::parse(value) else { return false };
    object.0.iter().any(|(name, value)| name == "needs" && value.get() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_only_looks_like_a_waiting_need_is_none() {
        let why = |value: &str| Wait::read(value.as_bytes()).map(|wait| wait.why);
        assert_eq!(why(r#"["waiting","silent"]"#), None);
        assert_eq!(why(r#"{"state":"filled","why":"waiting"}"#), None);
        assert_eq!(why(r#"{"state":"waiting""#), None);
        assert_eq!(why(r#"{"state":"w\u0061iting"}"#), Some(None), "another spelling of the same");
        assert_eq!(why(r#"{"state":"waiting","why":7}"#), Some(None));
        assert_eq!(why(&format!(r#"{{"state":"waiting","why":"{}"}}"#, "x".repeat(65))), Some(None));
    }
}

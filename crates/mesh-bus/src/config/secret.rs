//! A value that is never shown.

use std::fmt;

/// A password or a token. Neither `Debug` nor `Display` shows it, so no log line and no error can; code that needs it
/// calls [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for the connection only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn it_is_shown_only_when_asked_for() {
        let secret = Secret::from("hush".to_owned());
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "(secret) Secret Some(Secret)");
        assert_eq!(secret.expose(), "hush");
    }
}

//! Secrets in memory: overwritten when they are dropped, and neither printed, written nor copied by accident.

use serde_json::value::RawValue;
use zeroize::{Zeroize, Zeroizing};

use crate::json::Json;

/// Bytes that nobody else may see. There is no `Debug`, `Display`, `Serialize` or `Clone`.
///
/// ```
/// use mesh_model::secret::Secret;
/// let secret = Secret::from(b"hunter2".to_vec());
/// assert_eq!(secret.expose(), b"hunter2");
/// ```
///
/// ```compile_fail
/// let secret = mesh_model::secret::Secret::from(vec![1]);
/// println!("{secret:?}");
/// ```
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The bytes. Whoever copies them sees to the copy.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// A secret of these bytes, which the caller sees to.
    pub fn copy(bytes: &[u8]) -> Secret {
        Secret(Zeroizing::new(bytes.to_vec()))
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::from(text.into_bytes())
    }
}

/// What a consumer reaches its provider with: one sealed value, `{"user":…,"password":…}`.
pub struct Credential {
    /// The user.
    pub user: Secret,
    /// The password.
    pub password: Secret,
}

impl Credential {
    /// Reads the sealed value.
    ///
    /// ```
    /// use mesh_model::secret::{Credential, Secret};
    /// let value = Secret::copy(br#"{"user":"web","password":"a\"b"}"#);
    /// let credential = Credential::read(&value).unwrap();
    /// assert_eq!(credential.member("password").unwrap().expose(), b"a\"b");
    /// assert_eq!(credential.to_secret().expose(), value.expose());
    /// ```
    pub fn read(value: &Secret) -> Option<Credential> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members<'m> {
            #[serde(borrow)]
            user: &'m RawValue,
            #[serde(borrow)]
            password: &'m RawValue,
        }
        let members: Members<'_> = serde_json::from_slice(value.expose()).ok()?;
        let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok().map(Secret::from);
        Some(Credential { user: text(members.user)?, password: text(members.password)? })
    }

    /// The member that `${secret:database.user}` or `${secret:database.password}` names.
    pub fn member(&self, name: &str) -> Option<&Secret> {
        match name {
            "user" => Some(&self.user),
            "password" => Some(&self.password),
            _ => None,
        }
    }

    /// The value that is sealed.
    pub fn to_secret(&self) -> Secret {
        // Room for the worst escapes, so that no outgrown buffer is left behind.
        let length = self.user.expose().len() + self.password.expose().len();
        let mut text = Vec::with_capacity(6 * length + 32);
        for (before, part) in [("{\"user\":\"", &self.user), ("\",\"password\":\"", &self.password)] {
            text.extend_from_slice(before.as_bytes());
            let shown = std::str::from_utf8(part.expose()).unwrap_or_default();
            crate::json::escape(shown, &mut |piece| text.extend_from_slice(piece.as_bytes()));
        }
        text.extend_from_slice(b"\"}");
        Secret::from(text)
    }
}

/// JSON that held a secret: every text and number in it is overwritten.
impl Zeroize for Json {
    fn zeroize(&mut self) {
        match self {
            Json::Text(text) | Json::Number(text) => text.zeroize(),
            Json::List(items) => items.iter_mut().for_each(Zeroize::zeroize),
            Json::Object(members) => members.iter_mut().for_each(|(_, value)| value.zeroize()),
            Json::Null | Json::Bool(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_two_texts() {
        for wrong in [
            "",
            "{}",
            r#"{"user":"a"}"#,
            r#"{"user":"a","password":1}"#,
            r#"{"user":"a","password":"b","x":1}"#,
        ] {
            assert!(Credential::read(&Secret::copy(wrong.as_bytes())).is_none(), "{wrong}");
        }
        let credential = Credential::read(&Secret::copy(br#"{"password":"p\u0001","user":""}"#)).unwrap();
        assert_eq!(credential.to_secret().expose(), br#"{"user":"","password":"p\u0001"}"#);
        assert!(credential.member("host").is_none());
    }

    #[test]
    fn json_is_overwritten() {
        let mut json = Json::parse(r#"{"a":["x",1,{"b":"y"}],"c":true}"#).unwrap();
        json.zeroize();
        assert_eq!(json.at_path("a").unwrap().to_string(), r#"["",,{"b":""}]"#);
    }
}

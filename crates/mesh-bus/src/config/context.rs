//! Contexts: the named sets of connection settings of the `nats` CLI.
//!
//! They are files below `$XDG_CONFIG_HOME` (default `~/.config`): `nats/context/<name>.json`; the name of the
//! selected one is in `nats/context.txt`. A context is used completely or rejected: an unsupported field is an error
//! that names it, because a connection without a requested proxy or prefix would be a different connection.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::files::{quoted, uri_scheme};
use super::{ConfigError, Level, Setting};

/// Fields for other tools, which do not affect a connection. This program reads no advisories, so their prefix is one
/// of them.
const IGNORED: [&str; 4] = ["name", "description", "color_scheme", "jetstream_event_prefix"];

/// The context that the operator named, by `--context` or `NATS_CONTEXT`: a name, or the path of a `.json`
/// file.
pub(super) fn named(
    setting: &Setting,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Level, ConfigError> {
    let file = Path::new(&setting.value);
    let is_file = file.extension().is_some_and(|extension| extension == "json") && file.is_file();
    let path = if is_file {
        file.to_owned()
    } else {
        check_name(&setting.value).map_err(|why| ConfigError(format!("{}: {why}", setting.name)))?;
        let directory = directory(environment).ok_or_else(|| {
            ConfigError(format!("{}: neither HOME nor XDG_CONFIG_HOME is set: set one", setting.name))
        })?;
        path_of(&directory, &setting.value)
    };
    load(&path, &setting.value, &setting.name)
}

/// The context that `nats context select` chose, if there is one.
pub(super) fn selected(environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<Level>, ConfigError> {
    let Some(directory) = directory(environment) else { return Ok(None) };
    let selection = directory.join("context.txt");
    let name = match fs::read_to_string(&selection) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => {
            return Err(ConfigError(format!(
                "cannot read the selected context in {}: {error}",
                quoted(&selection)
            )));
        }
    };
    if name.is_empty() {
        return Ok(None);
    }
    let origin = quoted(&selection);
    check_name(&name).map_err(|why| ConfigError(format!("{origin}: {why}")))?;
    load(&path_of(&directory, &name), &name, &origin).map(Some)
}

/// A service without a home directory has no contexts.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn directory(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("nats"))
}

fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join("context").join(format!("{name}.json"))
}

/// The same names as the `nats` CLI accepts: a name cannot leave the directory.
fn check_name(name: &str) -> Result<(), String> {
    if name.contains("..") || name.contains(['/', '\\']) {
        return Err(format!("{name:?} is not the name of a context, nor a .json file that exists"));
    }
    Ok(())
}

/// `origin` is the setting that named the context, for the error if it does not exist.
fn load(path: &Path, name: &str, origin: &str) -> Result<Level, ConfigError> {
    let text = fs::read(path).map_err(|error| {
        ConfigError(if is_absent(&error) {
            format!(
                "{origin} names the context {name:?}, which does not exist ({}): name another",
                quoted(path)
            )
        } else {
            format!("cannot read the context {name:?} in {}: {error}", quoted(path))
        })
    })?;
    parse(&text, name)
}

fn parse(text: &[u8], name: &str) -> Result<Level, ConfigError> {
    let at_fault = |why: String| ConfigError(format!("the context {name:?} {why}"));
    let mut fields = match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(at_fault("is not a JSON object".to_owned())),
        Err(error) => return Err(at_fault(format!("is not JSON: {error}"))),
    };
    for field in IGNORED {
        fields.remove(field);
    }
    let mut take = |field: &str| take(&mut fields, field, name);
    let level = Level {
        url: take("url")?,
        creds: take("creds")?,
        nkey: take("nkey")?,
        user: take("user")?,
        password: take("password")?,
        token: take("token")?,
        ca: take("ca")?,
        cert: take("cert")?,
        key: take("key")?,
        inbox_prefix: take("inbox_prefix")?,
    };
    if let Some((field, _)) = fields.iter().find(|(_, value)| !is_empty(value)) {
        return Err(at_fault(format!(
            "has the field {field:?}, which is not supported: remove it, or use another context"
        )));
    }
    for secret in [&level.password, &level.token].into_iter().flatten() {
        if let Some(scheme) = uri_scheme(&secret.value) {
            return Err(ConfigError(format!(
                "{} by {scheme}: is not supported: write it out, or use creds",
                secret.name
            )));
        }
    }
    Ok(level)
}

/// Removes a field; what remains at the end is unsupported.
fn take(fields: &mut Map<String, Value>, field: &str, context: &str) -> Result<Option<Setting>, ConfigError> {
    let name = format!("{field} in the context {context:?}");
    match fields.remove(field) {
        Some(Value::String(value)) if !value.is_empty() => Ok(Some(Setting { name, value })),
        Some(value) if !is_empty(&value) => Err(ConfigError(format!("{name} is not a string"))),
        _ => Ok(None),
    }
}

/// The tool writes every field, the unused ones empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes(), "lab").err().unwrap().to_string()
    }

    #[test]
    fn a_context_of_the_nats_cli_is_read() {
        let text = r#"{"description":"the lab","url":"nats://bus","socks_proxy":"","token":"","user":"seat",
            "password":"hush","creds":"","nkey":"","cert":"","key":"","ca":"/etc/ca.pem","nsc":"",
            "jetstream_domain":"","jetstream_api_prefix":"","jetstream_event_prefix":"$JS.X","inbox_prefix":"",
            "user_jwt":"","user_seed":"","color_scheme":"dark","tls_first":false,"windows_cert_store":"",
            "windows_cert_match_by":"","windows_cert_match":"","windows_ca_certs_match":null}"#;
        let level = parse(text.as_bytes(), "lab").unwrap();
        let of = |setting: &Option<Setting>| setting.as_ref().map(|s| (s.name.clone(), s.value.clone()));
        let named =
            |field: &str, value: &str| Some((format!("{field} in the context \"lab\""), value.to_owned()));
        assert_eq!(of(&level.url), named("url", "nats://bus"));
        assert_eq!(of(&level.user), named("user", "seat"));
        assert_eq!(of(&level.password), named("password", "hush"));
        assert_eq!(of(&level.ca), named("ca", "/etc/ca.pem"));
        for unset in [&level.creds, &level.nkey, &level.token, &level.cert, &level.key] {
            assert_eq!(of(unset), None);
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (text, words) in [
            (r#"{"tls_first":true}"#, "tls_first"),
            (r#"{"socks_proxy":"socks5://p"}"#, "socks_proxy"),
            (r#"{"jetstream_domain":"leaf"}"#, "jetstream_domain"),
            (r#"{"user_jwt":"eyJ0"}"#, "user_jwt"),
            (r#"{"nsc":"nsc://o/a/u"}"#, "nsc"),
            (r#"{"windows_ca_certs_match":["a"]}"#, "windows_ca_certs_match"),
            (r#"{"of_tomorrow":{"a":1}}"#, "of_tomorrow"),
        ] {
            let refused = format!("the context \"lab\" has the field {words:?}, which is not supported");
            assert_eq!(error(text), refused + ": remove it, or use another context");
        }
    }

    #[test]
    fn no_error_shows_a_secret() {
        for (text, words) in [
            (r#""hush""#, r#"the context "lab" is not a JSON object"#),
            (r#"{"password":["hush"]}"#, r#"password in the context "lab" is not a string"#),
            (
                r#"{"password":"data:,hush"}"#,
                "password in the context \"lab\" by data: is not supported: write it out, or use creds",
            ),
            (
                r#"{"password":"hush"#,
                r#"the context "lab" is not JSON: EOF while parsing a string at line 1 column 17"#,
            ),
        ] {
            assert_eq!(error(text), words);
        }
    }

    #[test]
    fn a_name_is_no_path() {
        assert_eq!(check_name("lab.eu"), Ok(()));
        for name in ["../x", "a/b", "a\\b", ".."] {
            assert_eq!(
                check_name(name),
                Err(format!("{name:?} is not the name of a context, nor a .json file that exists"))
            );
        }
    }
}

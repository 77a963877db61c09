//! The files that a connection reads: whether they exist, are readable, and look like what they should be.
//!
//! Each connection reads them again, so nothing of them is kept here. The check at the start gives a clear error in
//! place of a failed handshake.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{ConfigError, Setting};
use crate::credentials;

/// More than any of these files needs; a larger file was named by mistake.
const MAX_BYTES: u64 = 4 << 20;

/// What a file is for, which determines what it must contain.
#[derive(Clone, Copy)]
pub(super) enum FileKind {
    /// A user's JWT and seed, as `nsc` and the `nats` tool write them.
    Creds,
    /// A user's seed, bare or decorated.
    Nkey,
    /// One or more certificates in PEM.
    Certificate,
    /// A private key in PEM.
    Key,
}

impl FileKind {
    /// What is missing in the contents, or `None`. Of certificates and keys that is only a first look: whether they
    /// can be used shows when they are put together.
    fn lack(self, contents: &str) -> Option<&'static str> {
        let has = |holds: bool, lack| (!holds).then_some(lack);
        match self {
            Self::Creds => credentials::parse_creds(contents).err(),
            Self::Nkey => credentials::parse_nkey(contents).err(),
            Self::Certificate => {
                has(contents.contains("-----BEGIN CERTIFICATE-----"), "no certificate in PEM")
            }
            Self::Key => has(contents.contains("PRIVATE KEY-----"), "no private key in PEM"),
        }
    }
}

/// The path that a setting names, after a check of the file. A leading `~` and `$NAME` or `${NAME}` are expanded and
/// a `file://` is removed, as in the `nats` CLI.
pub(super) fn path(
    setting: &Setting,
    kind: FileKind,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, ConfigError> {
    // Errors show the setting as it was written: the values of its variables could be secrets.
    let at_fault = |why: &str| ConfigError(format!("{} {:?}: {why}", setting.name, setting.value));
    if setting.value.contains("-----BEGIN") || credentials::nkey_seed(&setting.value).is_some() {
        return Err(ConfigError(format!(
            "{} is the secret itself: put it into a file and name that",
            setting.name
        )));
    }
    let path = expand(without_scheme(setting)?, environment).map_err(|why| at_fault(&why))?;
    let contents = read(Path::new(&path)).map_err(|why| at_fault(&why))?;
    match kind.lack(&contents) {
        None => Ok(path.into()),
        Some(lack) => Err(at_fault(&format!("the file holds {lack}: name another file"))),
    }
}

/// Contexts may name credentials by URI. Of the schemes of the `nats` CLI only `file` is supported.
fn without_scheme(setting: &Setting) -> Result<&str, ConfigError> {
    match uri_scheme(&setting.value) {
        None => Ok(&setting.value),
        Some("file") => Ok(&setting.value["file://".len()..]),
        // The value of a `data:` URI is the credential itself and is never shown.
        Some(scheme) => Err(ConfigError(format!(
            "{}: credentials by {scheme}: are not supported: name a file",
            setting.name
        ))),
    }
}

/// The scheme of a value that the `nats` CLI would look up instead of using it directly.
pub(super) fn uri_scheme(value: &str) -> Option<&'static str> {
    let starts = |prefix: &str| value.get(..prefix.len()).is_some_and(|s| s.eq_ignore_ascii_case(prefix));
    [("file", "file://"), ("op", "op://"), ("nsc", "nsc://"), ("env", "env://"), ("data", "data:")]
        .into_iter()
        .find_map(|(scheme, prefix)| starts(prefix).then_some(scheme))
}

fn expand(path: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let variable =
        |name: &str| environment(name).ok_or_else(|| format!("the variable {name} in it is not set"));
    let mut expanded = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(parts) => parts,
            None => after.split_at(
                after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
            ),
        };
        if name.is_empty() {
            expanded.push('$');
            rest = after;
        } else {
            expanded.push_str(&variable(name)?);
            rest = behind;
        }
    }
    expanded.push_str(rest);
    match expanded.strip_prefix('~') {
        Some(behind) if behind.is_empty() || behind.starts_with('/') => Ok(variable("HOME")? + behind),
        _ => Ok(expanded),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file: name one that exists".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "this user may not read the file: change its owner or mode".to_owned()
            }
            _ => format!("cannot read the file ({error}): name another"),
        };
        Err(why)
    };
    // Checked before opening it: opening a FIFO waits for a writer.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err("this is not a regular file, which is read again for each connection".to_owned());
        }
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            return Err(format!("the file is larger than {MAX_BYTES} bytes: name another"));
        }
        Ok(_) => {}
        Err(error) => return cannot(error),
    }
    let mut contents = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut contents)) {
        // A certificate bundle may have comments in any encoding; the markers are ASCII.
        Ok(_) => Ok(String::from_utf8_lossy(&contents).into_owned()),
        Err(error) => cannot(error),
    }
}

/// The warning for a file that users other than its owner can read.
pub(super) fn exposed(setting: &str, path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let file = quoted(path);
        format!(
            "the {setting} file {file} has mode {mode:04o}: others than its owner can read it (chmod 600)"
        )
    })
}

/// A path as a message shows it: in quotes, its control characters escaped.
pub(super) fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";

    fn environment(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/seat".to_owned()),
            "DIR" => Some("/run/creds".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn paths_are_expanded() {
        for (path, expanded) in [
            ("/etc/seat.creds", Ok("/etc/seat.creds")),
            ("~/seat.creds", Ok("/home/seat/seat.creds")),
            ("~", Ok("/home/seat")),
            ("~other/x", Ok("~other/x")),
            ("a~", Ok("a~")),
            ("$DIR/x", Ok("/run/creds/x")),
            ("${DIR}_x/$HOME", Ok("/run/creds_x//home/seat")),
            ("a$/b$", Ok("a$/b$")),
            ("${}x", Ok("${}x")),
            ("${DIR", Ok("${DIR")),
            ("$NOT_SET/x", Err("the variable NOT_SET in it is not set")),
        ] {
            let expanded = expanded.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(expand(path, &environment), expanded, "{path}");
        }
    }

    #[test]
    fn a_file_that_lacks_something_is_reported() {
        let jwt = "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n";
        let creds = format!("{jwt}-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n");
        assert_eq!(FileKind::Creds.lack(&creds), None);
        assert_eq!(FileKind::Creds.lack(creds.trim_end()), None);
        assert_eq!(FileKind::Creds.lack(SEED), Some("no user JWT"));
        assert_eq!(FileKind::Creds.lack(jwt), Some("no user seed (a line SU…)"));
        assert_eq!(FileKind::Nkey.lack(jwt), Some("no user seed (a line SU…)"));
        assert_eq!(FileKind::Certificate.lack("-----BEGIN CERTIFICATE-----"), None);
        assert_eq!(FileKind::Certificate.lack(""), Some("no certificate in PEM"));
        assert_eq!(FileKind::Key.lack("-----BEGIN EC PRIVATE KEY-----"), None);
        assert_eq!(FileKind::Key.lack("-----BEGIN CERTIFICATE-----"), Some("no private key in PEM"));
    }

    #[test]
    fn a_value_by_uri_is_resolved_or_refused() {
        assert_eq!(uri_scheme("/a/b"), None);
        assert_eq!(uri_scheme("FILE:///a"), Some("file"));
        assert_eq!(uri_scheme("env://A"), Some("env"));
        assert_eq!(uri_scheme("data:;base64,AA"), Some("data"));
        assert_eq!(uri_scheme("datum"), None);
    }
}

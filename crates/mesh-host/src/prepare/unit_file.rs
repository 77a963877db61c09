//! The unit file of a process, and values as systemd reads them back.

use mesh_model::resource::Process;
use zeroize::Zeroizing;

/// Under which name the unit file of the resource `id` is among the contents. No id has a space.
pub(crate) fn content_of(id: &str) -> String {
    format!("{id} unit")
}

/// Where the environment of a process lies.
pub(crate) fn environment_path(unit: &str) -> String {
    format!("/var/lib/mesh-host/env/{unit}")
}

/// Where the unit file lies.
pub(crate) fn path(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}")
}

/// The unit file. No secret is in it: the environment has a file of its own.
pub(crate) fn text(process: &Process, has_environment: bool) -> String {
    let unit = process.unit();
    let mut text = format!(
        "# Written by mesh-host for the process {name}; what is changed here is put back.\n\
         [Unit]\nDescription={name} of the mesh\nAfter=network.target\n\n[Service]\nType=exec\nExecStart={command}\n",
        name = process.name,
        command = process.command.words().iter().map(|word| argument(word)).collect::<Vec<_>>().join(" "),
    );
    let mut line = |name: &str, value: &str| {
        text.push_str(name);
        text.push('=');
        text.push_str(value);
        text.push('\n');
    };
    if has_environment {
        line("EnvironmentFile", &environment_path(&unit));
    }
    if let Some(user) = &process.user {
        line("User", &user.to_string());
    }
    if let Some(dir) = &process.dir {
        line("WorkingDirectory", &dir.to_string().replace('%', "%%"));
    }
    line("Restart", "always");
    line("RestartSec", "1");
    text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    text
}

/// One word of a command line, byte for byte: in quotes, with specifiers, variables and escapes taken literally.
fn argument(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '$' | '%' => quoted.extend([character, character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                for byte in control.to_string().bytes() {
                    quoted.push_str("\\x");
                    quoted.push_str(&crate::digest::hex(&[byte]));
                }
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A value of an environment file for systemd: in double quotes, with a backslash before what has a meaning there.
pub(crate) fn quoted(value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut quoted = Zeroizing::new(Vec::with_capacity(2 * value.len() + 2));
    quoted.push(b'"');
    for byte in value {
        if b"\"\\`$".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{argument, quoted};

    #[test]
    fn words_and_values_are_taken_literally() {
        assert_eq!(argument("a b\"c\\d$e%f\ng"), r#""a b\"c\\d$$e%%f\ng""#);
        assert_eq!(quoted(b"a b\"c\\d$e`#'")[..], *br#""a b\"c\\d\$e\`#'""#);
    }
}

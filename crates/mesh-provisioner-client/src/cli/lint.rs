//! `lint`: what in a file is a placeholder, what is literal, and what looks like one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use mesh_model::assignment::Assignment;
use mesh_model::json::Read;
use mesh_model::manifest::Manifest;
use mesh_model::placeholder::{Declared, Seen, lint};

/// what in a file is a placeholder, what is literal, and what looks like one, with line and column
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "lint",
    note = "What is declared comes from --manifest, --assignment and --declare. A file that is a manifest or an assignment itself\ndeclares its own.\n\nExit status: 0 nothing looks like a placeholder without being one, 3 something does.",
    example = "{command_name} web.json",
    example = "{command_name} --declare port:http nginx.conf"
)]
pub(super) struct Lint {
    /// a declared placeholder, such as port:http; may be repeated
    #[argh(option, arg_name = "kind:name")]
    declare: Vec<String>,

    /// a module's manifest, which declares names
    #[argh(option, arg_name = "file")]
    manifest: Option<PathBuf>,

    /// an assignment, whose needs are declared
    #[argh(option, arg_name = "file")]
    assignment: Option<PathBuf>,

    /// name literal text too
    #[argh(switch)]
    all: bool,

    /// the files
    #[argh(positional)]
    file: Vec<PathBuf>,
}

impl Lint {
    pub(super) fn run(&self) -> Exit {
        let declared = match self.declared() {
            Ok(declared) => declared,
            Err(why) => {
                complain(&why);
                return Exit::Usage;
            }
        };
        if self.file.is_empty() {
            complain("no file is given");
            return Exit::Usage;
        }
        let mut exit = Exit::Done;
        let mut text = String::new();
        for file in &self.file {
            match std::fs::read(file) {
                Ok(bytes) => {
                    let content = String::from_utf8_lossy(&bytes);
                    let own = if self.declares() { None } else { own(&bytes) };
                    if report(file, &content, own.as_ref().unwrap_or(&declared), self.all, &mut text) {
                        exit = Exit::NotOk;
                    }
                }
                Err(error) => {
                    complain(&format!("{}: {error}", file.display()));
                    return Exit::Failed;
                }
            }
        }
        match print(&text) {
            Exit::Done => exit,
            other => other,
        }
    }

    /// Whether the command line says what is declared.
    fn declares(&self) -> bool {
        self.manifest.is_some() || self.assignment.is_some() || !self.declare.is_empty()
    }

    fn declared(&self) -> Result<Declared, String> {
        let mut declared = match (&self.manifest, &self.assignment) {
            (None, None) => Declared::default(),
            (Some(_), Some(_)) => {
                return Err("--manifest and --assignment both say what is declared: give one".to_owned());
            }
            (Some(path), None) => parse::<Manifest>(path)?.declared(),
            (None, Some(path)) => {
                let assignment = parse::<Assignment>(path)?;
                Declared::by_needs(assignment.needs.as_deref().unwrap_or_default())
            }
        };
        for key in &self.declare {
            let Some((kind, name)) = key.split_once(':') else {
                return Err(format!("--declare {key}: give kind:name, such as port:http"));
            };
            declared.add(kind, name);
        }
        Ok(declared)
    }
}

fn parse<T: Read>(path: &Path) -> Result<T, String> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    T::from_json_bytes(&bytes).map_err(|problem| format!("{shown}: {problem}"))
}

/// What a file that is a manifest or an assignment declares itself.
fn own(bytes: &[u8]) -> Option<Declared> {
    if let Ok(manifest) = Manifest::from_json_bytes(bytes) {
        return Some(manifest.declared());
    }
    Some(Declared::by_needs(&Assignment::from_json_bytes(bytes).ok()?.needs?))
}

/// Writes a line for each finding; returns whether something looks like a placeholder without being one.
fn report(file: &Path, content: &str, declared: &Declared, all: bool, text: &mut String) -> bool {
    let mut found = false;
    for finding in lint(content, declared) {
        let what = match &finding.seen {
            Seen::Placeholder => "placeholder".to_owned(),
            Seen::Escaped => "escaped: one dollar is taken".to_owned(),
            Seen::Literal if !all => continue,
            Seen::Literal => "literal".to_owned(),
            Seen::LooksLike(why) => {
                found = true;
                format!("text that looks like a placeholder: {why}")
            }
        };
        let place = format!("{}:{}:{}", file.display(), finding.line, finding.column);
        writeln!(text, "{}: {}: {what}", escape(&place), escape(&finding.text)).ok();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K03: shell look-alikes stay, and each odd one has a line with its place.
    #[test]
    fn k03_each_odd_text_has_a_line() {
        let mut declared = Declared::default();
        declared.add("secret", "db");
        let content = "${port:-8080} ${HOME}\n$${secret:db} ${secret:db}\n${secret:other} ${secret:";
        let mut text = String::new();
        assert!(report(Path::new("f"), content, &declared, false, &mut text));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().any(|line| line.starts_with("f:2:1: $${secret:db}: escaped")), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("f:2:15: ${secret:db}: placeholder")), "{text}");
        assert!(
            lines.iter().any(|line| line.starts_with("f:3:1: ${secret:other}: text that looks")),
            "{text}"
        );
        assert!(!text.contains("HOME"), "{text}");
    }

    #[test]
    fn a_manifest_and_an_assignment_declare_their_own_names() {
        let manifest = br#"{"module":"web","version":"1","ports":{"http":{}},"resources":[{"id":"a","type":"file","path":"/a","content":"${port:http} ${port:https} ${HOME}"}]}"#;
        let assignment = br#"{"module":"web","version":"1","needs":[{"kind":"port","name":"http"}],"placement":{"port":{"http":8080}},"resources":[{"id":"web.a","type":"file","path":"/a","content":"${port:http} ${port:https} ${HOME}"}]}"#;
        for bytes in [&manifest[..], assignment] {
            let declared = own(bytes).unwrap();
            let mut text = String::new();
            assert!(report(Path::new("f"), std::str::from_utf8(bytes).unwrap(), &declared, true, &mut text));
            let whats: Vec<&str> = text.lines().map(|line| line.split(": ").nth(2).unwrap()).collect();
            assert_eq!(whats, ["placeholder", "text that looks like a placeholder", "literal"], "{text}");
        }
        assert!(own(b"port ${port:http}").is_none() && own(b"{\"a\":1}").is_none());
    }
}

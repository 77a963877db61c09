//! Everything in a manifest that cannot work, told at once.

use std::collections::{BTreeMap, BTreeSet};

use super::scan::JOINED;
use super::{Manifest, judge};
use crate::assignment::PlacedKind;
use crate::json::{At, Json, Problem};
use crate::placeholder::{Collected, Template, joined};
use crate::plain_name;
use crate::settings::Asked;

/// What is to be said of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// What cannot work. A manifest with one of these is refused.
    pub problems: Vec<Problem>,
    /// What works, and is probably not what its author wants.
    pub warnings: Vec<Problem>,
}

impl Judged {
    pub(super) fn refuse(&mut self, at: &At<'_>, what: impl Into<String>) {
        self.problems.push(at.problem(what));
    }

    pub(super) fn warn(&mut self, at: &At<'_>, what: impl Into<String>) {
        self.warnings.push(at.problem(what));
    }

    fn expect(&mut self, at: &At<'_>, result: Result<(), String>) {
        if let Err(why) = result {
            self.refuse(at, why);
        }
    }
}

/// Judges a manifest without a mesh.
///
/// ```
/// use mesh_model::json::Read;
/// use mesh_model::manifest::{Manifest, check};
/// let text = br#"{"module":"web","version":"1","emits":["mail.sent"]}"#;
/// let judged = check(&Manifest::from_json_bytes(text).unwrap());
/// assert_eq!(judged.problems[0].to_string(), "emits[0]: \"mail.sent\" is not below web., where this module's subjects are");
/// ```
pub fn check(manifest: &Manifest) -> Judged {
    let mut judged = Judged::default();
    names(manifest, &mut judged);
    settings(manifest, &mut judged);
    contributions(manifest, &mut judged);
    subjects(manifest, &mut judged);
    judge::resources(manifest, &mut judged);
    judged.problems.sort();
    judged.problems.dedup();
    judged
}

fn names(manifest: &Manifest, judged: &mut Judged) {
    let root = At::Root;
    judged.expect(&root.field("module"), plain_name::check_own(&manifest.module));
    let version = &manifest.version;
    if version.is_empty() || version.len() > 64 || version.contains(|c: char| c.is_control() || c == ' ') {
        judged.refuse(
            &root.field("version"),
            format!("{version:?} is not a version: 1 to 64 characters without blanks"),
        );
    }
    named(&root.field("ports"), manifest.ports.keys(), judged);
    named(&root.field("dirs"), manifest.dirs.keys(), judged);
    named(&root.field("accesses"), manifest.accesses.keys(), judged);
    named(&root.field("secrets"), manifest.secrets.keys(), judged);
    named(&root.field("requires"), manifest.requires.keys(), judged);
    for (name, provision) in &manifest.requires {
        let requires = root.field("requires");
        judged.expect(&requires.field(name).field("provision"), plain_name::check_own(provision));
        if manifest.secrets.contains_key(name) {
            let what = "is a secret of the same name too, and ${secret:…} could not tell them apart";
            judged.refuse(&requires.field(name), what);
        }
    }
    listed(&root.field("provides"), &manifest.provides, plain_name::check_own, judged);
    listed(&root.field("reads"), &manifest.reads, collection, judged);
    let seats = root.field("seats");
    listed(&seats.field("holds"), &manifest.seats.holds, plain_name::check, judged);
    listed(&seats.field("asks"), &manifest.seats.asks, plain_name::check, judged);
    listed(&seats.field("replicated"), &manifest.seats.replicated, plain_name::check, judged);
    let mut fixed = BTreeMap::new();
    for (name, port) in &manifest.ports {
        if let Some(other) = port.fixed.and_then(|number| fixed.insert((port.protocol, number), name)) {
            judged.refuse(
                &root.field("ports").field(name).field("fixed"),
                format!("is the port of {other} too"),
            );
        }
    }
}

fn named<'n>(at: &At<'_>, names: impl Iterator<Item = &'n String>, judged: &mut Judged) {
    for name in names {
        judged.expect(&at.field(name), plain_name::check(name));
    }
}

fn listed(at: &At<'_>, names: &[String], check: fn(&str) -> Result<(), String>, judged: &mut Judged) {
    let mut seen = BTreeSet::new();
    for (place, name) in names.iter().enumerate() {
        judged.expect(&at.index(place), check(name));
        if !seen.insert(name) {
            judged.refuse(&at.index(place), format!("{name:?} stands twice"));
        }
    }
}

/// A collection is named by a kind and what the kind's readers agree on, such as `shell:zsh:normal`.
fn collection(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.' | '/');
    if name.is_empty() || name.len() > 255 || !name.chars().all(plain) {
        return Err(format!("{name:?} is not the name of a collection such as \"shell:zsh:normal\""));
    }
    Ok(())
}

fn settings(manifest: &Manifest, judged: &mut Judged) {
    let Some(schema) = &manifest.settings.schema else { return };
    for problem in schema.problems(&manifest.settings.defaults, Asked::Types) {
        let separator = if problem.path.is_empty() || problem.path.starts_with('[') { "" } else { "." };
        let path = format!("settings.defaults{separator}{}", problem.path);
        judged.problems.push(Problem { path, what: problem.what });
    }
}

fn contributions(manifest: &Manifest, judged: &mut Judged) {
    let (all, allowed) = (manifest.declared(), manifest.declared_for_contributions());
    for (name, item) in &manifest.contributes {
        let contributes = At::Root.field("contributes");
        let at = contributes.field(name);
        judged.expect(&at, collection(name));
        if name.split_once(':').is_some_and(|(kind, _)| JOINED.contains(&kind)) {
            let one = Collected { contributor: &manifest.module, item };
            if joined([one]).is_err() {
                judged.refuse(&at, "is neither a string nor an object with lines, which are strings");
            }
        }
        if item.get("order").is_some_and(|order| !matches!(order, Json::Number(_))) {
            judged.refuse(&at.field("order"), "is not a number");
        }
        texts(item, &at, &mut |text, at| {
            for placeholder in Template::parse(text, &all).placeholders() {
                if !allowed.has(placeholder.key) {
                    let kinds: Vec<&str> = PlacedKind::ALL.iter().map(|kind| kind.as_str()).collect();
                    judged.refuse(
                        at,
                        format!(
                            "{} may not stand in a contribution, only {} and config",
                            placeholder.key,
                            kinds.join(", ")
                        ),
                    );
                }
            }
        });
    }
}

fn texts(json: &Json, at: &At<'_>, look: &mut dyn FnMut(&str, &At<'_>)) {
    match json {
        Json::Text(text) => look(text, at),
        Json::List(items) => {
            items.iter().enumerate().for_each(|(place, item)| texts(item, &at.index(place), look));
        }
        Json::Object(members) => members.iter().for_each(|(name, value)| texts(value, &at.field(name), look)),
        _ => {}
    }
}

fn subjects(manifest: &Manifest, judged: &mut Judged) {
    let root = At::Root;
    let own = format!("{}.", manifest.module);
    for (place, subject) in manifest.emits.iter().enumerate() {
        let emits = root.field("emits");
        judged.expect(&emits.index(place), right_subject(subject));
        if !subject.starts_with(&own) {
            let what = format!("{subject:?} is not below {own}, where this module's subjects are");
            judged.refuse(&emits.index(place), what);
        }
    }
    for (place, subject) in manifest.consumes.iter().enumerate() {
        let consumes = root.field("consumes");
        judged.expect(&consumes.index(place), right_subject(subject));
    }
}

/// A subject below some module's name: no wildcard first, and nothing of the bus's or the mesh's own.
fn right_subject(subject: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{subject:?} is not a subject of a module: {why}"));
    let tokens: Vec<&str> = subject.split('.').collect();
    let plain = |token: &str| token.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'*' | b'>'));
    if subject.len() > 255 || tokens.iter().any(|token| token.is_empty()) {
        return wrong("it has an empty token, or is longer than 255 bytes");
    }
    let last = tokens.len() - 1;
    if !tokens
        .iter()
        .enumerate()
        .all(|(place, token)| plain(token) || *token == "*" || *token == ">" && place == last)
    {
        return wrong("a token has a blank or a wildcard within");
    }
    match tokens[0] {
        "*" | ">" => wrong("it begins with a wildcard"),
        first if first.starts_with('$') => wrong("what begins with $ is the bus's own"),
        first if first.starts_with("_INBOX") || first.starts_with("_R_") => wrong("answers go there"),
        first if first.starts_with("mesh-") => wrong("what begins with mesh- is the mesh's own"),
        _ if tokens.len() == 1 => wrong("it has one token alone"),
        _ => Ok(()),
    }
}

//! Fills one module.

use super::{Filled, Held, Module, NotReady, Values, unit_file};
use crate::desired::{Access, Archive, Desired, Directory, File, Into, Managed, Spec};
use crate::digest::{Digest, DigestKey};
use crate::target::{Origin, Target};
use mesh_model::format;
use mesh_model::json::{At, Problem, Read as _};
use mesh_model::placeholder::{Declared, Insertion, Template, may_stand};
use mesh_model::resource::{
    self, ArchiveSource, Content, Draft, Encode, Environment, Inserts, Place, Resource, What,
};
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

/// Where an unsigned value may not stand: its supplier could run commands, or become root.
const TRUSTED_PLACES: [&str; 14] = [
    "/etc/cron",
    "/etc/anacrontab",
    "/var/spool/cron",
    "/etc/sudoers",
    "/etc/profile",
    "/etc/systemd/",
    "/usr/lib/systemd/",
    "/usr/local/lib/systemd/",
    "/lib/systemd/",
    "/run/systemd/",
    "/etc/init.d/",
    "/etc/bash.bashrc",
    "/etc/ld.so",
    "/etc/pam.d/",
];

/// The same in the home of a user: units, and what shells read when they start.
const TRUSTED_IN_HOMES: [&str; 9] = [
    "/.config/systemd/",
    "/.profile",
    "/.bash_profile",
    "/.bash_login",
    "/.bashrc",
    "/.zprofile",
    "/.zlogin",
    "/.zshenv",
    "/.zshrc",
];

/// Why a module is not ready, and what it declares all the same.
type Early = (NotReady, Vec<Target>);

pub(super) fn module(module: Module, key: &DigestKey) -> Result<Vec<Filled>, Early> {
    let Module { origin, needs, resources, values } = module;
    let declared = Declared::by_needs(&needs);
    let mut missing = BTreeSet::new();
    let mut filled: Vec<Filled> = Vec::new();
    let mut targets = Vec::new();
    // The whole module is read even if something is wrong: what it declares is spoken for all the same.
    let mut wrong = values
        .keys()
        .find(|key| !is_needed(&declared, key))
        .map(|unused| format!("a value of {unused} was given, and nothing needs it"));
    for draft in &resources {
        let id = draft.id().to_string();
        let read = parsed(draft, &declared, &values, &mut missing);
        let resource = match read {
            Ok(Some(resource)) => resource,
            Ok(None) => continue,
            Err(problem) => {
                wrong.get_or_insert(format!("{id}: {problem}"));
                continue;
            }
        };
        targets.push(super::target_of(&id, &origin, resource.clone()));
        match one(resource, &origin, &declared, &values, key, &mut missing) {
            Ok(Some(one)) => filled.push(one),
            Ok(None) => {}
            Err(why) => drop(wrong.get_or_insert(format!("{id}: {why}"))),
        }
    }
    if let Some(why) = wrong {
        return Err((NotReady::Refused(why), targets));
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        return Err((NotReady::Waiting(format!("no value yet for {}", names.join(", "))), targets));
    }
    if let Some(why) = twice(&filled) {
        return Err((NotReady::Refused(why), targets));
    }
    let private = filled.iter().any(|filled| filled.secret);
    for filled in &mut filled {
        if let Spec::Managed(managed) = &mut filled.desired.spec {
            managed.private = private;
        }
    }
    Ok(filled)
}

fn is_needed(declared: &Declared, key: &str) -> bool {
    // Signed values are available whether they are needed or not; they are not given from outside.
    let from_outside = ["secret:", "consumers:", "bound:"].iter().any(|kind| key.starts_with(kind));
    // A credential's value is the whole of it; what is declared are its members.
    !from_outside || declared.has(key) || declared.has(&format!("{key}.user"))
}

/// Two resources with one id or one target.
fn twice(filled: &[Filled]) -> Option<String> {
    let mut ids = BTreeSet::new();
    let mut targets = BTreeMap::new();
    for Filled { desired, space, .. } in filled {
        if !ids.insert(&desired.id) {
            return Some(format!("the id {} stands twice", desired.id));
        }
        let into = matches!(desired.target().kind, crate::target::Kind::Into);
        if let Some(other) = targets.insert((space.space, &space.name), &desired.id).filter(|_| !into) {
            return Some(format!("{} and {other} have one target, {}", desired.id, space.name));
        }
    }
    None
}

/// The resource, where everything but contents and environments is filled. `None`: a value is missing.
fn parsed(
    draft: &Draft,
    declared: &Declared,
    values: &Values,
    missing: &mut BTreeSet<String>,
) -> Result<Option<Resource>, Problem> {
    let before = missing.len();
    let fill = |place: Place, text: &str, at: &At<'_>| {
        if place == Place::Open {
            return Ok(text.to_owned());
        }
        let template = Template::parse(text, declared);
        if let Some(wrong) = template.placeholders().find(|placeholder| !may_stand(placeholder.kind(), place))
        {
            return Err(at.problem(format!("the placeholder {} may not stand here", wrong.key)));
        }
        let lookup =
            template.look_up(|placeholder| Some((values.get(placeholder.key)?.value, Insertion::default())));
        match lookup {
            Ok(filling) => String::from_utf8(filling.to_bytes())
                .map_err(|_| at.problem("is not UTF-8 once it is filled")),
            Err(unfilled) => {
                missing.extend(unfilled.into_iter().map(|unfilled| unfilled.key));
                Ok(text.to_owned())
            }
        }
    };
    let json = draft.map_strings(fill, &At::Root)?;
    if missing.len() > before {
        return Ok(None);
    }
    Resource::read(&json, &At::Root).map(Some)
}

/// One resource with its content. `None`: a value is missing.
fn one(
    resource: Resource,
    origin: &Origin,
    declared: &Declared,
    values: &Values,
    key: &DigestKey,
    missing: &mut BTreeSet<String>,
) -> Result<Option<Filled>, String> {
    let space = resource.target();
    let id = resource.id.to_string();
    let mut what = resource.what;
    let mut filler = Filler { declared, values, missing, secret: false };
    let quoted = matches!(what, What::Process(_));
    let content = match &mut what {
        What::File(file) => {
            let Some(content) = filler.file(file)? else { return Ok(None) };
            Some(content)
        }
        What::Archive(archive) => match &mut archive.source {
            ArchiveSource::Bytes(bytes) => Some(Zeroizing::new(std::mem::take(bytes))),
            ArchiveSource::Path(_) => None,
        },
        What::Container(container) => filler.environment(&mut container.env, &container.insert, quoted)?,
        What::Process(process) => filler.environment(&mut process.env, &process.insert, quoted)?,
        What::Action(action) => filler.environment(&mut action.env, &action.insert, quoted)?,
        _ => None,
    };
    let secret = filler.secret;
    let digest = content
        .as_ref()
        .map(|content| if secret { Digest::keyed(key, content) } else { Digest::plain(content) });
    let none = || Digest::plain(b"");
    let env = digest.clone();
    let spec = spec(what, digest.unwrap_or_else(none), env);
    let unit = match &spec {
        Spec::Managed(managed) => match &managed.what {
            What::Process(process) => Some(unit_file::text(process, managed.env.is_some())),
            _ => None,
        },
        _ => None,
    };
    let desired = Desired { id, origin: origin.clone(), spec };
    Ok(Some(Filled { desired, content, unit, space, secret }))
}

/// What a resource shall be, its content apart.
pub(super) fn spec(what: What, digest: Digest, env: Option<Digest>) -> Spec {
    match what {
        What::Directory(directory) => Spec::Directory(Directory {
            path: directory.path.to_string(),
            mode: directory.mode.map_or(0o755, |mode| u32::from(mode.bits())),
            owner: directory.owner.map(|owner| owner.to_string()),
        }),
        What::Access(access) => Spec::Access(Access { path: access.path.to_string() }),
        What::File(resource::File { place: resource::Placed::Into(path), format: Some(format), .. }) => {
            Spec::Into(Into { path: path.to_string(), format, digest })
        }
        What::File(file) => Spec::File(File {
            path: file.place.path().to_string(),
            mode: match file.mode {
                Some(mode) => u32::from(mode.bits()),
                None if digest.is_keyed() => 0o600,
                None => 0o644,
            },
            digest,
            owner: file.owner.map(|owner| owner.to_string()),
            create_once: file.create_once,
            in_place: file.in_place,
            through_link: file.through_link,
        }),
        What::Archive(archive) => Spec::Archive(Archive {
            path: archive.path.to_string(),
            source: match &archive.source {
                ArchiveSource::Path(path) => Some(path.to_string()),
                ArchiveSource::Bytes(_) => None,
            },
            digest: Digest::known(&archive.sha256),
            strip: archive.strip,
            owner: archive.owner.map(|owner| owner.to_string()),
        }),
        other => {
            let unit = match &other {
                What::Process(process) => {
                    Some(Digest::plain(unit_file::text(process, env.is_some()).as_bytes()))
                }
                _ => None,
            };
            Spec::Managed(Box::new(Managed { what: other, env, unit, private: false }))
        }
    }
}

struct Filler<'f> {
    declared: &'f Declared,
    values: &'f Values,
    missing: &'f mut BTreeSet<String>,
    secret: bool,
}

impl Filler<'_> {
    /// The text with its values. `None`: one is missing.
    fn text(
        &mut self,
        text: &str,
        insert: &Inserts,
        encode: Option<Encode>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        let template = Template::parse(text, self.declared);
        let lookup = template.look_up(|placeholder| {
            let given = self.values.get(placeholder.key)?;
            self.secret |= given.secret;
            Some((given.value, Insertion { insert: insert.get(placeholder.key).copied(), encode }))
        });
        match lookup {
            Ok(filling) => {
                let mut bytes = Zeroizing::new(Vec::new());
                filling.write_to(&mut bytes);
                Ok(Some(bytes))
            }
            Err(unfilled) => {
                for unfilled in unfilled {
                    if unfilled.why != mesh_model::placeholder::NotFilled::Missing {
                        return Err(unfilled.to_string());
                    }
                    self.missing.insert(unfilled.key);
                }
                Ok(None)
            }
        }
    }

    fn file(&mut self, file: &resource::File) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        let path = file.place.path().to_string();
        let text = match &file.content {
            Content::Bytes(bytes) => return Ok(Some(Zeroizing::new(bytes.clone()))),
            Content::Text(text) => text,
        };
        let runs = file.mode.is_some_and(|mode| mode.bits() & 0o111 != 0);
        let trusted = runs
            || TRUSTED_PLACES.iter().any(|place| path.starts_with(place))
            || TRUSTED_IN_HOMES.iter().any(|place| path.contains(place));
        let unsigned = Template::parse(text, self.declared)
            .placeholders()
            .any(|placeholder| placeholder.kind() == "bound");
        if trusted && unsigned {
            return Err("a bound value is not signed, and may not stand in what is executed: put it into a file that \
                        is only read"
                .to_owned());
        }
        let Some(bytes) = self.text(text, &file.insert, file.encode)? else { return Ok(None) };
        if let Some(wanted) = file.format {
            format::check(wanted, &bytes).map_err(|wrong| wrong.to_string())?;
            if let (resource::Placed::Into(_), Ok(text)) = (&file.place, std::str::from_utf8(&bytes)) {
                crate::leaves::next(wanted, None, Some(text), &crate::leaves::Kept::default())?;
            }
        }
        Ok(Some(bytes))
    }

    /// Takes an environment out of its resource: the lines of an environment file. `quoted`: as systemd reads it, where
    /// others take a line as it is.
    fn environment(
        &mut self,
        env: &mut Environment,
        insert: &Inserts,
        quoted: bool,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        if env.is_empty() {
            return Ok(None);
        }
        let mut lines = Zeroizing::new(Vec::new());
        for (name, text) in std::mem::take(env) {
            let Some(value) = self.text(&text, insert, None)? else { continue };
            if value.iter().any(|byte| [b'\n', b'\r', 0].contains(byte)) {
                return Err(format!(
                    "the value of {name} holds a newline or a NUL, which no environment file can hold"
                ));
            }
            let value = if quoted { unit_file::quoted(&value) } else { value };
            // Room is made first, so that no outgrown buffer is left behind.
            let mut grown =
                Zeroizing::new(Vec::with_capacity(lines.len() + name.to_string().len() + value.len() + 2));
            grown.extend_from_slice(&lines);
            grown.extend_from_slice(name.to_string().as_bytes());
            grown.push(b'=');
            grown.extend_from_slice(&value);
            grown.push(b'\n');
            lines = grown;
        }
        Ok(Some(lines))
    }
}

impl Values {
    /// A value that root gave by hand.
    pub fn insert_text(&mut self, key: String, text: &str) {
        self.insert(key, Held::Plain(mesh_model::json::Json::text(text)));
    }
}

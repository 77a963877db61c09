//! The modules of a declaration with the available values: signed ones from the signed bytes, the others from the request.

use super::collections::{contributions, is_collection, value};
use crate::prepare::{Held, Module, NotReady, SecretJson, Values};
use crate::record::{Entry, Memory};
use crate::site::Settings;
use crate::target::Origin;
use mesh_model::assignment::{Assignment, Need};
use mesh_model::bundle::Bundle;
use mesh_model::declaration::{ADOPTION, Declaration, Part};
use mesh_model::digest::Digest;
use mesh_model::host_api::{Given, ModuleValues};
use mesh_model::json::{Json, Read as _};
use mesh_model::keys::SealingKey;
use mesh_model::name;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Credential;
use nkeys::XKey;
use std::collections::BTreeMap;

/// The modules of a request.
#[derive(Default)]
pub struct Modules {
    /// Those that can be prepared.
    pub modules: Vec<Module>,
    /// Those among the missing whose assignment is available, without their values from outside.
    pub unfilled: Vec<Module>,
    /// Those that cannot, and why.
    pub missing: BTreeMap<Origin, NotReady>,
    /// Revisions of secrets, to be remembered.
    pub revisions: Vec<Entry>,
    /// How many resources each has.
    pub resources: BTreeMap<String, u64>,
}

/// What opens sealed values.
pub struct Keys<'k> {
    /// The key of this machine; `None`: there is none yet.
    pub own: Option<&'k XKey>,
    /// The vault's key that the declaration names.
    pub vault: &'k SealingKey,
    /// Mesh and node.
    pub settings: &'k Settings,
}

/// One module whose bytes fit the declaration.
struct Fitting {
    origin: Origin,
    assignment: Assignment,
    signed: Values,
}

/// The modules of a declaration, in its order.
pub fn modules(
    declaration: &Declaration,
    assignments: &BTreeMap<String, Vec<u8>>,
    settings: &BTreeMap<String, Vec<u8>>,
    values: &BTreeMap<String, ModuleValues>,
    memory: &Memory,
    keys: &Keys<'_>,
) -> Modules {
    let mut found = Modules::default();
    if let Some(adoption) = &declaration.adoption {
        found.modules.push(Module {
            origin: Origin::Mesh(ADOPTION.to_owned()),
            needs: Vec::new(),
            resources: adoption.resources.clone(),
            values: Values::default(),
        });
    }
    let mut fitting = Vec::new();
    for part in &declaration.modules {
        let origin = Origin::Mesh(part.module.clone());
        match fits(part, assignments.get(&part.module), settings.get(&part.module)) {
            Ok((assignment, signed)) => {
                found.resources.insert(part.module.clone(), assignment.resources.len() as u64);
                fitting.push(Fitting { origin, assignment, signed });
            }
            Err(why) => drop(found.missing.insert(origin, why)),
        }
    }
    // A collection is whole only if all contributors are available.
    let incomplete = found.missing.keys().next().map(|origin| origin.name().to_owned());
    let mut all = Vec::new();
    for Fitting { origin, assignment, signed } in &fitting {
        match contributions(assignment, signed) {
            Ok(items) => {
                all.extend(items.into_iter().map(|(into, item)| (origin.name().to_owned(), into, item)));
            }
            Err(why) => drop(found.missing.insert(origin.clone(), NotReady::Waiting(why))),
        }
    }
    for Fitting { origin, assignment, mut signed } in fitting {
        if found.missing.contains_key(&origin) {
            continue;
        }
        let Assignment { needs, resources, .. } = assignment;
        let needs = needs.unwrap_or_default();
        let added = outside(&origin, &needs, values.get(origin.name()), memory, keys, &mut found.revisions)
            .and_then(|outside| {
                for (key, held) in outside {
                    signed.insert(key, held);
                }
                collected(&needs, &all, incomplete.as_deref(), &mut signed)
            });
        match added {
            Ok(()) => found.modules.push(Module { origin, needs, resources, values: signed }),
            Err(why) => {
                found.missing.insert(origin.clone(), why);
                found.unfilled.push(Module { origin, needs, resources, values: signed });
            }
        }
    }
    found
}

/// Fills the needs of collections.
fn collected(
    needs: &[Need],
    all: &[(String, String, Json)],
    incomplete: Option<&str>,
    values: &mut Values,
) -> Result<(), NotReady> {
    for need in needs.iter().filter(|need| is_collection(&need.kind)) {
        if let Some(module) = incomplete {
            return Err(NotReady::Waiting(format!("{}:{} waits for {module}", need.kind, need.name)));
        }
        let held = value(&need.kind, &need.name, all).map_err(NotReady::Refused)?;
        values.insert(format!("{}:{}", need.kind, need.name), held);
    }
    Ok(())
}

/// The assignment and the signed values, if the bytes are those that the declaration names.
fn fits(
    part: &Part,
    assignment: Option<&Vec<u8>>,
    settings: Option<&Vec<u8>>,
) -> Result<(Assignment, Values), NotReady> {
    let waiting = |why: &str| NotReady::Waiting(why.to_owned());
    let (Some(assignment), Some(settings)) = (assignment, settings) else {
        return Err(waiting("its assignment and settings are not here yet"));
    };
    if Digest::of(assignment) != part.assignment {
        return Err(waiting("digest does not fit: the assignment is another one than declared"));
    }
    if Digest::of(settings) != part.settings {
        return Err(waiting("digest does not fit: the settings are others than declared"));
    }
    let refused = |what: &str, why: String| NotReady::Refused(format!("{what}: {why}"));
    let assignment = Assignment::from_json_bytes(assignment)
        .map_err(|problem| refused("the assignment", problem.to_string()))?;
    if assignment.module != part.module {
        return Err(refused("the assignment", format!("it is of the module {}", assignment.module)));
    }
    let token = name::encode(&part.module);
    if let Some(draft) = assignment.resources.iter().find(|draft| draft.id().prefix() != Some(&*token)) {
        return Err(refused("the assignment", format!("the id {} is not below {token}", draft.id())));
    }
    let settings =
        Json::parse_bytes(settings).map_err(|problem| refused("the settings", problem.to_string()))?;
    let values = signed(&assignment, settings).map_err(NotReady::Refused)?;
    Ok((assignment, values))
}

/// The values of the signed kinds.
fn signed(assignment: &Assignment, settings: Json) -> Result<Values, String> {
    let mut values = Values::default();
    let placement = &assignment.placement;
    let maps = [
        ("dir", &placement.dir),
        ("access", &placement.access),
        ("seat", &placement.seat),
        ("machine", &placement.machine),
    ];
    for (kind, map) in maps {
        for (name, value) in map {
            values.insert_text(format!("{kind}:{name}"), value);
        }
    }
    for (name, port) in &placement.port {
        values.insert_text(format!("port:{name}"), &port.to_string());
    }
    let Json::Object(members) = settings else { return Err("the settings are not an object".to_owned()) };
    for (name, value) in members {
        values.insert(format!("config:{name}"), Held::Plain(value));
    }
    Ok(values)
}

/// The values from outside: `secret`, `consumers` and `bound`.
fn outside(
    origin: &Origin,
    needs: &[Need],
    given: Option<&ModuleValues>,
    memory: &Memory,
    keys: &Keys<'_>,
    revisions: &mut Vec<Entry>,
) -> Result<Vec<(String, Held)>, NotReady> {
    let given = match given {
        Some(ModuleValues::Given(given)) => given,
        Some(ModuleValues::Same) => {
            return Err(NotReady::Waiting(
                "its values are not here, and the client says that they are".to_owned(),
            ));
        }
        None => return Err(NotReady::Waiting("its values are not here yet".to_owned())),
    };
    let mut held = Vec::new();
    for (key, given) in given {
        let refused = |why: String| NotReady::Refused(format!("{key}: {why}"));
        let Some((kind, name)) = key.split_once(':') else {
            return Err(refused("is not a kind and name".to_owned()));
        };
        if !["secret", "consumers", "bound"].contains(&kind) {
            return Err(refused(
                "values of this kind are signed, and cannot be given from outside".to_owned(),
            ));
        }
        let root = name.split('.').next().unwrap_or(name);
        let fits = |need: &&Need| {
            need.kind == kind && (need.name == name || need.provision.is_some() && need.name == root)
        };
        let Some(need) = needs.iter().find(fits) else {
            return Err(refused("nothing needs it".to_owned()));
        };
        let value = match (kind, given) {
            ("bound", Given::Text(text)) => Held::Plain(Json::text(text.as_str())),
            ("bound", Given::Json(json)) => Held::Plain(json.clone()),
            ("secret", Given::Sealed(sealed)) => match sealed.as_slice() {
                [sealed] => secret(origin, need, sealed, memory, keys, revisions).map_err(refused)?,
                _ => return Err(refused("is not one sealed value".to_owned())),
            },
            ("consumers", Given::Sealed(sealed)) => {
                consumers(origin, need, sealed, memory, keys, revisions).map_err(refused)?
            }
            _ => return Err(refused("is not in the form of its kind".to_owned())),
        };
        held.push((key.clone(), value));
    }
    Ok(held)
}

/// Opens one sealed value, and remembers its revision.
fn open(
    label: &Label,
    revision_of: String,
    sealed: &Sealed,
    memory: &Memory,
    keys: &Keys<'_>,
    revisions: &mut Vec<Entry>,
) -> Result<mesh_model::secret::Secret, String> {
    let own = keys.own.ok_or("this host has no sealing key: make one with `mesh-host key make`")?;
    let opened = sealed.open(own, keys.vault, label).map_err(|why| why.to_string())?;
    let newest = memory.revisions.get(&revision_of).copied().unwrap_or(0);
    if opened.revision < newest {
        return Err(format!("its revision is {}, and {newest} was accepted before", opened.revision));
    }
    if opened.revision > newest {
        revisions.push(Entry::Revision { secret: revision_of, revision: opened.revision });
    }
    Ok(opened.value)
}

fn label(origin: &Origin, need: &Need, keys: &Keys<'_>) -> Label {
    Label {
        mesh: keys.settings.mesh.clone(),
        node: keys.settings.node.clone(),
        module: origin.name().to_owned(),
        kind: need.kind.clone(),
        name: need.name.clone(),
        of: None,
    }
}

fn secret(
    origin: &Origin,
    need: &Need,
    sealed: &Sealed,
    memory: &Memory,
    keys: &Keys<'_>,
    revisions: &mut Vec<Entry>,
) -> Result<Held, String> {
    let label = label(origin, need, keys);
    let revision_of = format!("{}/secret:{}", origin.name(), need.name);
    let value = open(&label, revision_of, sealed, memory, keys, revisions)?;
    if need.provision.is_none() {
        return Ok(Held::Secret(value));
    }
    Credential::read(&value).map(Held::Credential).ok_or_else(|| "is not a credential".to_owned())
}

/// The list of consumers with what they use, out of one sealed value for each.
fn consumers(
    origin: &Origin,
    need: &Need,
    sealed: &[Sealed],
    memory: &Memory,
    keys: &Keys<'_>,
    revisions: &mut Vec<Entry>,
) -> Result<Held, String> {
    let declared = need.of.clone().unwrap_or_default();
    let mut list = Vec::new();
    for consumer in &declared {
        let label = Label { of: Some(consumer.clone()), ..label(origin, need, keys) };
        let who = format!("{}.{}.{}", consumer.node, consumer.module, consumer.name);
        let revision_of = format!("{}/consumers:{}/{who}", origin.name(), need.name);
        // Each says whose it is, so the one that opens under this label is the right one. Who has none is left out.
        let opened = sealed
            .iter()
            .find_map(|sealed| open(&label, revision_of.clone(), sealed, memory, keys, revisions).ok());
        let Some(value) = opened else { continue };
        let credential =
            Credential::read(&value).ok_or_else(|| format!("that of {who} is not a credential"))?;
        let text = |member| {
            let bytes = credential.member(member).map(mesh_model::secret::Secret::expose).unwrap_or_default();
            Json::text(String::from_utf8_lossy(bytes).into_owned())
        };
        list.push(Json::Object(vec![
            ("node".to_owned(), Json::text(&*consumer.node)),
            ("module".to_owned(), Json::text(&*consumer.module)),
            ("name".to_owned(), Json::text(&*consumer.name)),
            ("user".to_owned(), text("user")),
            ("password".to_owned(), text("password")),
        ]));
    }
    if list.len() < sealed.len() {
        return Err(
            "a sealed value belongs to none of the declared consumers, or cannot be opened".to_owned()
        );
    }
    Ok(Held::SecretJson(SecretJson(Json::List(list))))
}

/// A bundle as a module. Its values stand in it, of any kind, but none that is sealed.
pub fn bundle(bundle: Bundle) -> Result<Module, String> {
    let Bundle { bundle: name, resources, needs, values: given } = bundle;
    let mut values = Values::default();
    for (key, given) in given {
        let needed = |need: &Need| key == format!("{}:{}", need.kind, need.name);
        if !needs.iter().any(needed) {
            return Err(format!("a value of {key} is given, and nothing needs it"));
        }
        let is_secret = key.starts_with("secret:") || key.starts_with("consumers:");
        let json = match given {
            Given::Text(text) => Json::text(text),
            Given::Json(json) => json,
            Given::Sealed(_) => return Err(format!("{key}: a bundle cannot hold sealed values")),
        };
        values.insert(key, if is_secret { Held::SecretJson(SecretJson(json)) } else { Held::Plain(json) });
    }
    Ok(Module { origin: Origin::Bundle(name), needs, resources, values })
}

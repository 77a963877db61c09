//! One module on one node: its assignment and its settings, with a reason on every part.

use super::bindings::Bindings;
use super::ports::Placed;
use super::reason::{Reason, Reasons};
use super::seats::Seating;
use super::snapshot::{Module, Node, Snapshot};
use mesh_model::assignment::{self, Assignment, Contribution, Need, Placement, Provider};
use mesh_model::json::{At, Json, Read};
use mesh_model::manifest::{Manifest, dir_id, dir_path};
use mesh_model::name;
use mesh_model::placeholder::{Template, fill_item, fill_placed};
use mesh_model::resource::{Draft, Kind, Resource, Target};
use mesh_model::settings::{self, Asked};
use std::collections::{BTreeMap, BTreeSet};

/// What one node is to run of one module: the exact bytes of both values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModulePlan {
    /// The version of the manifest.
    pub version: String,
    /// The assignment.
    pub assignment: Vec<u8>,
    /// The settings.
    pub settings: Vec<u8>,
    /// Why each part of the assignment is as it is.
    pub why: Reasons,
    /// Why each part of the settings is as it is.
    pub settings_why: Reasons,
    /// Ids of resources that hold a secret, with its key: they need a machine that has joined.
    pub sealed: Vec<(String, String)>,
    /// What each resource acts on.
    pub targets: Vec<(Target, String)>,
    /// The ports, by name: number and protocol.
    pub ports: BTreeMap<String, (u16, String)>,
    /// What it keeps, and what the loss of that would mean.
    pub data: Option<(String, String)>,
}

/// What a module's plan is made of beside its manifest.
pub(super) struct Around<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) prepared: &'s BTreeMap<&'s str, Prepared>,
    pub(super) name: &'s str,
    pub(super) node: &'s Node,
    pub(super) bindings: &'s Bindings,
    pub(super) seating: &'s Seating,
}

/// What follows from a manifest alone: it is the same on every node.
pub(super) struct Prepared {
    pub(super) needs: Vec<Need>,
    resources: Vec<Draft>,
    /// The ids of the resources that were added for directories.
    dirs: Vec<String>,
    sealed: Vec<(String, String)>,
    /// The seats and the facts of the machine that it uses.
    seats: BTreeSet<String>,
    facts: BTreeSet<String>,
}

/// What follows from each manifest alone, of those that can be read.
pub(super) fn prepare(snapshot: &Snapshot) -> BTreeMap<&str, Prepared> {
    let of = |(name, known)| -> Option<(&str, Prepared)> {
        let (name, known): (&String, &Module) = (name, known);
        let manifest = known.manifest.as_ref().ok()?;
        let needs = manifest.needs();
        let (resources, dirs) = resources(name, manifest);
        let sealed = sealed(manifest);
        let (seats, facts) = (used("seat", manifest, &needs), used("machine", manifest, &needs));
        Some((name.as_str(), Prepared { needs, resources, dirs, sealed, seats, facts }))
    };
    snapshot.modules.iter().filter_map(of).collect()
}

pub(super) fn compose(
    around: &Around<'_>,
    module: (&str, &Module, &Manifest),
    ports: &BTreeMap<String, Placed>,
    problems: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Option<ModulePlan> {
    let (name, known, manifest) = module;
    let before = problems.len();
    let prepared = around.prepared.get(name)?;
    let mut why = Reasons::default();
    let assigned = around.snapshot.assignments.get(&(around.name.to_owned(), name.to_owned()))?;
    why.put([""; 0], Reason::Assigned(assigned.act));
    for part in ["version", "resources", "needs", "contributes"] {
        why.put([part], Reason::Manifest(manifest.version.clone(), known.act));
    }
    let (settings, mut settings_why) = compose_settings(around, name, manifest, problems);
    settings_why.put([""; 0], Reason::Assigned(assigned.act));
    let needs = needs(around, name, prepared, &mut why);
    let placement = placement(around, name, manifest, ports, prepared, &mut why, problems);
    if problems.len() > before {
        return None;
    }
    let contributes = contributes(manifest, &placement, &settings, problems);
    for id in &prepared.dirs {
        why.put(["resources".to_owned(), format!("[{id}]")], Reason::Directory);
    }
    let resources = prepared.resources.clone();
    let targets = targets(manifest, &resources, &placement, problems);
    let assignment = Assignment {
        module: name.to_owned(),
        version: manifest.version.clone(),
        needs: Some(needs),
        contributes,
        placement,
        resources,
    };
    let assignment_bytes = bytes(&assignment);
    if assignment_bytes.len() > assignment::MAX_BYTES {
        problems.push(too_large(&assignment, assignment_bytes.len()));
    }
    let settings_bytes = settings.to_string().into_bytes();
    if settings_bytes.len() > settings::MAX_BYTES {
        problems.push(format!(
            "its settings have {} bytes, at most {}",
            settings_bytes.len(),
            settings::MAX_BYTES
        ));
    }
    let data = manifest.data.as_ref().map(|data| (data.keeps.clone(), data.worth.to_string()));
    if let Some((keeps, worth)) = &data {
        let key = (around.name.to_owned(), name.to_owned());
        if worth != "low" && !around.snapshot.data.contains_key(&key) {
            notes.push(format!("{name} starts empty here: {keeps}, whose worth is {worth}"));
        }
    }
    if problems.len() > before {
        return None;
    }
    Some(ModulePlan {
        version: manifest.version.clone(),
        assignment: assignment_bytes,
        settings: settings_bytes,
        why,
        settings_why,
        sealed: prepared.sealed.clone(),
        targets,
        ports: ports
            .iter()
            .map(|(name, placed)| (name.clone(), (placed.port, placed.protocol.clone())))
            .collect(),
        data,
    })
}

fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| unreachable!("our own documents are JSON"))
}

/// The layers of a module's settings on a node, the lowest first, with the reason that each gives.
pub fn layers<'s>(
    snapshot: &'s Snapshot,
    node: Option<&str>,
    module: &str,
    manifest: &'s Manifest,
) -> Vec<(&'static str, &'s Json, Reason)> {
    let mut layers = vec![("defaults", &manifest.settings.defaults, Reason::Defaults)];
    if let Some(mesh) = snapshot.layers.get(&(module.to_owned(), None)) {
        layers.push(("mesh", &mesh.value, Reason::Mesh(mesh.act)));
    }
    if let Some(own) = node.and_then(|node| snapshot.layers.get(&(module.to_owned(), Some(node.to_owned()))))
    {
        layers.push(("node", &own.value, Reason::ForNode(own.act)));
    }
    layers
}

fn compose_settings(
    around: &Around<'_>,
    module: &str,
    manifest: &Manifest,
    problems: &mut Vec<String>,
) -> (Json, Reasons) {
    let layers = layers(around.snapshot, Some(around.name), module, manifest);
    let named: Vec<(&str, &Json)> = layers.iter().map(|(layer, json, _)| (*layer, *json)).collect();
    let merged = settings::merge(&named);
    let reason = |layer: &str| {
        let found = layers.iter().find(|(name, ..)| *name == layer);
        found.map_or(Reason::Defaults, |(.., reason)| reason.clone())
    };
    let mut why = Reasons::default();
    for (path, layer) in &merged.origins {
        why.put(path.clone(), reason(layer));
    }
    for (path, layer) in &merged.removed {
        why.put(path.clone(), Reason::Removed(Box::new(reason(layer))));
    }
    if let Some(schema) = &manifest.settings.schema {
        let broken = schema.problems(&merged.value, Asked::All);
        problems.extend(broken.into_iter().map(|problem| format!("its settings: {problem}")));
    }
    (merged.value, why)
}

fn needs(around: &Around<'_>, module: &str, prepared: &Prepared, why: &mut Reasons) -> Vec<Need> {
    let mut needs = prepared.needs.clone();
    for need in &mut needs {
        if need.provision.is_some() {
            let entry = (around.name.to_owned(), module.to_owned(), need.name.clone());
            if let Some((bound, since)) = around.bindings.bound.get(&entry) {
                need.provider = Some(Provider { node: bound.node.clone(), module: bound.module.clone() });
                let reason =
                    Reason::Bound { node: bound.node.clone(), module: bound.module.clone(), since: *since };
                why.put(["needs".to_owned(), format!("[{}:{}]", need.kind, need.name)], reason);
            }
        }
        if need.kind == "consumers" {
            let consumers = around.bindings.consumers(around.name, module, &need.name);
            let reason = Reason::Consumers(consumers.len());
            why.put(["needs".to_owned(), format!("[consumers:{}]", need.name)], reason);
            need.of = Some(consumers);
        }
    }
    needs
}

/// The names of one kind that a module uses: in its resources, and in what it contributes.
fn used(kind: &str, manifest: &Manifest, needs: &[Need]) -> BTreeSet<String> {
    let mut used: BTreeSet<String> =
        needs.iter().filter(|need| need.kind == kind).map(|need| need.name.clone()).collect();
    let declared = manifest.declared_for_contributions();
    let mut open: Vec<&Json> = manifest.contributes.values().collect();
    while let Some(json) = open.pop() {
        match json {
            Json::Text(text) => {
                let template = Template::parse(text, &declared);
                let found = template.placeholders().filter(|found| found.kind() == kind);
                used.extend(found.map(|found| found.name().to_owned()));
            }
            Json::List(items) => open.extend(items),
            Json::Object(members) => open.extend(members.iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    used
}

fn placement(
    around: &Around<'_>,
    module: &str,
    manifest: &Manifest,
    ports: &BTreeMap<String, Placed>,
    prepared: &Prepared,
    why: &mut Reasons,
    problems: &mut Vec<String>,
) -> Placement {
    let mut placement = Placement::default();
    let (at, node) = (around.name, around.node);
    for name in manifest.dirs.keys() {
        placement.dir.insert(name.clone(), dir_path(module, name));
        why.put(["placement", "dir", name], Reason::Directory);
    }
    for name in manifest.accesses.keys() {
        match node.accesses.get(name) {
            Some((path, act)) => {
                placement.access.insert(name.clone(), path.clone());
                why.put(["placement", "access", name], Reason::Access(*act));
            }
            None => problems.push(format!(
                "it needs the operator's path {name} on {at}: say it with node access {at} {name} PATH"
            )),
        }
    }
    for (name, placed) in ports {
        placement.port.insert(name.clone(), placed.port);
        why.put(["placement", "port", name], placed.why.clone());
    }
    let asked = &prepared.seats;
    let seats = [&manifest.seats.holds, &manifest.seats.asks, &manifest.seats.replicated];
    for seat in seats.into_iter().flatten() {
        let holder = around.seating.holders.get(seat);
        let address = holder.and_then(|holder| around.snapshot.nodes.get(&holder.node)?.address());
        match (holder, address) {
            (Some(holder), Some(address)) => {
                placement.seat.insert(seat.clone(), address.to_owned());
                let (node, module) = (holder.node.clone(), holder.module.clone());
                why.put(["placement", "seat", seat], Reason::Seat { node, module });
            }
            (Some(holder), None) if asked.contains(seat) => problems.push(format!(
                "it needs the address of {}, which holds the seat {seat}: say it with node set {} --address A",
                holder.node, holder.node
            )),
            (None, _) if asked.contains(seat) => {
                problems.push(format!("it needs the address of the seat {seat}, which nobody holds"));
            }
            _ => {}
        }
    }
    let asked = &prepared.facts;
    placement.machine.insert("name".into(), at.to_owned());
    for fact in asked.iter().filter(|fact| *fact != "name") {
        let said = Reason::Node(node.act);
        let joined = node.keys.as_ref().map_or(Reason::Node(node.act), |keys| Reason::Joined(keys.joined));
        let (value, reason) = match fact.as_str() {
            "address" => (node.address(), if node.address.is_some() { said } else { joined }),
            "zone" => (node.zone.as_deref(), said),
            "arch" => (node.keys.as_ref().and_then(|keys| keys.arch.as_deref()), joined),
            _ => (None, said),
        };
        match value {
            Some(value) => {
                placement.machine.insert(fact.clone(), value.to_owned());
                why.put(["placement", "machine", fact], reason);
            }
            None if fact == "arch" => {
                problems
                    .push(format!("it needs the architecture of {at}, which is known once {at} has joined"));
            }
            None => {
                problems.push(format!("it needs the {fact} of {at}: say it with node set {at} --{fact} …"));
            }
        }
    }
    placement
}

fn contributes(
    manifest: &Manifest,
    placement: &Placement,
    settings: &Json,
    problems: &mut Vec<String>,
) -> Vec<Contribution> {
    let declared = manifest.declared_for_contributions();
    let contributes = At::Root.field("contributes");
    let mut filled = Vec::new();
    for (collection, item) in &manifest.contributes {
        match fill_item(item, &declared, placement, settings, &contributes.field(collection)) {
            Ok(item) => filled.push(Contribution { collection: collection.clone(), item }),
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    filled
}

/// The manifest's resources with the module's token before their ids, and a resource for each declared directory: behind
/// the users and packages, and before the first that names one of them. Gives the ids of the added ones too.
fn resources(module: &str, manifest: &Manifest) -> (Vec<Draft>, Vec<String>) {
    let token = name::encode(module);
    let text = |draft: &Draft| draft.json().to_string();
    let first_use = manifest.resources.iter().position(|draft| text(draft).contains("${dir:"));
    let is_account = |draft: &Draft| matches!(draft.kind(), Kind::User | Kind::Package);
    let behind = manifest.resources.iter().rposition(is_account).map_or(0, |place| place + 1);
    let place = first_use.unwrap_or(behind).min(behind);
    let (mut dirs, mut ids) = (Vec::new(), Vec::new());
    for (name, dir) in &manifest.dirs {
        let mut members = vec![
            ("id".to_owned(), Json::text(dir_id(name))),
            ("type".to_owned(), Json::text(Kind::Directory.as_str())),
            ("path".to_owned(), Json::text(dir_path(module, name))),
        ];
        if let Some(mode) = &dir.mode {
            members.push(("mode".into(), Json::text(mode.to_string())));
        }
        if let Some(owner) = &dir.owner {
            members.push(("owner".into(), Json::text(owner.to_string())));
        }
        if let Ok(draft) = Draft::read(&Json::Object(members), &At::Root) {
            let draft = draft.below(&token);
            ids.push(draft.id().to_string());
            dirs.push(draft);
        }
    }
    let own = manifest.resources.iter().map(|draft| draft.below(&token));
    let mut resources: Vec<Draft> = own.collect();
    resources.splice(place..place, dirs);
    (resources, ids)
}

/// The resources that hold a secret or a credential, each with its placeholder.
fn sealed(manifest: &Manifest) -> Vec<(String, String)> {
    let declared = manifest.declared();
    let mut sealed = Vec::new();
    for draft in &manifest.resources {
        draft.strings(
            |_, text, _| {
                let template = Template::parse(text, &declared);
                let secret =
                    template.placeholders().find(|found| matches!(found.kind(), "secret" | "consumers"));
                if let Some(secret) = secret {
                    sealed.push((draft.id().to_string(), secret.key.to_owned()));
                }
            },
            &At::Root,
        );
    }
    sealed.dedup_by(|a, b| a.0 == b.0);
    sealed
}

/// Reads each resource as the host will, and says what it acts on.
fn targets(
    manifest: &Manifest,
    resources: &[Draft],
    placement: &Placement,
    problems: &mut Vec<String>,
) -> Vec<(Target, String)> {
    let declared = manifest.declared();
    let mut targets = Vec::new();
    for draft in resources {
        let root = At::Root;
        let at = root.field(draft.id().as_str());
        match fill_placed(draft, &declared, placement, &at).and_then(|filled| Resource::read(&filled, &at)) {
            Ok(resource) => targets.push((resource.target(), draft.id().to_string())),
            Err(problem) => problems.push(format!("its resource {problem}")),
        }
    }
    targets
}

fn too_large(assignment: &Assignment, size: usize) -> String {
    let mut parts: Vec<(usize, String)> = assignment
        .resources
        .iter()
        .map(|draft| (draft.json().to_string().len(), draft.id().to_string()))
        .chain(assignment.contributes.iter().map(|one| (one.item.to_string().len(), one.collection.clone())))
        .collect();
    parts.sort_by(|a, b| b.cmp(a));
    let largest: Vec<String> = parts.iter().take(3).map(|(bytes, part)| format!("{part} {bytes}")).collect();
    format!(
        "its assignment has {size} bytes, at most {}: the largest parts are {}",
        assignment::MAX_BYTES,
        largest.join(", ")
    )
}

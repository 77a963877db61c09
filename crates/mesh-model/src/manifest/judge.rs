//! Judges the resources of a manifest, as some node would have them.

use std::collections::BTreeMap;

use super::sample::{access_path, placement};
use super::{Judged, Manifest, dir_id, dir_path};
use crate::assignment::Placement;
use crate::json::{At, Read};
use crate::placeholder::{Declared, Template, fill_placed};
use crate::resource::{
    AbsolutePath, AccessMode, Container, Content, Draft, Environment, File, Inserts, Placed, Resource,
    Target, Volume, VolumeSource, What,
};

pub(super) fn resources(manifest: &Manifest, judged: &mut Judged) {
    let (declared, placement) = (manifest.declared(), placement(manifest));
    let resources = At::Root.field("resources");
    let read: Vec<Option<Resource>> = manifest
        .resources
        .iter()
        .enumerate()
        .map(|(place, draft)| read(draft, &declared, &placement, &resources.index(place), judged))
        .collect();
    ids(manifest, judged);
    targets(manifest, &read, judged);
    for (place, resource) in read.iter().enumerate() {
        let at = resources.index(place);
        match resource.as_ref().map(|resource| &resource.what) {
            Some(What::File(file)) => file_itself(file, &declared, &at, judged),
            Some(What::Container(container)) => {
                let environment = (&container.env, &container.insert);
                in_environment(environment, &declared, true, &at, judged);
                mounts(manifest, container, &at, judged);
                order(container, &read[place + 1..], place + 1, &at, judged);
            }
            Some(What::Process(process)) => {
                in_environment((&process.env, &process.insert), &declared, false, &at, judged);
            }
            Some(What::Action(action)) => {
                in_environment((&action.env, &action.insert), &declared, false, &at, judged);
            }
            _ => {}
        }
    }
}

/// The resource as some node would have it.
fn read(
    draft: &Draft,
    declared: &Declared,
    placement: &Placement,
    at: &At<'_>,
    judged: &mut Judged,
) -> Option<Resource> {
    let filled = fill_placed(draft, declared, placement, at);
    match filled.and_then(|filled| Resource::read(&filled, at)) {
        Ok(resource) => Some(resource),
        Err(problem) => {
            judged.problems.push(problem);
            None
        }
    }
}

fn ids(manifest: &Manifest, judged: &mut Judged) {
    let resources = At::Root.field("resources");
    let mut seen = BTreeMap::new();
    for (place, draft) in manifest.resources.iter().enumerate() {
        let at = resources.index(place);
        if draft.id().prefix().is_some() {
            judged.refuse(&at.field("id"), format!("{} has a prefix, which the controller sets", draft.id()));
        }
        if let Some(first) = seen.insert(draft.id().as_str(), place) {
            judged.refuse(&at.field("id"), format!("{} is the id of resources[{first}] too", draft.id()));
        }
        if manifest.dirs.keys().any(|name| dir_id(name) == draft.id().as_str()) {
            judged.refuse(&at.field("id"), format!("{} is the id of a declared directory", draft.id()));
        }
    }
    let declared_dirs: Vec<String> = manifest.dirs.keys().map(|name| dir_id(name)).collect();
    for (place, draft) in manifest.resources.iter().enumerate() {
        let at = resources.index(place);
        for field in ["restart-on", "reload-on"] {
            let Some(crate::json::Json::List(items)) = draft.json().get(field) else { continue };
            for (item, id) in
                items.iter().enumerate().filter_map(|(item, json)| Some((item, json.as_text()?)))
            {
                let field = at.field(field);
                if id == draft.id().as_str() {
                    judged.refuse(&field.index(item), "is the resource itself");
                } else if !seen.contains_key(id) && !declared_dirs.iter().any(|known| known == id) {
                    let near = crate::json::nearest(id, seen.keys().copied());
                    let near = near.map(|near| format!("; nearest known: {near}")).unwrap_or_default();
                    judged.refuse(&field.index(item), format!("no resource has the id {id}{near}"));
                }
            }
        }
    }
}

fn targets(manifest: &Manifest, read: &[Option<Resource>], judged: &mut Judged) {
    let resources = At::Root.field("resources");
    let mut seen: BTreeMap<Target, String> = BTreeMap::new();
    let own = |name: &String| {
        let path: AbsolutePath = dir_path(&manifest.module, name).parse().ok()?;
        let target = Target { space: crate::resource::Space::Path, name: path.to_string(), shared: false };
        Some((target, format!("the declared directory {name}")))
    };
    seen.extend(manifest.dirs.keys().filter_map(own));
    for (place, resource) in read.iter().enumerate() {
        let Some(resource) = resource else { continue };
        let target = resource.target();
        if let Some(other) = seen.get(&target) {
            judged.refuse(&resources.index(place), format!("acts on {}, as {other} does", target.name));
        }
        seen.entry(target).or_insert_with(|| resource.id.to_string());
    }
}

fn file_itself(file: &File, declared: &Declared, at: &At<'_>, judged: &mut Judged) {
    let Content::Text(text) = &file.content else { return };
    let template = Template::parse(text, declared);
    let has_any = inserts_used(&file.insert, [&template], at, judged);
    if file.encode.is_some() && !has_any {
        judged.warn(&at.field("encode"), "nothing is inserted here");
    }
    if matches!(file.place, Placed::Into(_)) {
        return;
    }
    let secret = template.placeholders().find(|found| matches!(found.kind(), "secret" | "consumers"));
    if let (Some(secret), Some(mode)) = (secret, file.mode.filter(|mode| mode.bits() & 0o007 != 0)) {
        judged.warn(&at.field("mode"), format!("{mode} lets everybody see {}", secret.key));
    }
}

fn in_environment(
    (environment, inserts): (&Environment, &Inserts),
    declared: &Declared,
    of_a_container: bool,
    at: &At<'_>,
    judged: &mut Judged,
) {
    let templates: Vec<Template<'_>> =
        environment.values().map(|value| Template::parse(value, declared)).collect();
    inserts_used(inserts, &templates, at, judged);
    for (name, template) in environment.keys().zip(&templates) {
        let secret = template.placeholders().find(|found| matches!(found.kind(), "secret" | "consumers"));
        if let (Some(secret), true) = (secret, of_a_container) {
            let env = at.field("env");
            judged.warn(
                &env.field(name.as_str()),
                format!(
                    "{} can be read by everyone who may query the container runtime; a mounted file cannot",
                    secret.key
                ),
            );
        }
    }
}

/// Refuses what is said of placeholders that do not stand there; whether any placeholder stands there.
fn inserts_used<'t>(
    inserts: &Inserts,
    templates: impl IntoIterator<Item = &'t Template<'t>>,
    at: &At<'_>,
    judged: &mut Judged,
) -> bool {
    let used: Vec<&str> =
        templates.into_iter().flat_map(Template::placeholders).map(|placeholder| placeholder.key).collect();
    for key in inserts.keys().filter(|key| !used.contains(&key.as_str())) {
        let insert = at.field("insert");
        judged.refuse(&insert.field(key), "no such placeholder stands here");
    }
    !used.is_empty()
}

/// A path that the operator lends for reading is mounted for reading.
fn mounts(manifest: &Manifest, container: &Container, at: &At<'_>, judged: &mut Judged) {
    for (place, volume) in container.volumes.iter().enumerate() {
        let Volume { source: VolumeSource::Path(source), read_only: false, .. } = volume else { continue };
        for (name, _) in manifest.accesses.iter().filter(|(_, mode)| **mode == AccessMode::Read) {
            let lent = access_path(name).parse().is_ok_and(|lent| source.is_within(&lent));
            if lent {
                let volumes = at.field("volumes");
                let what = format!("the access {name} is for reading, so its mounts end in :ro");
                judged.refuse(&volumes.index(place), what);
            }
        }
    }
}

/// What a container reads when it is made must be there before it.
fn order(container: &Container, later: &[Option<Resource>], first: usize, at: &At<'_>, judged: &mut Judged) {
    let mounted = container.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Path(path) => Some(path),
        VolumeSource::Named(_) => None,
    });
    let reads: Vec<&AbsolutePath> = container.env_file.iter().chain(mounted).collect();
    for (place, resource) in later.iter().enumerate() {
        let Some(What::File(file)) = resource.as_ref().map(|resource| &resource.what) else { continue };
        if reads.contains(&file.place.path()) {
            let what = format!("reads {}, which resources[{}] makes later", file.place.path(), first + place);
            judged.refuse(at, what);
        }
    }
}

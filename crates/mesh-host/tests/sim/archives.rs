//! Archives of the simulated machine: what they bring, and how they are exchanged, mended and removed.

use crate::world::{Planted, Thing, World, parent};
use mesh_host::digest::Digest;
use mesh_host::facts::{Answer, FileKind, UnpackedAnswer, UnpackedFact};
use mesh_host::machine::Tools;
use mesh_host::outcome::Failure;
use mesh_host::step::{FileStep, Ids};
use std::collections::BTreeMap;

const ROOT: Ids = Ids { uid: 0, gid: 0 };

/// By place and archive: the entries, by their names below the place.
pub(crate) type Lists = BTreeMap<(String, Digest), BTreeMap<String, Thing>>;

/// What is in an archive of these bytes: one name that all of them have, and some of its own.
pub(crate) fn entries(bytes: &[u8]) -> BTreeMap<String, Thing> {
    let word = String::from_utf8(bytes.to_vec()).unwrap();
    let own = format!("share-{word}");
    BTreeMap::from([
        ("bin".to_owned(), Thing::Directory),
        ("bin/tool".to_owned(), Thing::File(format!("tool of {word}").into_bytes())),
        (format!("{own}/data"), Thing::File(bytes.to_vec())),
        (own, Thing::Directory),
    ])
}

const fn mode(thing: &Thing) -> u32 {
    if matches!(thing, Thing::Directory) { 0o755 } else { 0o644 }
}

impl World {
    /// The names below a directory.
    fn below(&self, path: &str) -> Vec<String> {
        let head = format!("{path}/");
        self.nodes.keys().filter_map(|other| other.strip_prefix(&head)).map(str::to_owned).collect()
    }

    pub(crate) fn remove_below(&mut self, path: &str) {
        let head = format!("{path}/");
        self.nodes.retain(|other, _| !other.starts_with(&head));
    }

    fn stands(&self, path: &str, name: &str, thing: &Thing, owner: Ids) -> bool {
        let node = self.nodes.get(&format!("{path}/{name}"));
        node.is_some_and(|node| node.thing == *thing && node.mode == mode(thing) && node.owner == owner)
    }

    fn knows(&self, path: &str, name: &String) -> bool {
        self.lists.iter().any(|((of, _), list)| of == path && list.contains_key(name))
    }

    pub(crate) fn unpacked(&self, path: &str, archives: &[Digest]) -> Answer {
        if let Some(answer) = self.blocked(path) {
            return answer;
        }
        let found = self.nodes.get(path).map(|node| {
            let (owner, stamp) = (node.owner, Self::stamp(node));
            let kind = match &node.thing {
                Thing::File(_) => FileKind::Regular,
                Thing::Link(to) => FileKind::Link(to.clone()),
                Thing::Directory => FileKind::Directory { entries: self.entries(path) as u64 },
            };
            if node.thing != Thing::Directory {
                return UnpackedFact { kind, owner, stamp, holds: None, foreign: None };
            }
            let list = |digest: &Digest| self.lists.get(&(path.to_owned(), digest.clone()));
            let known: Vec<_> = archives.iter().filter_map(|digest| Some((digest, list(digest)?))).collect();
            let all = |list: &BTreeMap<String, Thing>| {
                list.iter().all(|(name, thing)| self.stands(path, name, thing, owner))
            };
            let holds = known.iter().find(|(_, list)| all(list)).map(|(digest, _)| (*digest).clone());
            let mut strangers = self.below(path);
            strangers.retain(|name| !known.iter().any(|(_, list)| list.contains_key(name)));
            let foreign = strangers.first().map(|first| (first.clone(), strangers.len() as u64));
            UnpackedFact { kind, owner, stamp, holds, foreign }
        });
        Answer::Unpacked(UnpackedAnswer { mount: "/".to_owned(), found })
    }

    pub(crate) fn archive(&mut self, step: &FileStep, tools: &Tools<'_>) -> Result<(), Failure> {
        match step {
            FileStep::Unpack { path, id, digest, owner, seen, .. } => {
                self.make_parents(path)?;
                let mut entries = entries(tools.contents.get(id).unwrap());
                let owner = owner.unwrap_or(ROOT);
                let beside = format!("{}/{}", parent(path), tools.temporary);
                self.burn()?;
                self.put(&beside, Thing::Directory, 0o755, owner);
                for (name, thing) in &entries {
                    self.burn()?;
                    self.put(&format!("{beside}/{name}"), thing.clone(), mode(thing), owner);
                }
                // The list is kept before the exchange: what it brings is known then, whatever happens.
                self.burn()?;
                self.lists.insert((path.clone(), digest.clone()), entries.clone());
                self.burn()?;
                let appeared = self.below(path).into_iter().find(|name| !self.knows(path, name));
                self.remove_below(&beside);
                self.nodes.remove(&beside);
                self.compare(path, *seen)?;
                if let Some(stranger) = appeared {
                    return Err(Failure::Failed(format!("{stranger} appeared")));
                }
                self.remove_below(path);
                if self.planted == Some(Planted::EntryIsLost) {
                    entries.remove("bin/tool");
                    let list = self.lists.get_mut(&(path.clone(), digest.clone())).unwrap();
                    list.remove("bin/tool");
                }
                self.put(path, Thing::Directory, 0o755, owner);
                for (name, thing) in entries {
                    let mode = mode(&thing);
                    self.put(&format!("{path}/{name}"), thing, mode, owner);
                }
                self.burn()?;
                self.lists.retain(|(of, other), _| of != path || other == digest);
                Ok(())
            }
            FileStep::RemoveUnpacked { path, digest } => {
                let list = self.lists.get(&(path.clone(), digest.clone())).cloned();
                let Some(list) = list else { return Ok(()) };
                let owner = self.nodes[path].owner;
                for (name, thing) in list.iter().rev() {
                    let place = format!("{path}/{name}");
                    if self.stands(path, name, thing, owner) && self.entries(&place) == 0 {
                        self.burn()?;
                        self.nodes.remove(&place);
                    }
                }
                if self.planted == Some(Planted::RemovalTakesMore) {
                    self.remove_below(path);
                }
                if self.entries(path) == 0 {
                    self.burn()?;
                    self.nodes.remove(path);
                }
                self.burn()?;
                self.lists.retain(|(of, _), _| of != path);
                Ok(())
            }
            other => panic!("{other:?} is of no archive"),
        }
    }
}

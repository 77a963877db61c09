//! What happens in one run: declarations that change, and hands that meddle.

use crate::chance::Chance;
use crate::world::{Faults, KEY};
use mesh_host::desired::{Access, Archive, Desired, Directory, File, Spec};
use mesh_host::digest::Digest;
use mesh_host::engine::{Family, Request, Scope};
use mesh_host::machine::Contents;
use mesh_host::target::Origin;
use std::collections::BTreeSet;
use zeroize::Zeroizing;

/// Where resources and hands are.
pub(crate) const PATHS: [&str; 10] = [
    "/srv/a",
    "/srv/a/b",
    "/srv/a/f1",
    "/srv/a/b/f2",
    "/etc/x",
    "/etc/y",
    "/srv/a/seed",
    "/srv/k",
    "/media/films",
    ARCHIVE,
];
/// Where archives are unpacked.
const ARCHIVE: &str = "/opt/app";
/// What hands find below it: an entry that every archive has, and one of some.
const BELOW: [&str; 3] = ["/opt/app/bin/tool", "/opt/app/share-one/data", "/opt/app/bin"];
/// Never declared: nobody but hands may change it.
pub(crate) const FOREIGN: [&str; 5] =
    ["/etc/passwd", "/srv/foreign", "/srv/a/foreign", "/opt/app/stranger", "/opt/app/bin/left-by-hand"];

/// One declaration, and what happens before it is applied.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) desired: Vec<Desired>,
    contents: Vec<(String, Vec<u8>)>,
    pub(crate) waiting: BTreeSet<Origin>,
    /// Where hands meddle before the apply.
    pub(crate) hands: Vec<&'static str>,
    pub(crate) faults: Faults,
}

impl Round {
    pub(crate) fn request(&self) -> Request {
        let ready = |desired: &&Desired| !self.waiting.contains(&desired.origin);
        let spoken_for = self.desired.iter().filter(|desired| !ready(desired)).map(Desired::target).collect();
        Request {
            desired: self.desired.iter().filter(ready).cloned().collect(),
            scope: Scope { family: Family::Mesh, waiting: self.waiting.clone(), only: None, spoken_for },
            adopted: false,
            untaken: BTreeSet::new(),
            managers: false,
            owners: true,
            plan: false,
            again: false,
            now_s: 1_000_000,
            key: KEY.clone(),
            state: "/var/lib/mesh-host".to_owned(),
        }
    }

    pub(crate) fn contents(&self) -> Contents {
        let mut contents = Contents::default();
        for (id, bytes) in &self.contents {
            contents.insert(id.clone(), Zeroizing::new(bytes.clone()));
        }
        contents
    }

    /// Gives a resource its content.
    pub(crate) fn set_content(&mut self, id: &str, bytes: Vec<u8>) {
        self.contents.retain(|(other, _)| other != id);
        self.contents.push((id.to_owned(), bytes));
    }

    pub(crate) fn content(&self, id: &str) -> &[u8] {
        &self.contents.iter().find(|(other, _)| other == id).unwrap().1
    }
}

fn spec(path: &str, id: &str, chance: &mut Chance, contents: &mut Vec<(String, Vec<u8>)>) -> Spec {
    let owner = chance.pick(&[None, Some("web"), Some("db"), None]).map(str::to_owned);
    let is_directory = match path {
        "/srv/a" | "/srv/a/b" => true,
        "/srv/k" => chance.once_in(2),
        ARCHIVE => {
            let bytes = chance.pick(&["one", "two"]).as_bytes().to_vec();
            let digest = Digest::plain(&bytes);
            contents.push((id.to_owned(), bytes));
            return Spec::Archive(Archive { path: path.to_owned(), source: None, digest, strip: 0, owner });
        }
        "/media/films" => return Spec::Access(Access { path: path.to_owned() }),
        _ => false,
    };
    if is_directory {
        let mode = *chance.pick(&[0o755, 0o750, 0o1777]);
        return Spec::Directory(Directory { path: path.to_owned(), mode, owner });
    }
    let bytes = chance.pick(&["one", "two", "three"]).as_bytes().to_vec();
    let secret = path == "/etc/y" && !chance.once_in(3);
    let digest = if secret { Digest::keyed(&KEY, &bytes) } else { Digest::plain(&bytes) };
    contents.push((id.to_owned(), bytes));
    Spec::File(File {
        path: path.to_owned(),
        digest,
        mode: *chance.pick(&[0o644, 0o600, 0o4755]),
        owner,
        create_once: path == "/srv/a/seed",
        in_place: false,
        through_link: false,
    })
}

/// The rounds of one seed.
pub(crate) fn rounds(seed: u64) -> Vec<Round> {
    let mut chance = Chance::new(seed);
    let count = 2 + chance.below(4);
    let round = |chance: &mut Chance| {
        let mut contents = Vec::new();
        let mut desired = Vec::new();
        for path in PATHS {
            if chance.once_in(3) {
                continue;
            }
            let module = *chance.pick(&["web", "db"]);
            let id =
                format!("{module}.{}-{}", path.trim_start_matches('/').replace('/', "-"), chance.below(2));
            let spec = spec(path, &id, chance, &mut contents);
            desired.push(Desired { id, origin: Origin::Mesh(module.to_owned()), spec });
        }
        let mut hands = Vec::new();
        for _ in 0..chance.below(4) {
            hands.push(*chance.pick(&PATHS));
            if chance.once_in(4) {
                hands.push(*chance.pick(&FOREIGN));
            }
            if chance.once_in(4) {
                hands.push(*chance.pick(&BELOW));
            }
        }
        let mut faults = Faults::default();
        if chance.once_in(5) {
            faults.refused.insert((*chance.pick(&PATHS)).to_owned());
        }
        if chance.once_in(5) {
            faults.silent.insert((*chance.pick(&PATHS)).to_owned());
        }
        let waiting =
            if chance.once_in(5) { [Origin::Mesh("db".to_owned())].into() } else { BTreeSet::new() };
        Round { desired, contents, waiting, hands, faults }
    };
    let mut rounds: Vec<Round> = (0..count).map(|_| round(&mut chance)).collect();
    // At last nothing is wrong any more.
    let last = rounds.last_mut().unwrap();
    last.faults = Faults::default();
    rounds
}

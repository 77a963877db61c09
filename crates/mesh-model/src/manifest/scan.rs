//! Which placeholders a manifest declares, and which of them it uses.

use super::{MACHINE_FACTS, Manifest, SecretSource};
use crate::assignment::Need;
use crate::json::{At, Json};
use crate::placeholder::{Declared, Finding, Placeholder, Seen, Template, lint};

/// Collections whose items are joined lines, by the kind that names them.
pub(super) const JOINED: [&str; 3] = ["shell", "environment", "contribution"];

impl Manifest {
    /// Every placeholder that the manifest declares, used or not.
    pub fn declared(&self) -> Declared {
        let mut declared = self.declared_for_contributions();
        for name in self.secrets.keys() {
            declared.add("secret", name);
        }
        for name in self.requires.keys() {
            declared.add_root("bound", name);
            declared.add_credential(name);
        }
        for name in &self.provides {
            declared.add("consumers", name);
        }
        for name in &self.reads {
            declared.add("collected", name);
            if let Some((kind, rest)) = name.split_once(':').filter(|(kind, _)| JOINED.contains(kind)) {
                declared.add(kind, rest);
            }
        }
        declared
    }

    /// The placeholders that a contribution may hold: those whose values the controller knows.
    pub fn declared_for_contributions(&self) -> Declared {
        let mut declared = Declared::default();
        self.ports.keys().for_each(|name| declared.add("port", name));
        self.dirs.keys().for_each(|name| declared.add("dir", name));
        self.accesses.keys().for_each(|name| declared.add("access", name));
        for name in MACHINE_FACTS {
            declared.add("machine", name);
        }
        let seats = [&self.seats.holds, &self.seats.asks, &self.seats.replicated];
        seats.into_iter().flatten().for_each(|name| declared.add("seat", name));
        for name in self.setting_names() {
            declared.add_root("config", name);
        }
        declared
    }

    /// The first names of the settings, described or with a default.
    fn setting_names(&self) -> impl Iterator<Item = &str> {
        let defaults = match &self.settings.defaults {
            Json::Object(members) => members.as_slice(),
            _ => &[],
        };
        let described = self.settings.schema.iter().flat_map(crate::settings::Schema::members);
        defaults.iter().map(|(name, _)| name.as_str()).chain(described)
    }

    /// What the assignment has to fill: each placeholder that a resource uses, in the order of its kind and name.
    ///
    /// The controller adds who provides it, and who consumes it.
    ///
    /// ```
    /// use mesh_model::json::Read;
    /// use mesh_model::manifest::Manifest;
    /// let text = br#"{"module":"web","version":"1","requires":{"db":{"provision":"postgres"}},
    ///   "resources":[{"id":"a","type":"file","path":"/a","content":"${bound:db.host} ${secret:db.user} ${HOME}"}]}"#;
    /// let needs = Manifest::from_json_bytes(text).unwrap().needs();
    /// let needs: Vec<_> = needs.iter().map(|need| (need.kind.as_str(), need.name.as_str())).collect();
    /// assert_eq!(needs, [("bound", "db"), ("secret", "db")]);
    /// ```
    pub fn needs(&self) -> Vec<Need> {
        let declared = self.declared();
        let mut needs: Vec<Need> = Vec::new();
        for (place, draft) in self.resources.iter().enumerate() {
            let resources = At::Root.field("resources");
            draft.strings(
                |_, text, _| {
                    needs.extend(
                        Template::parse(text, &declared).placeholders().map(|found| self.need(found)),
                    );
                },
                &resources.index(place),
            );
        }
        needs.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        needs.dedup();
        needs
    }

    fn need(&self, placeholder: Placeholder<'_>) -> Need {
        let (kind, name) = (placeholder.kind(), placeholder.name());
        let root = name.split('.').next().unwrap_or(name);
        match (kind, self.requires.get(root), self.secrets.get(name)) {
            ("bound" | "secret", Some(provision), None) => {
                Need { provision: Some(provision.clone()), ..Need::new(kind, root) }
            }
            ("secret", _, Some(SecretSource::Make(make))) => {
                Need { make: Some(*make), ..Need::new(kind, name) }
            }
            ("secret", _, Some(SecretSource::Accept)) => Need { accept: true, ..Need::new(kind, name) },
            ("consumers", ..) => Need { of: Some(Vec::new()), ..Need::new(kind, name) },
            _ => Need::new(kind, name),
        }
    }
}

/// What looks like a placeholder in the text of a manifest but is not one, by line and column of that text.
pub fn look_alikes(text: &str, manifest: &Manifest) -> Vec<Finding> {
    let mut findings = lint(text, &manifest.declared());
    findings.retain(|finding| matches!(finding.seen, Seen::LooksLike(_)));
    findings
}

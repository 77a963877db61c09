use std::collections::BTreeSet;

use crate::assignment::Need;

/// The placeholders that are filled. Whatever is not among them is text.
///
/// ```
/// use mesh_model::placeholder::Declared;
/// let mut declared = Declared::default();
/// declared.add("port", "http");
/// declared.add_root("bound", "database");
/// assert!(declared.has("port:http") && declared.has("bound:database.host") && declared.has("bound:database"));
/// assert!(!declared.has("port:http.x") && !declared.has("bound:data"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// `kind:name`, as it stands between the braces.
    exact: BTreeSet<String>,
    /// `kind:name`, without a dot, of values into which a dotted path may lead.
    roots: BTreeSet<String>,
}

impl Declared {
    /// What an assignment's needs declare. A need with a `provision` declares every path into its value; where it is a
    /// secret, that is `user` and `password`.
    pub fn by_needs(needs: &[Need]) -> Declared {
        let mut declared = Declared::default();
        for need in needs {
            match (need.kind.as_str(), &need.provision) {
                ("secret", Some(_)) => declared.add_credential(&need.name),
                (kind, Some(_)) => declared.add_root(kind, &need.name),
                (kind, None) => declared.add(kind, &need.name),
            }
        }
        declared
    }

    /// Declares `${kind:name}`.
    pub fn add(&mut self, kind: &str, name: &str) {
        self.exact.insert(format!("{kind}:{name}"));
    }

    /// Declares `${kind:name}` and every `${kind:name.path}`. The name holds no dot.
    pub fn add_root(&mut self, kind: &str, name: &str) {
        self.roots.insert(format!("{kind}:{name}"));
    }

    /// Declares the two members of a `requires` entry's credential.
    pub fn add_credential(&mut self, name: &str) {
        self.add("secret", &format!("{name}.user"));
        self.add("secret", &format!("{name}.password"));
    }

    /// Whether `kind:name` is declared.
    pub fn has(&self, key: &str) -> bool {
        self.exact.contains(key) || self.root(key).is_some()
    }

    /// The declared root of `kind:name`, and the path from there, which may be empty.
    pub fn root<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        let (root, path) = key.split_once('.').unwrap_or((key, ""));
        self.roots.contains(root).then_some((root, path))
    }

    /// Whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.roots.is_empty()
    }
}

//! Where a secret is used.

use mesh_model::assignment::Consumer;
use mesh_model::name;
use mesh_model::standing::consumers_name;

/// Node, module and name of a secret; of a provider's list of consumers the name is `consumers:<provision>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node that uses it.
    pub node: String,
    /// The module that uses it.
    pub module: String,
    /// Its name.
    pub name: String,
}

impl Place {
    /// The place of the secret `name`.
    pub fn new(node: &str, module: &str, name: &str) -> Place {
        Place { node: node.to_owned(), module: module.to_owned(), name: name.to_owned() }
    }

    /// The place of the list of those who consume `provision`.
    pub fn of_list(node: &str, module: &str, provision: &str) -> Place {
        Place::new(node, module, &consumers_name(provision))
    }

    /// The place of a consumer's credential.
    pub fn of_consumer(consumer: &Consumer) -> Place {
        Place::new(&consumer.node, &consumer.module, &consumer.name)
    }

    /// The provision, if it is the place of a list.
    pub fn provision(&self) -> Option<&str> {
        self.name.strip_prefix("consumers:")
    }

    /// Its key in the bucket of revisions.
    pub fn key(&self) -> String {
        [&self.node, &self.module, &self.name].map(|name| name::encode(name)).join(".")
    }

    /// The place that a key of that bucket names.
    pub fn from_key(key: &str) -> Option<Place> {
        let mut names = key.split('.').map(name::decode);
        let mut next = || names.next()?.ok();
        let place = Place { node: next()?, module: next()?, name: next()? };
        names.next().is_none().then_some(place)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.node, self.module, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_place() {
        let place = Place::of_list("attic", "db", "postgres");
        assert_eq!(place.key(), "attic.db.consumers=3Apostgres");
        assert_eq!(Place::from_key(&place.key()), Some(place.clone()));
        assert_eq!(place.provision(), Some("postgres"));
        for other in ["", "a.b", "a.b.c.d", "a.b.=61"] {
            assert_eq!(Place::from_key(other), None, "{other}");
        }
    }
}

//! A module as its declaration has it.

use std::time::Duration;

use mesh_model::assignment::{Assignment, Need};
use mesh_model::declaration::Part;
use mesh_model::digest::Digest;
use mesh_model::json::Json;
use mesh_model::standing::Why;

/// A declared module.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) part: Part,
    /// The bytes that the declaration names, once they are here.
    pub(super) fitting: Option<Fitting>,
    /// Why its bytes cannot be used, though they fit.
    pub(super) broken: Option<String>,
    /// How each need stands.
    pub(super) stands: Vec<(Need, Stand)>,
    /// Over plan, values and collections, once everything is there.
    pub(super) whole: Option<Digest>,
    /// Over the values from outside.
    pub(super) outside: Option<Digest>,
    /// The outside values that the host holds.
    pub(super) with_host: Option<Digest>,
    /// What the host did not apply, and when it is tried again.
    pub(super) failed: Option<Digest>,
    pub(super) retry: Option<Duration>,
    pub(super) failures: u32,
    /// When it was handed over last.
    pub(super) handed_over: Option<Duration>,
    /// What the host said of it.
    pub(super) problem: Option<String>,
}

/// The bytes of a module that fit its declaration, parsed.
#[derive(Debug)]
pub(super) struct Fitting {
    pub(super) assignment: Assignment,
    pub(super) settings: Json,
    pub(super) bytes: [Vec<u8>; 2],
}

/// How a need stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// It is not known yet.
    Unread,
    /// It waits.
    Waiting(Why),
    /// Its value is held.
    Filled,
}

impl Module {
    pub(super) fn new(part: Part) -> Self {
        Module {
            part,
            fitting: None,
            broken: None,
            stands: Vec::new(),
            whole: None,
            outside: None,
            with_host: None,
            failed: None,
            retry: None,
            failures: 0,
            handed_over: None,
            problem: None,
        }
    }

    /// Whether it is known of everything whether it is there.
    pub(super) fn is_settled(&self) -> bool {
        self.broken.is_some()
            || self.fitting.is_some() && self.stands.iter().all(|(_, stand)| *stand != Stand::Unread)
    }

    /// An assignment without needs is left alone.
    pub(super) fn is_left_alone(&self) -> bool {
        self.fitting.as_ref().is_some_and(|fitting| fitting.assignment.needs.is_none())
    }

    /// What waits, with the reason, as `kind:name`.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (String, Why)> {
        self.stands.iter().filter_map(|(need, stand)| match stand {
            Stand::Waiting(why) => Some((format!("{}:{}", need.kind, need.name), *why)),
            Stand::Unread | Stand::Filled => None,
        })
    }
}

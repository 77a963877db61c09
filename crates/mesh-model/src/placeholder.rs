//! Placeholders: `${kind:name}` in the strings of resources, and how they are filled (PROTOCOL.md, "Placeholders").
//!
//! - Only what is [declared](Declared) is a placeholder. Everything else stays as it is, byte for byte: `${HOME}`,
//!   `${port:-8080}` and `${secret:?unset}` belong to a shell.
//! - Text is parsed once, into literals and placeholders. What is inserted is never looked at again.
//! - `$${kind:name}` of a declared placeholder gives the text `${kind:name}`; of any number of dollars one is taken.
//! - Values are bytes. A number goes in digit for digit.

mod collection;
mod declared;
mod encode;
mod fill;
mod insert;
mod lint;
mod placed;
mod template;
mod value;

pub use collection::{Collected, collect, joined};
pub use declared::Declared;
pub use fill::{Filling, NotFilled, Unfilled};
pub use lint::{Finding, Seen, lint};
pub use placed::{fill_item, fill_placed};
pub use template::{MAX_NAME_BYTES, Part, Placeholder, Template};
pub use value::{Insertion, Value};

use crate::assignment::PlacedKind;
use crate::resource::Place;

/// Whether a placeholder of that kind may stand there: in paths, names, images, units and commands only the kinds
/// whose values the controller signs, in contents and environments every kind.
///
/// ```
/// use mesh_model::placeholder::may_stand;
/// use mesh_model::resource::Place;
/// assert!(may_stand("port", Place::Signed) && !may_stand("secret", Place::Signed));
/// assert!(may_stand("secret", Place::Open));
/// ```
pub fn may_stand(kind: &str, place: Place) -> bool {
    match place {
        Place::Open => true,
        Place::Signed => kind.parse::<PlacedKind>().is_ok(),
        Place::Fixed => false,
    }
}

#[cfg(test)]
mod tests;

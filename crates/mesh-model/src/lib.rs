//! What the programs of a mesh agree on, as values and as bytes. No I/O, no clock, no randomness but what is passed
//! in, and no word of the bus.
//!
//! Names, buckets and the registry stand without features. `keys` adds everything that holds a key, a digest or a
//! signature; `format` adds the formats of files beside JSON.

pub mod assignment;
pub mod bucket;
#[cfg(feature = "keys")]
pub mod declaration;
#[cfg(feature = "keys")]
pub mod digest;
#[cfg(feature = "format")]
pub mod format;
pub mod json;
#[cfg(feature = "keys")]
pub mod keys;
pub mod name;
pub mod object;
pub mod placeholder;
pub mod registry;
pub mod resource;

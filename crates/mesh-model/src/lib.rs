//! What the programs of a mesh agree on, as values and as bytes. No I/O, no clock, no randomness except what is
//! passed in, and no knowledge of the bus.
//!
//! Names, buckets and the registry stand without features. `keys` adds everything that holds a key, a digest or a
//! signature; `format` adds the formats of files beside JSON.

pub mod assignment;
pub mod bucket;
#[cfg(feature = "keys")]
pub mod bundle;
#[cfg(feature = "keys")]
pub mod declaration;
#[cfg(feature = "keys")]
pub mod digest;
#[cfg(feature = "format")]
pub mod format;
#[cfg(feature = "keys")]
pub mod host_api;
#[cfg(feature = "keys")]
pub mod join;
pub mod json;
#[cfg(feature = "keys")]
pub mod keys;
pub mod manifest;
pub mod name;
pub mod need_state;
#[cfg(feature = "keys")]
pub mod node_record;
pub mod object;
pub mod placeholder;
pub mod plain_name;
pub mod provisioner;
pub mod registry;
#[cfg(feature = "keys")]
pub mod report;
pub mod resource;
pub mod rights;
#[cfg(feature = "keys")]
pub mod sealed;
#[cfg(feature = "keys")]
pub mod secret;
pub mod settings;
#[cfg(feature = "keys")]
pub mod signed;
#[cfg(feature = "keys")]
pub mod standing;
mod text;
#[cfg(feature = "keys")]
pub mod token;
#[cfg(feature = "keys")]
pub mod vault_api;

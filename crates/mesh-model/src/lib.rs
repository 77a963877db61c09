//! What the programs of a mesh agree on, as values and as bytes. No I/O, and no word of the bus.

pub mod bucket;
pub mod json;
pub mod name;
pub mod object;
pub mod registry;
pub mod resource;

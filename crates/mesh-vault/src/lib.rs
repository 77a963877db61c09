//! The vault of a mesh.

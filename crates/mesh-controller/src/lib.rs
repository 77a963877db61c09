//! The controller of a mesh.

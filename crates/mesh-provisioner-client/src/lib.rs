//! The client of a node.

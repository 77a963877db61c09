//! The controller of a mesh: everything that must know about more than one node. It decides what each node runs, signs it,
//! and is the operator's command line.
//!
//! Read [`store`] first (what there is), then what is composed out of it, then the commands.

pub mod identity;
pub mod store;

//! The controller of a mesh: everything that must know about more than one node. It decides what each node runs, signs it,
//! and is the operator's command line.
//!
//! Read [`compose`] first (what each node is to run, as one pure function), then [`store`] (what there is).

pub mod broker;
pub mod compose;
pub mod identity;
pub mod join;
pub mod serve;
pub mod snapshot;
pub mod store;

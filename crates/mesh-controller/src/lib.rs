//! The controller of a mesh: everything that must know about more than one node. It decides what each node runs, signs it,
//! and is the operator's command line.
//!
//! Read [`compose`] first (what each node is to run, as one pure function), then [`store`] (what there is), [`plan`] (how
//! what is composed differs from what was sent) and [`push`] (how the difference gets to the bus). Each command is a file
//! below [`cli`].

pub mod broker;
pub mod buckets;
pub mod cli;
pub mod compose;
pub mod identity;
pub mod join;
pub mod plan;
pub mod push;
pub mod rekey;
pub mod serve;
pub mod snapshot;
pub mod standing;
pub mod status;
pub mod store;

//! The client of a node: it finds the value of every placeholder of its node's modules, hands ready modules to the host,
//! and tells the mesh what is needed, contributed and applied.
//!
//! The pure part is [`machine`]; the rest is a thin shell around it.

pub mod cli;
pub mod host;
pub mod join;
pub mod journal;
pub mod machine;
pub mod shell;
pub mod site;

pub use mesh_daemon::exit::Exit;

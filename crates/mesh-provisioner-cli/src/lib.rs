//! The commands of `mesh-provisioner` that ask the seat, or try the bus: one file a command. They are clients of the seat
//! as any other, and know nothing of its inside; the program adds the commands that hold the seat.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod ask;
mod check;
mod completion;
pub mod connect;
mod grammar;
mod health;
mod init;
mod permissions;
mod query;
mod report;
mod status;
mod watch;
mod why;

pub use ask::Ask;
pub use check::Check;
pub use completion::Completion;
pub use grammar::{GRAMMAR, PROGRAM};
pub use health::Health;
pub use init::Init;
pub use permissions::{Permissions, parse_prefix};
pub use report::Report;
pub use status::Status;
pub use why::Why;

use grammar::parse_whole;
use mesh_runtime::connecting;

//! The loop that every program on the bus shares: it waits for the next event, passes it to the program's machine, and
//! carries out the actions.
//!
//! ```text
//!   signals ──┐                                ┌──► publish, connect      (mesh-bus)
//!   bus ──────┼─► one select ─► Machine::handle┼──► log, exit             (mesh-daemon)
//!   own ──────┘   and deadlines                └──► perform(Task)         (the program)
//! ```
//!
//! One thread, one select. Nothing here waits for the server: the link's own thread does.

mod event;
mod links;
mod options;
mod secret;
mod shell;
mod start;

pub use event::{Action, Event, Machine, Subscription};
pub use links::MAX_UNTAKEN_REPLIES;
pub use mesh_bus::config::Flags;
pub use mesh_bus::message::Delivery;
pub use secret::secret;
pub use shell::{Settings, serve};
pub use start::{Started, start};

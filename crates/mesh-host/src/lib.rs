//! `mesh-host` makes a machine match the declaration of its mesh, and says truly what it did.
//!
//! ```text
//!            declaration, values                    the machine
//!                    │                            ▲          │
//!                    ▼                            │ steps    │ answers
//!   desired ──► engine ──► decide ──► Next ──► apply ──► machine (do, look)
//!                 ▲                              │
//!                 │ memory                       ▼ entries
//!                 └───────────────────────── state (journal, snapshots)
//! ```
//!
//! Three layers: **look → decide → do**.
//!
//! - [`decide`] and [`engine`] are pure. They know no clock, no file and no process. They ask [`facts::Question`]s, and
//!   name [`step::Step`]s.
//! - [`machine::Machine`] answers questions and performs steps. The real one is the machine; the tests have a simulated
//!   one, and drive the same engine with it.
//! - [`record::Memory`] is what this host remembers, as a value; its changes are [`record::Entry`]s, which the journal
//!   stores before and after each effect.
//!
//! A kind of resource has a variant in [`desired::Spec`], one in [`target::Kind`], a stepper in `decide/`, steps in
//! [`step::Step`], questions in [`facts::Question`], and what is remembered of it in [`record::Written`]. What a manager
//! of the machine holds is one variant, [`desired::Spec::Managed`], and is looked at and done by [`managers`].

pub mod accepted;
pub mod apply;
pub mod cli;
pub mod container;
pub mod decide;

pub mod desired;
pub mod digest;
pub mod engine;
pub mod facts;
pub mod files;
pub mod leaves;
pub mod machine;
pub mod managers;
pub mod outcome;
pub mod prepare;
pub mod record;
pub mod report;
pub mod request;
pub mod runs;
pub mod schedule;
pub mod serve;
pub mod session;
pub mod site;
pub mod state;
pub mod status;
pub mod step;
pub mod target;

//! The pure machine, played through as transcripts: what happens to it, and everything that it asks for in return.
//!
//! Read `play.rs` first: it has the few words that the transcripts are written in.

mod play;

mod asking;
mod bounds;
mod bulk;
mod connection;
mod log_lines;
mod pass;
mod replies;
mod services;
mod stopping;
mod stream_checks;

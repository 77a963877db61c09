//! What holds for any input: spellings are inverse, pages are whole, and no bytes from outside upset a parser.

// The fake bus of the simulation, without its faults.
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "../sim/batch.rs"]
mod batch;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "../sim/bus.rs"]
mod bus;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "../sim/keys.rs"]
mod keys;

mod names;
mod pages;
mod parsers;
mod readings;
mod requests;

//! What ships beside the program, against the program: the sample manifests, the manual page, the completions, the unit.

mod pages;
mod samples;
mod unit;

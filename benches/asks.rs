//! What an ask of the seat costs, beside what the bus itself costs for the same: `cargo bench`, or for a short run
//! `cargo bench -- --quick`. `NATS_SERVER` names the server; without it, the distribution's is used.
//!
//! Floors and asks alternate, so that whatever else the machine does slows both: trust the ratios, not the times.

#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

#[path = "asks/floors.rs"]
mod floors;
#[path = "asks/measure.rs"]
mod measure;
#[path = "asks/mesh.rs"]
mod mesh;
#[path = "asks/pass.rs"]
mod pass;
#[path = "asks/raw.rs"]
mod raw;
#[path = "asks/report.rs"]
mod report;
#[path = "asks/run.rs"]
mod run;
#[path = "../tests/support/mod.rs"]
mod support;

use std::env;
use std::thread::available_parallelism;

use floors::start_echo;
use mesh::Mesh;
use run::{Effort, Run};

fn main() {
    let asked = |flag: &str| env::args().any(|argument| argument == flag);
    if !asked("--bench") {
        println!("nothing is timed in a test run: use cargo bench");
        return;
    }
    let effort = if asked("--quick") { Effort::QUICK } else { Effort::FULL };
    let mut mesh = Mesh::start();
    start_echo(&mesh);
    let cores = available_parallelism().map_or(1, usize::from);
    println!("nats-server {}, {cores} cores; times are medians", mesh.version());
    let mut targets = Vec::new();
    for &needs in effort.needs {
        mesh.fill(needs);
        let measured = Run::new(&mesh, needs, effort).measure();
        report::print(needs, &measured.targets, &measured.costs);
        targets.extend(measured.targets);
    }
    report::print_sum(&targets);
}

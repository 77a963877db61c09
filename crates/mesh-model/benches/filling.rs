//! What filling costs beside a copy of the same bytes: `cargo bench -p mesh-model`, or shorter with `-- --quick`.
//!
//! The two alternate, so that whatever else the machine does slows both: trust the ratio, not the time.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "what a benchmark is for")]

use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mesh_model::placeholder::{Declared, Insertion, Template, Value};

const MIB: usize = 1 << 20;

/// A text of `bytes` bytes, with that many placeholders at even distances.
fn text(bytes: usize, placeholders: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let gap = bytes / (placeholders + 1);
    for place in 0..placeholders {
        let key = format!("${{config:value.{}}}", place % 1000);
        while text.len() + key.len() < (place + 1) * gap {
            text.push_str(
                &"key = 'a plain line of a file'\n"[..((place + 1) * gap - text.len() - key.len()).min(31)],
            );
        }
        text.push_str(&key);
    }
    while text.len() < bytes {
        text.push_str(&"key = 'a plain line of a file'\n"[..(bytes - text.len()).min(31)]);
    }
    text
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn main() {
    let asked = |flag: &str| env::args().any(|argument| argument == flag);
    if !asked("--bench") {
        println!("nothing is timed in a test run: use cargo bench");
        return;
    }
    let runs = if asked("--quick") { 20 } else { 200 };
    let mut declared = Declared::default();
    for name in 0..5000 {
        declared.add("config", &format!("value.{name}"));
    }
    println!("{:>22}  {:>10}  {:>10}  {:>10}  {:>8}", "text", "copy", "filling", "MB/s", "ratio");
    for (name, bytes, placeholders) in [
        ("1 MiB, none", MIB, 0),
        ("1 MiB, 100", MIB, 100),
        ("1 MiB, 10000", MIB, 10_000),
        ("16 MiB, 1600", 16 * MIB, 1_600),
    ] {
        let text = text(bytes, placeholders);
        let (mut copies, mut fillings) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            copies.push(timed(|| black_box(text.as_bytes()).to_vec()));
            fillings.push(timed(|| {
                let template = Template::parse(black_box(&text), &declared);
                let filling = template
                    .look_up(|placeholder| {
                        Some((Value::Bytes(placeholder.name().as_bytes()), Insertion::default()))
                    })
                    .expect("every placeholder has a value");
                filling.to_bytes()
            }));
        }
        let (copy, filling) = (median(copies), median(fillings));
        let rate = text.len() as f64 / filling.as_secs_f64() / 1e6;
        let ratio = filling.as_secs_f64() / copy.as_secs_f64();
        println!("{name:>22}  {copy:>10.2?}  {filling:>10.2?}  {rate:>10.0}  {ratio:>7.1}x");
    }
}

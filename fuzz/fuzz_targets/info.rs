//! A server's first line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_bus::gate::Info;

fuzz_target!(|line: &[u8]| {
    if let Err(words) = Info::greeting(line) {
        assert!(!words.is_empty() && !words.contains(|c: char| c.is_control()), "{words:?}");
    }
});

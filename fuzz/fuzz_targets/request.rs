//! The body of a request: it is one, and reads back as it is written, or an error that has words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_provisioner_api::request::Ask;

fuzz_target!(|body: &[u8]| {
    match Ask::parse(body) {
        Ok(ask) => assert_eq!(Ask::parse(ask.to_json().as_bytes()), Ok(ask)),
        Err(bad) => assert!(matches!(bad.reason.code(), 400 | 413) && !bad.message.is_empty()),
    }
});

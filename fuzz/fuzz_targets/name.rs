//! Names, tokens and keys: each name has one spelling.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_model::bucket::Bucket;
use mesh_model::name;

fuzz_target!(|text: &str| {
    if let Ok(name) = name::decode(text) {
        assert_eq!(name::encode(&name), text);
    }
    if name::check(text).is_ok() {
        assert_eq!(name::decode(&name::encode(text)).as_deref(), Ok(text));
    }
    for bucket in Bucket::ALL {
        if let Ok(names) = bucket.parse(text) {
            let tokens: Vec<String> = names.iter().map(|name| name::encode(name)).collect();
            assert_eq!(tokens.join("."), text);
        }
    }
});

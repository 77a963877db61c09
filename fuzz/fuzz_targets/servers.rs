//! The list of servers: what is read is written as it reads back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_bus::config::address::{Address, parse_list};

fuzz_target!(|list: &str| {
    match parse_list(list) {
        Ok((addresses, _)) => {
            assert!(!addresses.is_empty());
            for address in addresses {
                assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }
        Err(words) => assert!(!words.is_empty()),
    }
});

//! What the gate calls readable of header blocks is what the client library reads.

#![expect(deprecated, reason = "upstream deprecates the whole synchronous client")]

use mesh_bus::gate::headers::{is_readable, readable_part};
use nats::HeaderMap;
use proptest::prelude::*;

/// A block of pieces that matter to one reader or the other.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => Just(b"NATS/1.0".to_vec()),
        6 => Just(b"\r\n".to_vec()),
        2 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        4 => Just(b"Name: value".to_vec()),
        2 => Just(b"no colon".to_vec()),
        2 => Just(b" continued".to_vec()),
        1 => Just(b"\t:".to_vec()),
        1 => Just(" 503 \u{85}".as_bytes().to_vec()),
        1 => Just("\u{a0}:\u{2028}".as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    let start = prop_oneof![3 => Just(b"NATS/1.0\r\n".to_vec()), 1 => Just(Vec::new())];
    (start, proptest::collection::vec(piece, 0..12)).prop_map(|(mut start, pieces)| {
        start.extend(pieces.concat());
        start
    })
}

proptest! {
    #[test]
    fn what_is_called_readable_is_what_the_library_reads(block in block()) {
        prop_assert_eq!(is_readable(&block), HeaderMap::try_from(&block[..]).is_ok());
    }

    #[test]
    fn the_readable_part_of_any_block_is_readable(block in block()) {
        let part = readable_part(&block);
        prop_assert!(is_readable(part.as_bytes()));
        prop_assert!(HeaderMap::try_from(part.as_bytes()).is_ok());
    }
}

//! What a server says, in segments that the input chooses: the segments make no difference, and what goes on to the
//! client library is only what it can read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_bus::gate::from_server::{Broken, FromServer};
use mesh_bus::gate::headers;

/// What goes on to the library, and what is told, of a server that says this in segments of these lengths.
fn read(said: &[u8], lengths: &[u8]) -> Result<(Vec<u8>, Vec<String>), Broken> {
    let mut from_server = FromServer::default();
    from_server.expect_pongs(3);
    let (mut library, mut told) = (Vec::new(), Vec::new());
    let mut rest = said;
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| usize::from(*length) + 1);
        let (segment, after) = rest.split_at(length.min(rest.len()));
        from_server.feed(segment, &mut library, &mut |op| told.push(format!("{op:?}")))?;
        rest = after;
    }
    Ok((library, told))
}

/// Reads what the library is given as it would, by lines and sizes, with its limits.
fn check(mut library: &[u8]) {
    while !library.is_empty() {
        let end = library.iter().position(|byte| *byte == b'\n').expect("a whole line");
        assert!(end < 4096, "a line of {end} bytes");
        let line = std::str::from_utf8(&library[..end]).expect("UTF-8");
        library = &library[end + 1..];
        let words: Vec<&str> = line.split_whitespace().collect();
        let (headers, size) = match words[..] {
            ["PONG"] => continue,
            ["MSG", _, sid, size] | ["MSG", _, sid, _, size] if sid.parse::<u64>().is_ok() => (None, size),
            ["HMSG", _, sid, headers, size] | ["HMSG", _, sid, _, headers, size]
                if sid.parse::<u64>().is_ok() =>
            {
                (Some(headers.parse::<usize>().expect("a number")), size)
            }
            _ => panic!("{line:?}"),
        };
        let size = size.parse::<usize>().expect("a number");
        if let Some(block) = headers {
            assert!(headers::is_readable(&library[..block]), "{:?}", library[..block].escape_ascii().to_string());
        }
        assert_eq!(&library[size..size + 2], b"\r\n");
        library = &library[size + 2..];
    }
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (said, lengths) = input;
    let whole = read(said, &[]);
    assert_eq!(read(said, lengths), whole);
    if let Ok((library, _)) = whole {
        check(&library);
    }
});

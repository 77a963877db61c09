//! Headers of a stored message that say what it is.

/// The header that says what a write did to its key.
pub(crate) const OPERATION: &str = "KV-Operation";

/// The header of a marker that the server put in the place of a message.
pub(crate) const MARKER: &str = "Nats-Marker-Reason";

/// What a header block says.
#[derive(Debug)]
pub(crate) struct HeaderReading {
    pub(crate) deleted: bool,
    pub(crate) fault: Option<String>,
}

/// Reads what is readable of a header block, and says what is not.
pub(crate) fn read(block: &[u8]) -> HeaderReading {
    let mut reading = HeaderReading { deleted: false, fault: None };
    let mut lines = block.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let version = lines.next().unwrap_or_default();
    if !block.is_empty() && !version.starts_with(b"NATS/1.0") {
        reading.fault = Some("the header block does not start with NATS/1.0".to_owned());
    }
    for line in lines.filter(|line| !line.is_empty()) {
        match std::str::from_utf8(line).map(|line| line.split_once(':')) {
            Ok(Some((name, value))) => match (name.trim(), value.trim()) {
                (OPERATION, operation) => reading.deleted |= operation != "PUT",
                (MARKER, _) => reading.deleted = true,
                _ => {}
            },
            Ok(None) => reading.fault = Some("a header line has no colon".to_owned()),
            Err(_) => reading.fault = Some("a header line is not UTF-8".to_owned()),
        }
    }
    reading
}

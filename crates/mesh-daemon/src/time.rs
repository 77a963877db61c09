//! Times as RFC 3339 writes them, in UTC.

use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Why a text is not a time.
pub use time::error::Parse as NotATime;

/// A time with all digits of its fraction, such as `2026-11-29T13:26:00.5Z`.
pub fn rfc3339(time: SystemTime) -> String {
    OffsetDateTime::from(time).format(&Rfc3339).expect("the clock shows a year of four digits")
}

/// A time to the millisecond, such as `2026-11-29T13:26:00.500Z`.
pub fn rfc3339_millis(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

/// Reads a time.
pub fn parse(text: &str) -> Result<SystemTime, NotATime> {
    OffsetDateTime::parse(text, &Rfc3339).map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_is_read_as_it_was_written() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_958_760_500);
        assert_eq!(rfc3339(time), "2026-11-29T13:26:00.5Z");
        assert_eq!(rfc3339_millis(time), "2026-11-29T13:26:00.500Z");
        assert_eq!(parse(&rfc3339(time)).unwrap(), time);
        assert!(parse("yesterday").is_err());
    }
}

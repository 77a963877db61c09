//! Schedules: when a container runs next, and which runs are due. Pure: the clock is told.

mod times;
mod timetable;

pub use times::next;
pub use timetable::{Due, Job, Timetable};

use jiff::tz::TimeZone;

/// The zone of that IANA name; without a name, UTC.
///
/// # Errors
/// The machine does not know it.
pub fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    name.map_or(Ok(TimeZone::UTC), |name| {
        TimeZone::get(name).map_err(|_| {
            format!("the time zone {name} is not known here: install tzdata, or correct the name")
        })
    })
}

//! How values are shown to people: times, ages, tables, JSON.

use crate::store::{Moment, now, time_of};
use mesh_daemon::screen::Screen;
use mesh_daemon::table::Table;
use mesh_daemon::{duration, time};
use std::time::Duration;

/// A time as people read it.
pub(super) fn at(moment: Moment) -> String {
    let text = time::rfc3339_millis(time_of(moment));
    text.get(..19).map_or(text.clone(), |text| text.replace('T', " "))
}

/// How long ago that was.
pub(super) fn age(moment: Moment) -> String {
    let millis = u64::try_from(now().saturating_sub(moment)).unwrap_or(0);
    duration::age(Duration::from_millis(millis))
}

/// A table on this screen; nothing where it has no rows.
pub(super) fn table(table: &Table) -> String {
    table.render(Screen::of_stdout())
}

/// A text cut to that many characters.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

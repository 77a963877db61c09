//! The status as text: a line for each thing, then the first of whatever is not well.

use super::survey::Survey;
use crate::ask::malformed::quote;
use mesh_daemon::duration;
use mesh_daemon::screen::{Screen, wrap};
use mesh_daemon::table::{Cell, Table};
use mesh_daemon::terminal::{Style, escape};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// How many rows of each thing are shown: it is one screen.
const ROWS: usize = 5;

/// The widest word at the beginning of a line, and the space after it.
const INDENT: usize = 13;

/// The screen.
pub(super) fn render(survey: &Survey, screen: Screen) -> String {
    let mut text = String::new();
    let mut line = |what: &str, how: &str, is_well: bool| {
        let wrapped = wrap(&escape(how), screen.width.map(|width| width.saturating_sub(INDENT)), 0);
        for (at, part) in wrapped.lines().enumerate() {
            let what = if at == 0 { what } else { "" };
            let style = if is_well { Style::Plain } else { Style::Yellow };
            writeln!(text, "{what:INDENT$}{}", screen.paint.paint(style, part)).ok();
        }
    };
    let health = &survey.health;
    line("seat", &seat(survey), health.ready && health.other_seats.is_empty());
    let modules = Survey::count(survey.modules.iter().map(|module| module.state.as_str()));
    line(
        "modules",
        &counted(survey.modules.len(), &modules),
        modules.keys().all(|state| *state == "current"),
    );
    line("gaps", &survey.gaps.len().to_string(), survey.gaps.is_empty());
    let long = survey.waiting.iter().filter(|need| survey.waits_long(need)).count();
    let waiting = match survey.waiting.len() {
        0 => "0".to_owned(),
        all => format!("{all}, of these {long} for longer than a minute"),
    };
    line("waiting", &waiting, long == 0);
    let stale = survey.stale().count();
    line("nodes", &nodes(survey, stale), stale == 0);
    let collections = Survey::count(survey.collections.iter().map(|row| row.state.as_str()));
    line(
        "collections",
        &counted(survey.collections.len(), &collections),
        collections.keys().all(|state| *state == "read"),
    );
    line("malformed", &malformed(survey), survey.malformed == 0);
    for section in [not_current(survey), gaps(survey), waits(survey), unfed(survey)].into_iter().flatten() {
        let Section { title, mut table, total, more } = section;
        table.truncate(ROWS);
        write!(text, "\n{}\n{}", screen.paint.paint(Style::Bold, title), table.render(screen)).ok();
        if total > ROWS {
            writeln!(text, "and {} more: {more}", total - ROWS).ok();
        }
    }
    if let Some(next) = next(survey) {
        writeln!(text, "\nnext: {}", escape(&next)).ok();
    }
    text
}

fn seat(survey: &Survey) -> String {
    let health = &survey.health;
    let up = duration::age(Duration::from_secs(health.uptime_seconds));
    let seat = health.seat.as_ref().map(|seat| format!("{} of version {}, ", seat.id, seat.version));
    // Its address; what else there is, `health` says.
    let server = health.server.as_deref().and_then(|server| server.split(' ').next());
    let server = server.map(|server| format!(" on {server}")).unwrap_or_default();
    let ready =
        if health.ready { "ready".to_owned() } else { format!("not ready: {}", health.missing.join("; ")) };
    let others = match health.other_seats.len() {
        0 => String::new(),
        others => format!("; {others} more hold the seat: mesh-provisioner ask health names them"),
    };
    format!("{}up {up}{server}, {ready}{others}", seat.unwrap_or_default())
}

/// `4: 1 current, 3 never`
fn counted(total: usize, states: &BTreeMap<&str, usize>) -> String {
    let words: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    if words.is_empty() { total.to_string() } else { format!("{total}: {}", words.join(", ")) }
}

fn nodes(survey: &Survey, stale: usize) -> String {
    let age = |seconds: u64| duration::age(Duration::from_secs(seconds));
    let total = survey.nodes.len();
    match survey.stale_after {
        Some(limit) if stale > 0 => {
            let names: Vec<&str> = survey.stale().take(ROWS).map(|node| node.node.as_str()).collect();
            let more = if stale > ROWS { ", …" } else { "" };
            format!(
                "{total}: {stale} stale, no write for {}: {}{more}",
                duration::exact(limit),
                names.join(", ")
            )
        }
        Some(limit) => format!("{total}: none stale, each wrote within {}", duration::exact(limit)),
        None => match survey.nodes.iter().filter_map(|node| Some((node.age_seconds?, &node.node))).max() {
            Some((oldest, node)) => format!("{total}: the quietest, {node}, wrote {} ago", age(oldest)),
            None => total.to_string(),
        },
    }
}

fn malformed(survey: &Survey) -> String {
    let (those, rest) = survey.malformed_by_node();
    if survey.malformed == 0 {
        return "0".to_owned();
    }
    let mut words: Vec<String> =
        those.iter().take(ROWS).map(|(node, number)| format!("{node} {number}")).collect();
    if those.len() > ROWS {
        words.push(format!("{} more nodes", those.len() - ROWS));
    }
    if rest > 0 {
        words.push(format!("{rest} of no node"));
    }
    format!("{}: {}", survey.malformed, words.join(", "))
}

struct Section {
    title: &'static str,
    table: Table,
    total: usize,
    /// What shows all of them.
    more: &'static str,
}

fn section<T>(
    title: &'static str,
    more: &'static str,
    titles: &[&str],
    rows: &[T],
    row: impl Fn(&T) -> Vec<Cell>,
) -> Option<Section> {
    let mut table = Table::new(titles.iter().copied());
    for one in rows.iter().take(ROWS) {
        table.row(row(one));
    }
    (!rows.is_empty()).then_some(Section { title, table, total: rows.len(), more })
}

fn cell(text: &str) -> Cell {
    Cell::from(escape(text).into_owned())
}

fn not_current(survey: &Survey) -> Option<Section> {
    let rows: Vec<_> = survey.modules.iter().filter(|module| module.state != "current").collect();
    let age =
        |at: &Option<String>| at.as_ref().map_or_else(|| "-".to_owned(), |at| duration::age(survey.age(at)));
    let titles = ["NODE", "MODULE", "STATE", "NEEDS", "NEEDED", "APPLIED"];
    section("not current", "mesh-provisioner ask drift --not-ok", &titles, &rows, |module| {
        let state = Cell { style: Style::Yellow, ..cell(&module.state) };
        let [needs, needed, applied] =
            [module.needs.to_string(), age(&module.needed_at), age(&module.applied_at)].map(Cell::from);
        vec![cell(&module.node), cell(&module.module), state, needs, needed, applied]
    })
}

fn gaps(survey: &Survey) -> Option<Section> {
    let titles = ["NODE", "MODULE", "KIND", "NAME", "AGE"];
    section("gaps", "mesh-provisioner ask gaps", &titles, &survey.gaps, |need| {
        let age = Cell::from(duration::age(survey.age(&need.at)));
        vec![cell(&need.node), cell(&need.module), cell(&need.kind), cell(&need.name), age]
    })
}

fn waits(survey: &Survey) -> Option<Section> {
    let titles = ["NODE", "MODULE", "KIND", "NAME", "AGE", "WHY"];
    section("waiting", "mesh-provisioner ask gaps", &titles, &survey.waiting, |need| {
        let age = Cell::from(duration::age(survey.age(&need.at)));
        vec![
            cell(&need.node),
            cell(&need.module),
            cell(&need.kind),
            cell(&need.name),
            age,
            cell(need.why.as_deref().unwrap_or("-")),
        ]
    })
}

fn unfed(survey: &Survey) -> Option<Section> {
    let rows: Vec<_> = survey.collections.iter().filter(|row| row.state != "read").collect();
    let titles = ["NODE", "COLLECTION", "STATE", "BY"];
    section("collections", "mesh-provisioner ask collections --not-ok", &titles, &rows, |row| {
        let by = if row.readers.is_empty() { &row.contributors } else { &row.readers };
        let state = Cell { style: Style::Yellow, ..cell(&row.state) };
        vec![cell(&row.node), cell(&row.collection), state, cell(&by.join(", "))]
    })
}

/// The command that looks closer at the first thing that is wrong.
fn next(survey: &Survey) -> Option<String> {
    let why = |node: &str, module: &str, rest: &str| {
        Some(format!("mesh-provisioner why {} {}{rest}", quote(node), quote(module)))
    };
    if !survey.health.ready {
        return Some("mesh-provisioner check".to_owned());
    }
    let need = survey.gaps.first().or_else(|| survey.waiting.iter().find(|need| survey.waits_long(need)));
    if let Some(need) = need {
        return why(
            &need.node,
            &need.module,
            &format!(" {}", quote(&format!("{}:{}", need.kind, need.name))),
        );
    }
    if let Some(module) = survey.modules.iter().find(|module| module.state != "current") {
        return why(&module.node, &module.module, "");
    }
    if survey.malformed > 0 {
        return Some("mesh-provisioner ask nodes --not-ok".to_owned());
    }
    survey
        .collections
        .iter()
        .find(|row| row.state != "read")
        .map(|row| format!("mesh-provisioner ask collections --not-ok --node {}", quote(&row.node)))
}

#[cfg(test)]
mod tests {
    use super::super::survey::tests::{survey, well};
    use super::*;
    use mesh_daemon::screen::cells;
    use mesh_daemon::terminal::Paint;

    fn screen(width: Option<usize>) -> Screen {
        Screen { width, paint: Paint::of(false) }
    }

    #[test]
    fn everything_that_is_not_well_is_on_one_screen() {
        assert_eq!(
            render(&survey(), screen(None)),
            "\
seat         up 2h on nats://h:4222, ready
modules      3: 1 current, 1 never, 1 unapplied
gaps         1
waiting      1, of these 1 for longer than a minute
nodes        2: 1 stale, no write for 1m: cellar
collections  1: 1 unfed
malformed    3: attic 2, 1 of no node

not current
NODE    MODULE  STATE      NEEDS  NEEDED  APPLIED
attic   backup  never      3      2m      -
cellar  web     unapplied  3      2m      2m

gaps
NODE   MODULE  KIND     NAME  AGE
attic  web     licence  x     2m

waiting
NODE    MODULE  KIND    NAME  AGE  WHY
cellar  web     secret  x     2m   no responder

collections
NODE   COLLECTION  STATE  BY
attic  motd        unfed  web

next: mesh-provisioner why attic web licence:x
"
        );
        assert_eq!(
            render(&well(), screen(None)),
            "\
seat         up 2h on nats://h:4222, ready
modules      1: 1 current
gaps         0
waiting      0
nodes        2: none stale, each wrote within 1m
collections  0
malformed    0
"
        );
    }

    #[test]
    fn it_fits_the_screen() {
        for width in [30, 60, 200] {
            let text = render(&survey(), screen(Some(width)));
            let fits = |line: &str| cells(line) <= width || line.starts_with("next: ");
            assert!(text.lines().all(fits), "{width}:\n{text}");
        }
    }

    #[test]
    fn long_lists_are_cut_and_say_where_the_rest_is() {
        let mut survey = survey();
        survey.gaps = vec![survey.gaps[0].clone(); 12];
        let text = render(&survey, screen(None));
        assert!(text.contains("\nand 7 more: mesh-provisioner ask gaps\n"), "{text}");
        assert!(text.lines().count() < 40, "{text}");
    }
}

//! The page: what is wrong first, then every node, module and collection.

use super::collections;
use super::html::{escape, mark, table};
use crate::status::survey::Survey;
use mesh_daemon::duration;
use mesh_daemon::time::rfc3339_millis;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Colours of light and dark by the reader's setting; nothing is fetched from elsewhere.
const STYLE: &str = include_str!("report.css");

/// The whole page.
pub(super) fn render(survey: &Survey) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>The mesh at {at}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>The mesh {verdict}</h1>\n<p>{at}{seat}</p></header>\n<main>\n",
        at = rfc3339_millis(survey.now),
        verdict = if survey.is_ok() { mark(true, "is well") } else { mark(false, "is not well") },
        seat = seat(survey),
    );
    summary(&mut html, survey);
    section(&mut html, "What is missing", survey.gaps.len(), &gaps(survey));
    section(&mut html, "What waits, and why", survey.waiting.len(), &waits(survey));
    section(&mut html, "Modules on nodes", survey.modules.len(), &grid(survey));
    section(&mut html, "Collections", survey.collections.len(), &collections::render(&survey.collections));
    section(&mut html, "Last writes", survey.nodes.len(), &writes(survey));
    section(&mut html, "Malformed keys", survey.malformed, &malformed(survey));
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn seat(survey: &Survey) -> String {
    let Some(seat) = &survey.health.seat else { return String::new() };
    let up = duration::age(Duration::from_secs(survey.health.uptime_seconds));
    let missing = survey.health.missing.iter().map(|missing| format!("<br>{}", mark(false, missing)));
    let missing = missing.collect::<Vec<_>>().concat();
    format!(", answered by seat {} of version {}, up {up}{missing}", escape(&seat.id), escape(&seat.version))
}

/// The numbers, a tile each.
fn summary(html: &mut String, survey: &Survey) {
    let current = survey.modules.iter().filter(|module| module.state == "current").count();
    let long = survey.waiting.iter().filter(|need| survey.waits_long(need)).count();
    let read = survey.collections.iter().filter(|row| row.state == "read").count();
    let stale = survey.stale().count();
    let of = |some: usize, all: usize| format!("{some} of {all}");
    let tiles = [
        ("modules current", of(current, survey.modules.len()), current == survey.modules.len()),
        ("needs that nobody answers", survey.gaps.len().to_string(), survey.gaps.is_empty()),
        ("needs that wait for over a minute", of(long, survey.waiting.len()), long == 0),
        ("nodes stale", of(stale, survey.nodes.len()), stale == 0),
        ("collections read and fed", of(read, survey.collections.len()), read == survey.collections.len()),
        ("malformed keys", survey.malformed.to_string(), survey.malformed == 0),
    ];
    html.push_str("<ul class=\"tiles\">\n");
    for (what, number, is_good) in tiles {
        writeln!(html, "<li>{}<small>{what}</small></li>", mark(is_good, &number)).ok();
    }
    html.push_str("</ul>\n");
}

/// A section, or one line if it is empty.
fn section(html: &mut String, title: &str, number: usize, body: &str) {
    let body = if number == 0 { "<p>Nothing.</p>\n" } else { body };
    write!(html, "<section><h2>{} <small>{number}</small></h2>\n{body}</section>\n", escape(title)).ok();
}

fn gaps(survey: &Survey) -> String {
    let rows = survey.gaps.iter().map(|need| {
        let placeholder = format!("${{{}:{}}}", need.kind, need.name);
        let why = format!("no entry of the registry has the kind {}", need.kind);
        vec![
            escape(&need.node),
            escape(&need.module),
            code(&placeholder),
            escape(&why),
            age(survey, &need.at),
        ]
    });
    table(&["node", "module", "placeholder", "why", "since"], rows)
}

fn waits(survey: &Survey) -> String {
    let rows = survey.waiting.iter().map(|need| {
        let why = need.why.as_deref().unwrap_or("-");
        let placeholder = format!("${{{}:{}}}", need.kind, need.name);
        let why = mark(!survey.waits_long(need), why);
        vec![escape(&need.node), escape(&need.module), code(&placeholder), why, age(survey, &need.at)]
    });
    table(&["node", "module", "placeholder", "why", "since"], rows)
}

/// A row for each node, a column for each module.
fn grid(survey: &Survey) -> String {
    let modules: BTreeSet<&str> = survey.modules.iter().map(|module| module.module.as_str()).collect();
    let mut nodes: BTreeMap<&str, BTreeMap<&str, &str>> =
        survey.nodes.iter().map(|node| (node.node.as_str(), BTreeMap::new())).collect();
    for module in &survey.modules {
        nodes.entry(&module.node).or_default().insert(&module.module, &module.state);
    }
    let titles: Vec<&str> = ["node"].into_iter().chain(modules.iter().copied()).collect();
    let rows = nodes.iter().map(|(node, row)| {
        let states = modules.iter().map(|module| match row.get(module) {
            Some(state) => mark(*state == "current", state),
            None => "<span class=\"none\">·</span>".to_owned(),
        });
        [format!("<b>{}</b>", escape(node))].into_iter().chain(states).collect()
    });
    table(&titles, rows)
}

fn writes(survey: &Survey) -> String {
    let mut nodes: Vec<_> = survey.nodes.iter().collect();
    // The quietest first.
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.age_seconds), &node.node));
    let rows = nodes.into_iter().map(|node| {
        let age = match node.age_seconds {
            Some(seconds) => format!("{} ago", duration::age(Duration::from_secs(seconds))),
            None => "never".to_owned(),
        };
        vec![escape(&node.node), mark(node.stale != Some(true), &age)]
    });
    table(&["node", "last write"], rows)
}

fn malformed(survey: &Survey) -> String {
    let rows = survey.malformed_keys.iter().map(|key| vec![code(&key.key), escape(&key.detail)]);
    let mut html = table(&["key", "what is wrong"], rows);
    let more = survey.malformed.saturating_sub(survey.malformed_keys.len());
    if more > 0 {
        writeln!(html, "<p>{more} more look the same as one of these.</p>").ok();
    }
    html
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

fn age(survey: &Survey, at: &str) -> String {
    format!("<span title=\"{}\">{}</span>", escape(at), duration::age(survey.age(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::survey::tests::{survey, well};

    #[test]
    fn everything_that_is_not_well_is_on_the_page() {
        let html = render(&survey());
        for part in [
            "<h1>The mesh <span class=\"bad\">is not well</span></h1>",
            "<li><span class=\"bad\">1 of 3</span><small>modules current</small></li>",
            "<code>${licence:x}</code></td><td>no entry of the registry has the kind licence",
            "<code>${secret:x}</code></td><td><span class=\"bad\">no responder</span>",
            "<td><b>attic</b></td><td><span class=\"bad\">never</span></td><td><span class=\"good\">current</span></td>",
            "<td><b>cellar</b></td><td><span class=\"none\">·</span></td>",
            "motd on attic <span class=\"bad\">unfed: it is read, and no module contributes to it</span>",
            "<td>cellar</td><td><span class=\"bad\">2m ago</span></td>",
            "<code>attic.web.port</code></td><td>3 tokens where a need has 4</td>",
            "<p>2 more look the same as one of these.</p>",
        ] {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
    }

    #[test]
    fn a_mesh_that_is_well_says_so_and_nothing_is_fetched() {
        let html = render(&well());
        assert!(
            html.contains("<span class=\"good\">is well</span>") && !html.contains("class=\"bad\""),
            "{html}"
        );
        assert_eq!(html.matches("<p>Nothing.</p>").count(), 4);
        for foreign in ["<script", "http://", "https://", "url(", "@import", "<link", "<img"] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}

//! Drift as a table of nodes and modules.

use super::survey::Survey;
use mesh_daemon::screen::{Screen, cells};
use mesh_daemon::table::{Cell, Table};
use mesh_daemon::terminal::{Style, escape};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A line for each node, a column for each module. If the columns do not fit the screen, the modules continue below.
pub(super) fn render(survey: &Survey, screen: Screen) -> String {
    let modules: BTreeSet<&str> = survey.modules.iter().map(|module| module.module.as_str()).collect();
    let mut nodes: BTreeMap<&str, BTreeMap<&str, &str>> =
        survey.nodes.iter().map(|node| (node.node.as_str(), BTreeMap::new())).collect();
    for module in &survey.modules {
        nodes.entry(&module.node).or_default().insert(&module.module, &module.state);
    }
    let names = nodes.keys().map(|node| cells(&escape(node)));
    let first = names.chain([cells("NODE")]).max().unwrap_or(0);
    let wide = |module: &str| {
        let states = nodes.values().filter_map(|row| row.get(module)).map(|state| cells(state));
        states.chain([cells(&escape(module))]).max().unwrap_or(0) + 2
    };
    let mut text = String::new();
    let mut rest: Vec<&str> = modules.into_iter().collect();
    while !rest.is_empty() {
        let mut used = first;
        let fits = |module: &&&str| {
            used += wide(module);
            screen.width.is_none_or(|width| used <= width)
        };
        let here = rest.iter().take_while(fits).count().max(1);
        let later = rest.split_off(here);
        let titles =
            ["NODE".to_owned()].into_iter().chain(rest.iter().map(|module| escape(module).into_owned()));
        let mut table = Table::new(titles);
        for (node, row) in &nodes {
            let states = rest.iter().map(|module| match row.get(module).copied() {
                Some("current") => Cell { text: "current".to_owned(), style: Style::Green },
                Some(state) => Cell { text: escape(state).into_owned(), style: Style::Yellow },
                None => Cell::from("·"),
            });
            table.row([Cell::from(escape(node).into_owned())].into_iter().chain(states));
        }
        text.push_str(&table.render(screen));
        rest = later;
        if !rest.is_empty() {
            text.push('\n');
        }
    }
    if text.is_empty() {
        writeln!(text, "no module needs anything or has applied anything").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::survey::tests::survey;
    use super::*;
    use mesh_daemon::terminal::Paint;

    #[test]
    fn nodes_and_modules_cross_and_go_on_below_where_they_do_not_fit() {
        let screen = |width| Screen { width, paint: Paint::of(false) };
        assert_eq!(
            render(&survey(), screen(None)),
            "NODE    backup  web\nattic   never   current\ncellar  ·       unapplied\n"
        );
        assert_eq!(
            render(&survey(), screen(Some(20))),
            "NODE    backup\nattic   never\ncellar  ·\n\nNODE    web\nattic   current\ncellar  unapplied\n"
        );
    }
}

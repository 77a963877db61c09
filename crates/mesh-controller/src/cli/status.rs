//! `status`: what is wrong, what is quiet, what is out of date.

use super::context::{Ended, Environment, OrEnd, store};
use super::show;
use crate::standing::{outstanding, read_reports};
use crate::status::{Known, NodeStatus, Word, status};
use crate::store::{identity, lease, nodes, now, sent};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::table::{Cell, Table};
use mesh_daemon::terminal::Style;

/// show what is wrong, what is quiet and what is out of date
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "status",
    note = "Sent: the bus has its newest declaration. Taken: its machine reported that sequence. Applied: each module\nstands so. Well: nothing failed there. None of them implies the next; ? is not known. What machines report is\nheard by serve, and by each push. Exit status: 0 well; 3 not.",
    example = "{command_name}"
)]
pub(super) struct Status {
    /// print JSON
    #[argh(switch)]
    json: bool,

    /// of one node
    #[argh(positional, arg_name = "node")]
    node: Option<String>,
}

impl Status {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let inventory = store.inventory();
        if let Some(node) = &self.node {
            nodes::expect(inventory, node).or_end()?;
        }
        let reports = read_reports(&store).or_end()?;
        let mut outstanding = outstanding(&store, &reports).or_end()?;
        if let Some(only) = &self.node {
            outstanding.retain(|node, _| node == only);
        }
        let declarations = sent::declarations(inventory).or_end()?;
        let undone = sent::count_undone(inventory).or_end()?;
        let joined =
            identity::node_keys(store.identity()).or_end()?.into_iter().map(|keys| keys.node).collect();
        let known = Known {
            outstanding: &outstanding,
            declarations: &declarations,
            undone: &undone,
            reports: &reports,
            joined: &joined,
            now: now(),
        };
        let status = status(&known);
        let exit = if status.ok { Exit::Done } else { Exit::NotOk };
        if self.json {
            print(&format!("{}\n", serde_json::to_string(&status).unwrap_or_default()));
            return Ok(exit);
        }
        if !lease::row(inventory).or_end()?.is_held(now()) {
            complain("serve does not run here: what machines report is as of the last push");
        }
        print(&render(&status.nodes));
        Ok(exit)
    }
}

fn cell(word: &Word) -> Cell {
    let age = word.at.map(show::age).unwrap_or_default();
    let (text, style) = match word.holds {
        Some(true) => (format!("yes {age}"), Style::Plain),
        Some(false) => (format!("no {age}"), Style::Yellow),
        None => ("?".to_owned(), Style::Plain),
    };
    Cell { text: text.trim_end().to_owned(), style }
}

fn render(nodes: &[NodeStatus]) -> String {
    let mut table = Table::new(["NODE", "SENT", "TAKEN", "APPLIED", "WELL", "MODULES"]);
    let mut text = String::new();
    for node in nodes {
        table.row([
            Cell::from(node.node.clone()),
            cell(&node.sent),
            cell(&node.taken),
            cell(&node.applied),
            cell(&node.well),
            Cell::from(node.modules.len().to_string()),
        ]);
        for wrong in &node.wrong {
            text += &format!("{}: {}\n", node.node, mesh_daemon::terminal::escape(wrong));
        }
    }
    if nodes.is_empty() {
        return "no nodes: add one with node add\n".to_owned();
    }
    let rest = if text.is_empty() { "nothing is wrong\n".to_owned() } else { text };
    format!("{}{rest}", show::table(&table))
}

//! `plan`: what a push would change, and why.

use super::acts::told;
use super::context::{Ended, Environment, OrEnd, store};
use super::show;
use crate::compose::reason::Acts;
use crate::compose::{Composed, compose};
use crate::plan::{Line, Plan, plan};
use crate::store::{Store, identity, nodes, sent};
use crate::{rekey, snapshot};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::{Paint, Style};
use mesh_model::assignment::Assignment;
use mesh_model::json::{Json, Read};
use mesh_model::placeholder::{Declared, Part, Template};
use serde_json::{Value, json};
use std::fmt::Write;

/// show what a push would change, and why each line is there; changes nothing
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "plan",
    note = "A line begins with + for what comes, ~ for what changes, - for what goes. The digest stands for exactly this\nplan: push --yes DIGEST sends it and no other. Exit status: 0 nothing; 2 something; 1 a node cannot have what\nit should.",
    example = "{command_name} attic --files"
)]
pub(super) struct PlanCommand {
    /// show the text of files as the node would have them, with «secret:x» for what is sealed
    #[argh(switch)]
    files: bool,

    /// print JSON
    #[argh(switch)]
    json: bool,

    /// of one node
    #[argh(positional, arg_name = "node")]
    node: Option<String>,
}

impl PlanCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        if let Some(node) = &self.node {
            nodes::expect(store.inventory(), node).or_end()?;
        }
        let snapshot = snapshot::read(store.inventory(), store.identity()).or_end()?;
        let composed = compose(&snapshot);
        let sent = sent::all(store.inventory()).or_end()?;
        let mut plan = plan(&composed, &sent, self.node.as_deref());
        let tokens = identity::tokens(store.identity()).or_end()?;
        rekey::put(&mut plan, rekey::notes(&snapshot, &tokens, crate::store::now()));
        let acts = told(&store).or_end()?;
        for (node, heard) in nodes::reports(store.inventory()).or_end()? {
            let differs = plan.nodes.get(&node).is_some_and(crate::plan::NodeChange::differs);
            if differs && crate::store::now() - heard.at > QUIET_MILLIS {
                complain(&format!(
                    "{node}: what is known of its machine is as reported {} ago",
                    show::age(heard.at)
                ));
            }
        }
        if self.json {
            print(&format!("{}\n", to_json(&plan, &acts)));
        } else {
            print(&render(&plan, &acts));
        }
        if self.files {
            print(&files(&composed, &plan));
        }
        say_problems(&plan);
        Ok(if plan.is_hindered() {
            Exit::Failed
        } else if plan.differs() {
            Exit::Differs
        } else {
            Exit::Done
        })
    }
}

/// A report that is older than this is said to be old: three times the interval at which it is written again.
pub(super) const QUIET_MILLIS: i64 = 30 * 60 * 1000;

/// What the store would send, for the commands that act on it.
pub(super) fn current(store: &Store, only: Option<&str>) -> Result<(Composed, Plan), crate::store::Error> {
    let composed = compose(&snapshot::read(store.inventory(), store.identity())?);
    let sent = sent::all(store.inventory())?;
    let plan = plan(&composed, &sent, only);
    Ok((composed, plan))
}

/// Says what hinders nodes.
pub(super) fn say_problems(plan: &Plan) {
    for (node, change) in &plan.nodes {
        for problem in &change.problems {
            complain(&format!("{node}: {problem}"));
        }
    }
}

fn values(line: &Line) -> String {
    let cut = |text: &Option<String>| text.as_deref().map(|text| show::short(text, 60)).unwrap_or_default();
    match (&line.old, &line.new) {
        (Some(_), Some(_)) => format!("{} → {}", cut(&line.old), cut(&line.new)),
        (Some(_), None) => cut(&line.old),
        _ => cut(&line.new),
    }
}

/// The plan as people read it.
pub(super) fn render(plan: &Plan, acts: &Acts) -> String {
    let paint = Paint::of_stdout();
    let mut text = String::new();
    let mut count = 0;
    for (node, change) in &plan.nodes {
        for line in &change.lines {
            let (mark, style) = match (&line.old, &line.new) {
                (None, _) => ('+', Style::Green),
                (_, None) => ('-', Style::Red),
                _ => ('~', Style::Yellow),
            };
            let module = if line.module.is_empty() { "·" } else { &line.module };
            let why = line.why.as_ref().map(|why| why.tell(acts, &show::at)).unwrap_or_default();
            let line = format!("{mark} {node} {module} {} {}  {why}", line.path, values(line));
            writeln!(text, "{}", paint.line(style, line.trim_end())).ok();
            count += 1;
        }
        for note in &change.notes {
            writeln!(text, "{}", paint.line(Style::Plain, &format!("  {node}: {note}"))).ok();
        }
        if change.takes_much() {
            let all = if change.has == 0 { "all" } else { "more than half" };
            let note = format!(
                "  {node}: loses {all} of its modules ({} of {}): push wants the digest for that",
                change.loses, change.had
            );
            writeln!(text, "{}", paint.line(Style::Yellow, &note)).ok();
        }
    }
    if plan.differs() {
        let nodes = plan.nodes.values().filter(|change| change.differs()).count();
        let lines = if count == 1 { "1 change".to_owned() } else { format!("{count} changes") };
        let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
        writeln!(text, "{lines} on {nodes}; digest {}", plan.digest()).ok();
    } else {
        writeln!(text, "nothing to send; digest {}", plan.digest()).ok();
    }
    text
}

fn to_json(plan: &Plan, acts: &Acts) -> Value {
    let nodes: Vec<Value> = plan
        .nodes
        .iter()
        .map(|(node, change)| {
            let lines: Vec<Value> = change
                .lines
                .iter()
                .map(|line| {
                    json!({"module": line.module, "path": line.path, "old": line.old, "new": line.new,
                        "why": line.why.as_ref().map(|why| why.tell(acts, &show::at))})
                })
                .collect();
            json!({"node": node, "base": change.base, "differs": change.differs(), "lines": lines,
                "problems": change.problems, "notes": change.notes})
        })
        .collect();
    json!({"digest": plan.digest().to_string(), "differs": plan.differs(), "nodes": nodes})
}

/// The texts of files of the modules that change, filled as far as it is known here.
fn files(composed: &Composed, plan: &Plan) -> String {
    let mut text = String::new();
    for (node, change) in plan.nodes.iter().filter(|(_, change)| change.differs()) {
        let Some(of_node) = composed.nodes.get(node) else { continue };
        for (module, of) in &of_node.modules {
            if !change.values.iter().any(|value| value.module == *module) {
                continue;
            }
            let Ok(assignment) = Assignment::from_json_bytes(&of.assignment) else { continue };
            let settings = Json::parse_bytes(&of.settings).unwrap_or(Json::Null);
            for (path, content) in contents(&assignment, &settings) {
                writeln!(text, "--- {node} {module} {path}").ok();
                text.push_str(&content);
                if !content.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
    }
    text
}

fn contents(assignment: &Assignment, settings: &Json) -> Vec<(String, String)> {
    let declared = Declared::by_needs(assignment.needs.as_deref().unwrap_or_default());
    let fill = |text: &str| {
        let template = Template::parse(text, &declared);
        let mut filled = String::new();
        for part in template.parts() {
            match part {
                Part::Literal(literal) => filled.push_str(literal),
                Part::Placeholder(found) => {
                    let placed = found.kind().parse().ok();
                    let value = match (found.kind(), placed) {
                        ("config", _) => settings.at_path(found.name()).map(|json| match json {
                            Json::Text(text) => text.clone(),
                            other => other.to_string(),
                        }),
                        (_, Some(kind)) => assignment.placement.value(kind, found.name()),
                        _ => None,
                    };
                    filled.push_str(&value.unwrap_or_else(|| format!("«{}»", found.key)));
                }
            }
        }
        filled
    };
    let mut all = Vec::new();
    for draft in &assignment.resources {
        let member = |name: &str| draft.json().get(name).and_then(Json::as_text).map(fill);
        if let (Some(path), Some(content)) = (member("path").or_else(|| member("into")), member("content")) {
            all.push((path, content));
        }
    }
    all
}

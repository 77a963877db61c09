//! `plan`: what the next registry write would change, as a diff. It reads and decides as the pass does, by the same
//! code, and writes nothing.

use super::connecting;
use crate::seat::{self, Plan, Planning};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::{CallError, Client};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::{Paint, Style};
use mesh_model::bucket::Bucket;
use mesh_model::registry;
use mesh_provisioner_api::failure::Cause;
use mesh_provisioner_cli::connect::{Environment, Inbox, connect, explain, parse_inbox_prefix};
use std::fmt::Write;
use std::time::Duration;

/// How long one request may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

connecting! {
    /// show what the next registry write would change; writes nothing
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "plan",
        note = "Run it under the seat's account or an administrator's. Without --inbox-prefix it listens on the seat's\nown inbox, or on _INBOX if the account may not; the server's log then notes one denied subscription.\n\nA line begins with + for a kind that is missing, ~ for one that says something else, - for a key that no\ndomain answers. Exit status: 0 nothing to change; 2 something; 1 the registry cannot be read whole; 69 the\nbus cannot be reached; 77 denied.",
        example = "{command_name} --creds /etc/mesh-provisioner/seat.creds",
        example = "{command_name} --user administrator --inbox-prefix _INBOX"
    )]
    pub(super) struct PlanCommand {
        /// where answers come to [_INBOX_mesh.provisioner, else _INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

impl PlanCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let inbox = Inbox::seat_or_usual(self.inbox_prefix.as_ref());
        let mut client = match connect(&self.flags(), environment, &inbox) {
            Ok(client) => client,
            Err(exit) => return exit,
        };
        let read = read(&mut client);
        client.close();
        let plan = match read {
            Ok(plan) => plan,
            Err(exit) => return exit,
        };
        for key in &plan.unnameable {
            complain(&format!("warning: {}", seat::unnameable(key)));
        }
        match print(&render(&plan)) {
            Exit::Done if !plan.changes.is_empty() => Exit::Differs,
            printed => printed,
        }
    }
}

/// Reads the registry to its end, or says why that cannot be done.
fn read(client: &mut Client) -> Result<Plan, Exit> {
    let mut planning = Planning::new();
    while let Some((tag, request)) = planning.request() {
        let answer = match client.call(&request.subject, request.headers, request.body, COMMAND_TIMEOUT) {
            Ok(answer) => Ok(answer.body),
            Err(CallError::NoResponders) => Err(Cause::NoResponders),
            Err(CallError::Silent) => Err(Cause::Silent),
            Err(error) => return Err(explain(&error, &request.subject, "", "seat")),
        };
        match planning.on_reply(tag, answer.as_deref().map_err(Clone::clone)) {
            Ok(Some(plan)) => return Ok(plan),
            Ok(None) => {}
            Err(cause) => {
                complain(&cause.tell(Bucket::Registry));
                let unavailable = matches!(cause, Cause::NoResponders | Cause::Silent);
                return Err(if unavailable { Exit::Unavailable } else { Exit::Failed });
            }
        }
    }
    complain("the registry was not read to its end");
    Err(Exit::Bug)
}

fn render(plan: &Plan) -> String {
    let mut text = String::new();
    let paint = Paint::of_stdout();
    let mut line = |style, line: String| writeln!(text, "{}", paint.line(style, &line)).ok();
    let (mut put, mut changed, mut deleted) = (0, 0, 0);
    for change in &plan.changes {
        let key = &change.key;
        let new = change.entry.map(registry::Entry::to_json);
        let old = seat::show(change.old.as_deref());
        match (&change.old, new) {
            (None, new) => {
                put += 1;
                line(Style::Green, format!("+ {key}"));
                line(Style::Green, format!("    new {}", new.unwrap_or_default()));
            }
            (Some(_), Some(new)) => {
                changed += 1;
                line(Style::Yellow, format!("~ {key}"));
                line(Style::Red, format!("    old {old}"));
                line(Style::Green, format!("    new {new}"));
            }
            (Some(_), None) => {
                deleted += 1;
                line(Style::Red, format!("- {key}"));
                line(Style::Red, format!("    old {old}"));
            }
        }
    }
    let unchanged = registry::ENTRIES.len() - put - changed;
    let counts = if plan.changes.is_empty() {
        format!("nothing to change: the registry says all {unchanged} kinds as this version does")
    } else {
        format!("{put} to add, {changed} to change, {deleted} to delete, {unchanged} unchanged")
    };
    line(Style::Plain, counts);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::Change;

    #[test]
    fn a_plan_reads_as_a_diff() {
        let change = |key: &str, kind: Option<&str>, old: Option<&str>| Change {
            key: key.to_owned(),
            entry: kind.and_then(registry::entry),
            old: old.map(|old| old.as_bytes().to_vec()),
            expected: 1,
        };
        let plan = Plan {
            changes: vec![
                change("port", Some("port"), Some("{}\n")),
                change("licence", None, Some("\u{1b}[1m")),
                change("secret", Some("secret"), None),
            ],
            unnameable: Vec::new(),
        };
        let [port, secret] = ["port", "secret"].map(|kind| registry::entry(kind).unwrap().to_json());
        assert_eq!(
            render(&plan),
            format!(
                "~ port\n    old {{}}\\n\n    new {port}\n- licence\n    old \\u{{1b}}[1m\n+ secret\n    new {secret}\n1 to add, 1 to change, 1 to delete, 11 unchanged\n"
            )
        );
        assert_eq!(
            render(&Plan::default()),
            "nothing to change: the registry says all 13 kinds as this version does\n"
        );
    }
}

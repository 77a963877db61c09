//! Names that are known only at run time: of nodes, modules and collections from the seat, of contexts from their folder.

use super::candidates::{Given, Names};
use crate::ask::nothing;
use crate::connect::{Environment, Inbox};
use crate::query::{CollectionRow, Need, NoAnswer, Seat, about};
use mesh_bus::config::{self, Flags};
use mesh_provisioner_api::request::What;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Whoever presses a key does not wait longer.
const ANSWER_WAIT: Duration = Duration::from_millis(1500);

/// The names, or none where nobody answers in time.
pub(super) fn names(names: Names, given: &Given, environment: Environment<'_>) -> Vec<String> {
    if names == Names::Contexts {
        return contexts(environment);
    }
    let (sender, receiver) = mpsc::channel();
    let given = given.clone();
    // It ends with the process, whatever the bus does.
    thread::spawn(move || sender.send(of_seat(names, &given)).ok());
    receiver.recv_timeout(ANSWER_WAIT).ok().flatten().unwrap_or_default()
}

fn of_seat(names: Names, given: &Given) -> Option<Vec<String>> {
    let option = |name: &str| given.get(name).cloned();
    let flags = Flags {
        server: option("--server"),
        creds: option("--creds"),
        nkey: option("--nkey"),
        user: option("--user"),
        tls_ca: option("--tls-ca"),
        tls_cert: option("--tls-cert"),
        tls_key: option("--tls-key"),
        context: option("--context"),
    };
    let inbox = option("--inbox-prefix");
    let mut seat = Seat::connect(&flags, &config::environment, &Inbox::usual(inbox.as_ref())).ok()?;
    let node = given.get("--node").or_else(|| given.get("node")).map(String::as_str);
    let module = given.get("--module").or_else(|| given.get("module")).map(String::as_str);
    let asked: Result<BTreeSet<String>, NoAnswer> = match names {
        Names::Nodes => nothing::nodes(&mut seat),
        Names::Modules => nothing::modules(&mut seat, node),
        Names::Collections => seat
            .all::<CollectionRow>(&about(What::Collections, node, None))
            .map(|rows| rows.entries.into_iter().map(|row| row.collection).collect()),
        Names::Placeholders => seat.all::<Need>(&about(What::Needs, node, module)).map(|rows| {
            rows.entries.into_iter().map(|need| format!("{}:{}", need.kind, need.name)).collect()
        }),
        Names::Contexts => Ok(BTreeSet::new()),
    };
    asked.ok().map(|names| names.into_iter().collect())
}

/// The contexts of the `nats` tool.
fn contexts(environment: Environment<'_>) -> Vec<String> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home + "/.config"));
    let Some(files) = folder.and_then(|folder| fs::read_dir(Path::new(&folder).join("nats/context")).ok())
    else {
        return Vec::new();
    };
    let name = |file: fs::DirEntry| {
        let name = file.file_name().into_string().ok()?;
        name.strip_suffix(".json").map(str::to_owned)
    };
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort_unstable();
    names
}

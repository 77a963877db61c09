//! `ask`: asks the seat and shows the answer, to a person as a table, to a script as it came.

mod table;

use super::connect::{Environment, Inbox, connect, explain, parse_inbox_prefix};
use super::connecting;
use super::parse_whole;
use crate::wire::request::{self, What};
use crate::wire::{VERB, answer};
use argh::FromArgs;
use mesh_bus::client::Client;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print, print_on};
use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

/// How long an answer is awaited: the seat gives up after 4 s and says so.
const PATIENCE: Duration = Duration::from_secs(6);

/// How many pages `--all` follows at most.
const MAX_PAGES: usize = 100_000;

connecting! {
    /// ask the seat: registry (the default), needs, applied, collect, gaps, drift, nodes, collections or health
    #[derive(FromArgs, Debug)]
    #[argh(
        subcommand,
        name = "ask",
        note = "Exit status: 0 answered; 1 an error answer; 3 gaps, drift or health that is not ok; 69 nobody answers.",
        example = "{command_name} needs --node attic --module web",
        example = "{command_name} collect --collection shell:zsh:normal",
        example = "{command_name} drift --all --json"
    )]
    pub(super) struct Ask {
        /// what is asked [registry]
        #[argh(positional, from_str_fn(parse_what))]
        what: Option<What>,

        /// only this node
        #[argh(option, arg_name = "name")]
        node: Option<String>,

        /// only this module; for collect, the contributor
        #[argh(option, arg_name = "name")]
        module: Option<String>,

        /// only this kind
        #[argh(option, arg_name = "name")]
        kind: Option<String>,

        /// only this collection
        #[argh(option, arg_name = "name")]
        collection: Option<String>,

        /// for nodes: seconds without a write after which a node is stale
        #[argh(option, arg_name = "seconds", from_str_fn(parse_seconds))]
        stale_after: Option<u64>,

        /// at most so many entries, 1 to 10000
        #[argh(option, arg_name = "count", from_str_fn(parse_limit))]
        limit: Option<usize>,

        /// continue behind this place: the "next" of the answer before
        #[argh(option, arg_name = "place")]
        after: Option<String>,

        /// follow the pages to the end
        #[argh(switch)]
        all: bool,

        /// print each answer as it came, one a line
        #[argh(switch)]
        json: bool,

        /// where answers come, for an account that has an inbox of its own [_INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

fn parse_what(word: &str) -> Result<What, String> {
    What::from_word(word)
        .ok_or_else(|| format!("{word:?} cannot be asked; {} can", What::ALL.map(What::word).join(", ")))
}

fn parse_seconds(text: &str) -> Result<u64, String> {
    parse_whole(text, 0, request::MAX_STALE_AFTER)
}

fn parse_limit(text: &str) -> Result<usize, String> {
    parse_whole(text, 1, request::MAX_LIMIT)
}

impl Ask {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let mut ask = request::Ask {
            node: self.node.clone(),
            module: self.module.clone(),
            kind: self.kind.clone(),
            collection: self.collection.clone(),
            after: self.after.clone(),
            limit: self.limit,
            stale_after: self.stale_after,
            ..request::Ask::new(self.what.unwrap_or(What::Registry))
        };
        // What the seat would refuse is refused here, before anything is connected.
        if let Err(bad) = request::Ask::parse(ask.to_json().as_bytes()) {
            complain(&bad.message);
            return Exit::Usage;
        }
        let mut client = match connect(&self.flags(), environment, &Inbox::usual(self.inbox_prefix.as_ref()))
        {
            Ok(client) => client,
            Err(exit) => return exit,
        };
        let exit = self.follow(&mut ask, &mut client);
        client.close();
        exit
    }

    fn follow(&self, ask: &mut request::Ask, client: &mut Client) -> Exit {
        let mut pages = Vec::new();
        let mut ok = true;
        for _ in 0..MAX_PAGES {
            let answer = match client.call(VERB, Vec::new(), ask.to_json().into_bytes(), PATIENCE) {
                Ok(answer) => answer,
                Err(error) => {
                    return explain(&error, VERB, "nobody holds the seat: start mesh-provisioner serve");
                }
            };
            if let Some((code, message)) = answer.error {
                if self.json {
                    print(&format!("{}\n", String::from_utf8_lossy(&answer.body)));
                }
                complain(&format!("error {code}: {message}"));
                return Exit::Failed;
            }
            let Ok(page) = serde_json::from_slice::<answer::Received<'_>>(&answer.body) else {
                complain("the seat's answer cannot be read: is it of the same version?");
                return Exit::Failed;
            };
            ok &= page.ok != Some(false);
            let next = page.next.clone();
            if self.json {
                if let Err(exit) = print_on(&format!("{}\n", String::from_utf8_lossy(&answer.body))) {
                    return exit;
                }
            } else {
                pages.push(answer.body);
            }
            match next {
                Some(next) if self.all => ask.after = Some(next),
                _ => break,
            }
        }
        if !self.json {
            let shown = show(ask.what, &pages);
            if shown != Exit::Done {
                return shown;
            }
        }
        match ask.what {
            What::Gaps | What::Drift | What::Health if !ok => Exit::NotOk,
            _ => Exit::Done,
        }
    }
}

fn show(what: What, pages: &[Vec<u8>]) -> Exit {
    let pages: Vec<answer::Received<'_>> =
        pages.iter().filter_map(|page| serde_json::from_slice(page).ok()).collect();
    let view = table::View {
        width: std::io::stdout().is_terminal().then(table::terminal_width).flatten(),
        now: SystemTime::now(),
    };
    print(&view.render(what, &pages))
}

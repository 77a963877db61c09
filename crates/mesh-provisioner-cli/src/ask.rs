//! `ask`: asks the seat and shows the answer, to a person as a table, to a program as data.

mod choice;
pub(super) mod malformed;
pub(super) mod nothing;
mod render;

use self::choice::{Form, Rows, parse_form};
use super::connect::{Environment, Inbox, parse_inbox_prefix};
use super::connecting;
use super::parse_whole;
use super::query::{MAX_PAGES, NoAnswer, Seat};
use super::watch::{self, parse_every};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::arguments::did_you_mean;
use mesh_daemon::duration;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print_on};
use mesh_daemon::screen::Screen;
use mesh_provisioner_api::request::{self, What};
use mesh_provisioner_api::response;
use render::View;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, SystemTime};

connecting! {
    /// ask the seat: registry (the default), needs, applied, collect, gaps, drift, nodes, collections or health
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "ask",
        note = "With -o name, -o json or --no-headers, or if the output is not a terminal, it is data: what else there is\nto say comes on stderr. -o name prints keys, or names with a tab between them; -o json prints each answer as\nit came, one line a page; -o wide adds keys, revisions and times, and cuts nothing.\n\nExit status: 0 answered, and all is well; 1 an error answer, or a filter that matches nothing; 3 the answer\nis not ok; 69 nobody answers.",
        example = "{command_name} needs --node attic --module web",
        example = "{command_name} collect --collection shell:zsh:normal",
        example = "{command_name} drift --not-ok --watch",
        example = "{command_name} drift --all -o json"
    )]
    pub struct Ask {
        /// the question [registry]
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

        /// for nodes: how long without a write makes a node stale, such as 90s, 1h30m or 1d
        #[argh(option, arg_name = "time", from_str_fn(parse_stale_after))]
        stale_after: Option<Duration>,

        /// show only rows in these states, comma-separated
        #[argh(option, arg_name = "states")]
        state: Option<String>,

        /// show only rows that are not well
        #[argh(switch)]
        not_ok: bool,

        /// maximum number of entries, 1 to 10000
        #[argh(option, arg_name = "count", from_str_fn(parse_limit))]
        limit: Option<usize>,

        /// continue after this place: the "next" of the answer before
        #[argh(option, arg_name = "place")]
        after: Option<String>,

        /// follow the pages to the end
        #[argh(switch)]
        all: bool,

        /// the form of the output (-o): table, wide, name or json [table]
        #[argh(option, arg_name = "form", default = "Form::Table", from_str_fn(parse_form))]
        output: Form,

        /// the same as -o json
        #[argh(switch)]
        json: bool,

        /// leave out the line of titles
        #[argh(switch)]
        no_headers: bool,

        /// ask again and again, this often [2s]
        #[argh(option, arg_name = "time", from_str_fn(parse_every))]
        watch: Option<Duration>,

        /// where answers come to, for an account that has an inbox of its own [_INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

fn parse_what(word: &str) -> Result<What, String> {
    let known = || What::ALL.map(What::word);
    What::from_word(word).ok_or_else(|| match did_you_mean(word, known()) {
        near if near.is_empty() => {
            format!("{word:?} is not a question; there are {}", known().join(", "))
        }
        near => format!("{word:?} is not a question{near}"),
    })
}

fn parse_stale_after(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::ZERO..=Duration::from_secs(request::MAX_STALE_AFTER))
}

fn parse_limit(text: &str) -> Result<usize, String> {
    parse_whole(text, 1, request::MAX_LIMIT)
}

impl Ask {
    /// Runs the command; returns how it ended.
    pub fn run(mut self, environment: Environment<'_>) -> Exit {
        if self.json {
            self.output = Form::Json;
        }
        let ask = self.request();
        let rows = match self.rows(ask.what) {
            Ok(rows) => rows,
            Err(why) => {
                complain(&why);
                return Exit::Usage;
            }
        };
        // What the seat would refuse is refused here, before anything is connected, and in terms of options.
        if let Err(bad) = request::Ask::parse(ask.to_json().as_bytes()) {
            complain(&bad.message);
            return Exit::Usage;
        }
        let connect = || Seat::connect(&self.flags(), environment, &Inbox::usual(self.inbox_prefix.as_ref()));
        watch::run(self.watch, connect, |seat| self.show(&ask, &rows, seat))
    }

    fn request(&self) -> request::Ask {
        request::Ask {
            node: self.node.clone(),
            module: self.module.clone(),
            kind: self.kind.clone(),
            collection: self.collection.clone(),
            after: self.after.clone(),
            limit: self.limit,
            stale_after: self.stale_after.map(|time| time.as_secs()),
            ..request::Ask::new(self.what.unwrap_or(What::Registry))
        }
    }

    /// Which rows are to be shown; an error if the question has no such rows.
    fn rows(&self, what: What) -> Result<Rows, String> {
        let states: &[&str] = match what {
            What::Drift => &["current", "never", "unapplied", "orphan"],
            What::Collections => &["read", "unread", "unfed"],
            _ => &[],
        };
        let word = what.word();
        let filters = [
            ("node", self.node.is_some()),
            ("module", self.module.is_some()),
            ("kind", self.kind.is_some()),
            ("collection", self.collection.is_some()),
            ("after", self.after.is_some()),
            ("limit", self.limit.is_some()),
            ("stale_after", self.stale_after.is_some()),
        ];
        if let Some((field, _)) =
            filters.iter().find(|(field, given)| *given && !what.fields().contains(field))
        {
            let takers = What::ALL.into_iter().filter(|what| what.fields().contains(field)).map(What::word);
            let takers: Vec<&str> = takers.collect();
            let option = field.replace('_', "-");
            return Err(format!("--{option} is for {}, not for {word}", takers.join(", ")));
        }
        if self.not_ok && !matches!(what, What::Drift | What::Collections | What::Nodes | What::Gaps) {
            return Err(format!("--not-ok is for gaps, drift, nodes and collections, not for {word}"));
        }
        let chosen = match &self.state {
            None => None,
            Some(_) if states.is_empty() => {
                return Err(format!("--state is for drift and collections, not for {word}"));
            }
            Some(list) => {
                let chosen: Vec<String> = list.split(',').map(str::trim).map(str::to_owned).collect();
                if let Some(unknown) = chosen.iter().find(|state| !states.contains(&state.as_str())) {
                    let near = did_you_mean(unknown, states.iter().copied());
                    let the = if near.is_empty() { ": the" } else { " The" };
                    return Err(format!(
                        "{word} has no state {unknown:?}{near}{the} states are {}",
                        states.join(", ")
                    ));
                }
                Some(chosen)
            }
        };
        let rows = Rows { states: chosen, not_ok: self.not_ok };
        match self.output {
            Form::Json if !rows.are_all() => {
                Err("-o json prints the answer as it came: leave out --state and --not-ok".to_owned())
            }
            Form::Name | Form::Wide if what == What::Health => {
                Err("health is a report without entries: it can be shown as it is or with -o json".to_owned())
            }
            _ => Ok(rows),
        }
    }

    /// Asks once and shows the answer. It breaks if the output takes no more.
    fn show(&self, ask: &request::Ask, rows: &Rows, seat: &mut Seat) -> ControlFlow<Exit, Exit> {
        let pages = match self.pages(ask, seat)? {
            Ok(pages) => pages,
            Err(exit) => return Continue(exit),
        };
        let received: Vec<response::Received<'_>> =
            pages.iter().filter_map(|page| serde_json::from_slice(page).ok()).collect();
        if received.len() < pages.len() {
            complain("the seat's answer cannot be read: is it of the same version?");
            return Continue(Exit::Failed);
        }
        let screen = Screen::of_stdout();
        let is_data = self.output != Form::Table || self.no_headers || !screen.is_terminal();
        let view = View { screen, now: SystemTime::now(), form: self.output, is_bare: self.no_headers };
        let lists_nothing =
            |page: &response::Received<'_>| page.entries.is_empty() && page.malformed_total == 0;
        // A page may be empty although there is more.
        let is_whole = received.last().is_some_and(|page| page.next.is_none());
        let is_empty = ask.what != What::Health && is_whole && received.iter().all(lists_nothing);
        let nothing = match is_empty.then(|| nothing::explain(seat, ask)).transpose() {
            Ok(nothing) => nothing,
            Err(error) => return Continue(error.report()),
        };
        if let Some(nothing) = nothing.as_ref().filter(|nothing| !nothing.is_well) {
            complain(&nothing.sentence);
            return Continue(Exit::Failed);
        }
        if self.output != Form::Json {
            let entries = view.render(ask.what, &received, rows);
            print(is_data, &entries, true)?;
            let sentence = nothing.map(|nothing| nothing.sentence);
            let notes: Vec<String> = sentence.into_iter().chain(view.notes(ask, &received, rows)).collect();
            let notes = notes.join("\n\n");
            // On one screen an empty line separates them.
            let gap = if is_data || entries.is_empty() || notes.is_empty() { "" } else { "\n" };
            print(is_data, &format!("{gap}{notes}"), false)?;
        }
        // A page of gaps with a `next` is not ok, because the rest is unknown: here the pages after it are known, too.
        let is_followed = |page: &response::Received<'_>| page.next.is_some() && is_whole;
        let is_ok = received.iter().all(|page| {
            page.ok != Some(false) || ask.what == What::Gaps && is_followed(page) && lists_nothing(page)
        });
        Continue(if is_ok { Exit::Done } else { Exit::NotOk })
    }

    /// The pages as they came. If they are to be shown so, they are shown at once, and the last is given.
    fn pages(&self, ask: &request::Ask, seat: &mut Seat) -> ControlFlow<Exit, Result<Vec<Vec<u8>>, Exit>> {
        let mut ask = ask.clone();
        let mut pages = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = match seat.page(&ask) {
                Ok(page) => page,
                Err(error) => {
                    if let (Form::Json, NoAnswer::Error(.., body)) = (self.output, &error) {
                        print(true, &one_line(body), true)?;
                    }
                    return Continue(Err(error.report()));
                }
            };
            let next =
                serde_json::from_slice::<response::Received<'_>>(&page).ok().and_then(|page| page.next);
            if self.output == Form::Json {
                print(true, &one_line(&page), true)?;
            }
            pages.push(page);
            match next {
                Some(next) if self.all => ask.after = Some(next),
                _ => break,
            }
        }
        Continue(Ok(pages))
    }
}

/// Prints entries, or notes about them.
fn print(is_data: bool, text: &str, are_entries: bool) -> ControlFlow<Exit> {
    if text.is_empty() {
        return Continue(());
    }
    if is_data && !are_entries {
        complain(text);
        return Continue(());
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    print_on(&format!("{text}{end}")).map_or_else(Break, Continue)
}

/// An answer as one line. JSON has line breaks only between its parts: those of a stored value go.
fn one_line(body: &[u8]) -> String {
    let mut line = String::from_utf8_lossy(body).replace(['\n', '\r'], " ");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_whatever_is_stored() {
        let body = b"{\"value\":{\r\n  \"a\": \"x\\ny\"\n}}";
        assert_eq!(one_line(body), "{\"value\":{    \"a\": \"x\\ny\" }}\n");
    }

    #[test]
    fn a_state_that_is_not_known_is_refused_with_the_states() {
        let ask = Ask::from_args(&["ask"], &["drift", "--state", "nevr"]).unwrap();
        let refusal = ask.rows(What::Drift).unwrap_err();
        assert_eq!(
            refusal,
            "drift has no state \"nevr\": did you mean never? The states are current, never, unapplied, orphan"
        );
        let ask = Ask::from_args(&["ask"], &["drift", "--state", "xyzzyx"]).unwrap();
        let refusal = ask.rows(What::Drift).unwrap_err();
        assert_eq!(
            refusal,
            "drift has no state \"xyzzyx\": the states are current, never, unapplied, orphan"
        );
    }
}

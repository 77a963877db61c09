//! An answer as text: a line for each entry, and notes for what else there is to say.

use super::choice::{Form, Rows};
use super::malformed::{bucket, delete_command, quote, unnameable};
use super::nothing::scope;
use mesh_daemon::duration;
use mesh_daemon::screen::{Screen, wrap};
use mesh_daemon::table::{Cell, Table};
use mesh_daemon::terminal::{Style, escape};
use mesh_daemon::time;
use mesh_model::bucket::Bucket;
use mesh_model::object::Object;
use mesh_provisioner_api::request::{self, What};
use mesh_provisioner_api::response::Received;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

/// How many commands that delete malformed keys are printed.
const COMMANDS: usize = 10;

/// How an answer is shown.
#[derive(Debug)]
pub(super) struct View {
    pub(super) screen: Screen,
    /// What ages are counted from.
    pub(super) now: SystemTime,
    pub(super) form: Form,
    /// Without the line of titles.
    pub(super) is_bare: bool,
}

/// What a column shows of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// What it is.
    Text,
    /// How long ago.
    Age,
    /// The time itself: only where there is room for all columns.
    Time,
    /// What it is, only where there is room for all columns.
    Wide,
}
use Show::{Age, Text, Time, Wide};

/// A column: its title, the field that it shows, and how.
type Column = (&'static str, &'static str, Show);

const fn columns(what: What) -> &'static [Column] {
    match what {
        What::Registry => &[
            ("KIND", "kind", Text),
            ("DOMAIN", "domain", Text),
            ("MODULE", "module", Text),
            ("WHERE", "where", Text),
            ("AGE", "at", Age),
            ("WRITTEN", "at", Time),
            ("REVISION", "revision", Wide),
        ],
        What::Needs => &[
            ("NODE", "node", Text),
            ("MODULE", "module", Text),
            ("KIND", "kind", Text),
            ("NAME", "name", Text),
            ("AGE", "at", Age),
            ("VALUE", "value", Text),
            ("WRITTEN", "at", Time),
            ("REVISION", "revision", Wide),
            ("KEY", "key", Wide),
        ],
        What::Applied => &[
            ("NODE", "node", Text),
            ("MODULE", "module", Text),
            ("AGE", "at", Age),
            ("VALUE", "value", Text),
            ("WRITTEN", "at", Time),
            ("REVISION", "revision", Wide),
            ("KEY", "key", Wide),
        ],
        What::Collect => &[
            ("NODE", "node", Text),
            ("COLLECTION", "collection", Text),
            ("CONTRIBUTOR", "contributor", Text),
            ("AGE", "at", Age),
            ("VALUE", "value", Text),
            ("WRITTEN", "at", Time),
            ("REVISION", "revision", Wide),
            ("KEY", "key", Wide),
        ],
        What::Gaps => &[
            ("NODE", "node", Text),
            ("MODULE", "module", Text),
            ("KIND", "kind", Text),
            ("NAME", "name", Text),
            ("GAP", "gap", Text),
            ("WHY", "why", Text),
            ("AGE", "at", Age),
            ("WRITTEN", "at", Time),
            ("REVISION", "revision", Wide),
            ("KEY", "key", Wide),
        ],
        What::Drift => &[
            ("NODE", "node", Text),
            ("MODULE", "module", Text),
            ("STATE", "state", Text),
            ("NEEDS", "needs", Text),
            ("NEEDED", "needed_at", Age),
            ("APPLIED", "applied_at", Age),
            ("NEEDED AT", "needed_at", Time),
            ("APPLIED AT", "applied_at", Time),
        ],
        What::Nodes => &[
            ("NODE", "node", Text),
            ("NEEDS", "needs", Text),
            ("APPLIED", "applied", Text),
            ("COLLECT", "collect", Text),
            ("MALFORMED", "malformed", Text),
            ("WROTE", "last_write_at", Age),
            ("STALE", "stale", Text),
            ("WROTE AT", "last_write_at", Time),
        ],
        What::Collections => &[
            ("NODE", "node", Text),
            ("COLLECTION", "collection", Text),
            ("STATE", "state", Text),
            ("CONTRIBUTORS", "contributors", Text),
            ("READERS", "readers", Text),
        ],
        What::Health => &[],
    }
}

/// What names an entry, for `-o name`.
const fn names(what: What) -> &'static [&'static str] {
    match what {
        What::Needs | What::Applied | What::Collect | What::Gaps => &["key"],
        What::Registry => &["kind"],
        What::Drift => &["node", "module"],
        What::Nodes => &["node"],
        What::Collections => &["node", "collection"],
        What::Health => &[],
    }
}

impl Rows {
    fn shows(&self, entry: &Object<'_>) -> bool {
        let state = || entry.text("state").unwrap_or_default();
        let raw = |field: &str| raw(entry, field);
        let is_well = || match state().as_str() {
            "current" | "read" => true,
            // Gaps have no state, and nodes say it in other fields.
            "" => {
                raw("needs").is_some()
                    && raw("stale") != Some("true")
                    && matches!(raw("malformed"), None | Some("0"))
            }
            _ => false,
        };
        self.states.as_ref().is_none_or(|states| states.contains(&state())) && !(self.not_ok && is_well())
    }
}

fn raw<'a>(entry: &'a Object<'_>, field: &str) -> Option<&'a str> {
    entry.0.iter().find(|(name, _)| name == field).map(|(_, value)| value.get())
}

impl View {
    /// The entries as text.
    pub(super) fn render(&self, what: What, pages: &[Received<'_>], rows: &Rows) -> String {
        let mut text = String::new();
        if what == What::Health {
            for report in pages.iter().filter_map(|page| page.health.as_ref()) {
                render_report(&mut text, "", report);
            }
            return text;
        }
        let entries: Vec<&Object<'_>> =
            pages.iter().flat_map(|page| &page.entries).filter(|entry| rows.shows(entry)).collect();
        if entries.is_empty() {
            return text;
        }
        if self.form == Form::Name {
            for entry in entries {
                let names: Vec<String> =
                    names(what).iter().map(|field| self.cell(entry, field, Text)).collect();
                writeln!(text, "{}", names.join("\t")).ok();
            }
            return text;
        }
        let is_wide = self.form == Form::Wide;
        let columns: Vec<&Column> =
            columns(what).iter().filter(|(.., show)| is_wide || matches!(show, Text | Age)).collect();
        let mut table = Table::new(columns.iter().map(|(title, ..)| *title));
        table.is_whole = is_wide;
        table.is_bare = self.is_bare;
        for entry in entries {
            table.row(columns.iter().map(|(title, field, show)| {
                let text = self.cell(entry, field, *show);
                let style = if wants_a_look(title, &text) { Style::Yellow } else { Style::Plain };
                Cell { text, style }
            }));
        }
        table.render(self.screen)
    }

    /// The notes to the entries.
    pub(super) fn notes(&self, ask: &request::Ask, pages: &[Received<'_>], rows: &Rows) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.summary(ask, pages, rows));
        notes.extend(self.malformed(ask.what, pages));
        if let Some(next) = pages.last().and_then(|page| page.next.as_ref()) {
            let place = quote(&escape(next));
            notes.push(self.sentence(&format!("there is more: add --all, or go on with --after {place}")));
        }
        notes
    }

    /// The rows in numbers.
    fn summary(&self, ask: &request::Ask, pages: &[Received<'_>], rows: &Rows) -> Option<String> {
        let entries = || pages.iter().flat_map(|page| &page.entries);
        let total = entries().count();
        // Without gaps, that there are malformed keys would say nothing of them.
        let has_malformed = pages.iter().any(|page| page.malformed_total > 0);
        if total == 0 && !(ask.what == What::Gaps && has_malformed) {
            return None;
        }
        let count =
            |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for entry in entries() {
            let state = entry.text(if ask.what == What::Gaps { "gap" } else { "state" });
            *states.entry(state.unwrap_or_default()).or_default() += 1;
        }
        let states = || {
            let words: Vec<String> =
                states.iter().map(|(state, number)| format!("{number} {state}")).collect();
            words.join(", ")
        };
        let scope = scope(ask);
        let text = match ask.what {
            What::Drift => format!("{}{scope}: {}", count(total, "module"), states()),
            What::Collections => format!("{}{scope}: {}", count(total, "collection"), states()),
            What::Gaps if total == 0 => format!("{}{scope}", count(total, "gap")),
            What::Gaps => format!("{}{scope}: {}", count(total, "gap"), states()),
            What::Nodes => {
                let stale = entries().filter(|entry| raw(entry, "stale") == Some("true")).count();
                match ask.stale_after {
                    Some(_) => format!("{}{scope}: {stale} stale", count(total, "node")),
                    None => return None,
                }
            }
            _ => return None,
        };
        let shown = entries().filter(|entry| rows.shows(entry)).count();
        let hidden = if shown == 0 { "; none is shown".to_owned() } else { format!("; {shown} shown") };
        Some(self.sentence(&escape(&(text + if shown < total { &hidden } else { "" }))))
    }

    fn malformed(&self, what: What, pages: &[Received<'_>]) -> Option<String> {
        let total: usize = pages.iter().map(|page| page.malformed_total).sum();
        if total == 0 {
            return None;
        }
        let bucket_of = |malformed: &Object<'_>| match malformed.text("bucket") {
            Some(suffix) => bucket(&suffix),
            None => Some(match what {
                What::Registry => Bucket::Registry,
                What::Applied => Bucket::Applied,
                What::Collect => Bucket::Collect,
                _ => Bucket::Needs,
            }),
        };
        let listed = || pages.iter().flat_map(|page| &page.malformed);
        let mut text = self.screen.paint.paint(Style::Yellow, &format!("malformed: {total}"));
        text.push('\n');
        let mut table = Table::new(["BUCKET", "KEY", "WHY", "AGE", "DETAIL"]);
        table.is_whole = self.form == Form::Wide;
        for malformed in listed() {
            let bucket = bucket_of(malformed).map_or("-", Bucket::suffix);
            let cell = |field: &str, show| self.cell(malformed, field, show);
            let [key, why, detail] = ["key", "why", "detail"].map(|field| cell(field, Text));
            table.row([bucket.to_owned(), key, why, cell("at", Age), detail]);
        }
        text.push_str(&table.render(self.screen));
        if total > listed().count() {
            writeln!(text, "and {} more", total - listed().count()).ok();
        }
        let has_entry = |malformed: &Object<'_>| {
            matches!(malformed.text("why").as_deref(), Some("json" | "header" | "size"))
        };
        let bad_keys: Vec<&Object<'_>> = listed().filter(|malformed| !has_entry(malformed)).collect();
        if !bad_keys.is_empty() {
            let first = "mend the client that writes them, then delete them as an administrator:";
            writeln!(text, "{}", self.sentence(first)).ok();
        }
        let mut unnamed = false;
        for malformed in bad_keys.iter().take(COMMANDS) {
            let key = malformed.text("key").unwrap_or_default();
            match bucket_of(malformed).and_then(|bucket| delete_command(bucket, &key)) {
                Some(command) => drop(writeln!(text, "  {}", escape(&command))),
                None => unnamed = true,
            }
        }
        if bad_keys.len() > COMMANDS {
            writeln!(text, "  and so on for {} more", bad_keys.len() - COMMANDS).ok();
        }
        if unnamed {
            writeln!(text, "{}", self.sentence(&unnameable())).ok();
        }
        text.truncate(text.trim_end().len());
        Some(text)
    }

    fn sentence(&self, text: &str) -> String {
        wrap(text, self.screen.width, 0)
    }

    /// What a column shows of an entry.
    fn cell(&self, entry: &Object<'_>, field: &str, show: Show) -> String {
        let plain = |field: &str| {
            let text = entry.text(field).or_else(|| raw(entry, field).map(str::to_owned));
            text.map(|text| escape(&text).into_owned())
        };
        let shown = match (field, show) {
            (field, Age) => entry.text(field).map(|at| self.age(&at)),
            ("value", _) => plain("value")
                .or_else(|| plain("text"))
                .or_else(|| plain("base64").map(|base64| format!("base64 {base64}"))),
            ("where", _) => plain("verb")
                .map(|verb| format!("verb {verb}"))
                .or_else(|| {
                    let bucket = plain("bucket")?;
                    Some(format!("bucket {bucket}, key {}", plain("key")?))
                })
                .or_else(|| plain("value")),
            ("contributors" | "readers", _) => raw(entry, field).and_then(|list| {
                let names: Vec<String> = serde_json::from_str(list).ok()?;
                Some(escape(&names.join(", ")).into_owned())
            }),
            ("stale", _) => plain(field).map(|stale| if stale == "true" { "stale" } else { "no" }.to_owned()),
            (field, _) => plain(field),
        };
        shown.filter(|shown| !shown.is_empty()).unwrap_or_else(|| "-".to_owned())
    }

    /// How long ago `at` was; the time itself if it is not RFC 3339.
    fn age(&self, at: &str) -> String {
        match time::parse(at) {
            Ok(then) => duration::age(self.now.duration_since(then).unwrap_or_default()),
            Err(_) => escape(at).into_owned(),
        }
    }
}

/// Whether a cell says that something is not well.
fn wants_a_look(title: &str, text: &str) -> bool {
    match title {
        "STATE" => !matches!(text, "current" | "read"),
        "STALE" => text == "stale",
        "MALFORMED" => text != "0",
        _ => false,
    }
}

/// A report as indented lines, one a field.
fn render_report(text: &mut String, indent: &str, report: &Object<'_>) {
    for (field, value) in &report.0 {
        let name = field.replace('_', " ");
        if let Ok(inner) = Object::parse(value.get().as_bytes()) {
            writeln!(text, "{indent}{name}:").ok();
            render_report(text, &format!("{indent}  "), &inner);
            continue;
        }
        let shown = match serde_json::from_str::<Vec<serde_json::Value>>(value.get()) {
            Ok(list) if list.is_empty() => "none".to_owned(),
            Ok(list) => {
                let items =
                    list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
                items.collect::<Vec<_>>().join("; ")
            }
            Err(_) => report.text(field).unwrap_or_else(|| value.get().to_owned()),
        };
        writeln!(text, "{indent}{name}: {}", escape(&shown)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_daemon::screen::cells;
    use mesh_daemon::terminal::Paint;
    use std::time::Duration;

    const PAGE: &str = r#"{"entries":[
        {"key":"a.w.port.http","node":"attic","module":"web","kind":"port","name":"http","value":{"port":8080},"revision":1,"at":"2023-11-14T22:12:20Z"},
        {"key":"c.d.secret.x","node":"世界","module":"db","kind":"secret","name":"a\u001b[1m","text":"no json","revision":2,"at":"2023-11-14T20:00:00.5Z"}],
        "malformed":[{"key":"a.b","why":"shape","detail":"2 tokens where a need has 4"},
                     {"key":"c.d.secret.x","why":"json","detail":"the value is not JSON"}],"malformed_total":3,"next":"it's"}"#;

    fn view(width: Option<usize>, form: Form) -> View {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        View { screen: Screen { width, paint: Paint::of(false) }, now, form, is_bare: false }
    }

    fn needs() -> request::Ask {
        request::Ask::new(What::Needs)
    }

    #[test]
    fn a_table_is_aligned_and_what_is_malformed_is_apart() {
        let pages: [Received<'_>; 1] = [serde_json::from_str(PAGE).unwrap()];
        let view = view(None, Form::Table);
        assert_eq!(
            view.render(What::Needs, &pages, &Rows::default()),
            concat!(
                "NODE   MODULE  KIND    NAME        AGE  VALUE\n",
                "attic  web     port    http        60s  {\"port\":8080}\n",
                "世界   db      secret  a\\u{1b}[1m  2h   no json\n",
            )
        );
        assert_eq!(
            view.notes(&needs(), &pages, &Rows::default()).join("\n\n"),
            concat!(
                "malformed: 3\n",
                "BUCKET  KEY           WHY    AGE  DETAIL\n",
                "needs   a.b           shape  -    2 tokens where a need has 4\n",
                "needs   c.d.secret.x  json   -    the value is not JSON\n",
                "and 1 more\n",
                "mend the client that writes them, then delete them as an administrator:\n",
                "  nats kv del mesh-provisioner_needs a.b --force\n",
                "\n",
                "there is more: add --all, or go on with --after 'it'\\''s'",
            )
        );
    }

    #[test]
    fn a_wide_table_has_keys_revisions_and_times_and_a_name_is_a_key() {
        let pages: [Received<'_>; 1] = [serde_json::from_str(PAGE).unwrap()];
        let wide = view(Some(20), Form::Wide).render(What::Needs, &pages, &Rows::default());
        assert!(wide.lines().next().unwrap().ends_with("WRITTEN                 REVISION  KEY"), "{wide}");
        assert!(wide.contains("2023-11-14T20:00:00.5Z  2         c.d.secret.x\n"), "{wide}");
        let names = view(Some(20), Form::Name).render(What::Needs, &pages, &Rows::default());
        assert_eq!(names, "a.w.port.http\nc.d.secret.x\n");
    }

    #[test]
    fn nothing_is_wider_than_the_screen_but_a_command_to_copy() {
        let pages: [Received<'_>; 1] = [serde_json::from_str(PAGE).unwrap()];
        for width in [20, 40, 60] {
            let view = view(Some(width), Form::Table);
            let notes = view.notes(&needs(), &pages, &Rows::default()).join("\n");
            let text = view.render(What::Needs, &pages, &Rows::default()) + &notes;
            let is_narrow = |line: &str| cells(line) <= width || line.starts_with("  nats ");
            assert!(text.lines().all(is_narrow), "{width}:\n{text}");
        }
    }

    #[test]
    fn rows_are_chosen_by_state_and_counted() {
        let page = r#"{"entries":[
            {"node":"attic","module":"web","state":"current","needs":1},
            {"node":"attic","module":"db","state":"never","needs":2}],"malformed":[],"malformed_total":0}"#;
        let pages: [Received<'_>; 1] = [serde_json::from_str(page).unwrap()];
        let drift = request::Ask { node: Some("attic".to_owned()), ..request::Ask::new(What::Drift) };
        let shown = |rows: &Rows| {
            let view = view(None, Form::Name);
            (view.render(What::Drift, &pages, rows), view.notes(&drift, &pages, rows).join("\n"))
        };
        let counts = "2 modules for node attic: 1 current, 1 never";
        assert_eq!(shown(&Rows::default()), ("attic\tweb\nattic\tdb\n".to_owned(), counts.to_owned()));
        let not_ok = Rows { not_ok: true, ..Rows::default() };
        assert_eq!(shown(&not_ok), ("attic\tdb\n".to_owned(), format!("{counts}; 1 shown")));
        let orphans = Rows { states: Some(vec!["orphan".to_owned()]), ..Rows::default() };
        assert_eq!(shown(&orphans), (String::new(), format!("{counts}; none is shown")));
    }

    #[test]
    fn a_node_is_not_well_if_it_is_stale_or_has_malformed_keys() {
        let not_ok = Rows { not_ok: true, ..Rows::default() };
        for (fields, shown) in [
            (r#""malformed":0"#, false),
            (r#""malformed":2"#, true),
            (r#""malformed":0,"stale":true"#, true),
            (r#""malformed":0,"stale":false"#, false),
        ] {
            let entry = format!(r#"{{"node":"attic","needs":1,{fields}}}"#);
            assert_eq!(not_ok.shows(&Object::parse(entry.as_bytes()).unwrap()), shown, "{fields}");
        }
        assert!(not_ok.shows(&Object::parse(br#"{"key":"a.b.c.d","kind":"c"}"#).unwrap()), "a gap");
    }
}

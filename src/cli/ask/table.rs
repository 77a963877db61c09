//! Answers for people: aligned columns that fit the terminal, ages instead of times, malformed keys set apart.

use crate::wire::answer::Received;
use crate::wire::request::What;
use mesh_daemon::terminal::{Paint, Style, escape};
use mesh_daemon::time;
use mesh_model::object::Object;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// A column gets no narrower than this when the terminal is too narrow for all.
const NARROWEST: usize = 8;

/// How wide the terminal is, in characters.
pub(super) fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// For whom an answer is shown.
#[derive(Debug)]
pub(super) struct View {
    /// The width to keep to and to colour for; `None` if the output is no terminal.
    pub(super) width: Option<usize>,
    /// What ages are counted from.
    pub(super) now: SystemTime,
}

/// A column: its title and the field that it shows.
type Column = (&'static str, &'static str);

const fn columns(what: What) -> &'static [Column] {
    match what {
        What::Registry => {
            &[("KIND", "kind"), ("DOMAIN", "domain"), ("MODULE", "module"), ("WHERE", "where"), ("AGE", "at")]
        }
        What::Needs => &[
            ("NODE", "node"),
            ("MODULE", "module"),
            ("KIND", "kind"),
            ("NAME", "name"),
            ("AGE", "at"),
            ("VALUE", "value"),
        ],
        What::Applied => &[("NODE", "node"), ("MODULE", "module"), ("AGE", "at"), ("VALUE", "value")],
        What::Collect => &[
            ("NODE", "node"),
            ("COLLECTION", "collection"),
            ("CONTRIBUTOR", "contributor"),
            ("AGE", "at"),
            ("VALUE", "value"),
        ],
        What::Gaps => {
            &[("NODE", "node"), ("MODULE", "module"), ("KIND", "kind"), ("NAME", "name"), ("AGE", "at")]
        }
        What::Drift => &[
            ("NODE", "node"),
            ("MODULE", "module"),
            ("STATE", "state"),
            ("NEEDS", "needs"),
            ("NEEDED", "needed_at"),
            ("APPLIED", "applied_at"),
        ],
        What::Nodes => &[
            ("NODE", "node"),
            ("NEEDS", "needs"),
            ("APPLIED", "applied"),
            ("COLLECT", "collect"),
            ("LAST WRITE", "last_write_at"),
            ("STALE", "stale"),
        ],
        What::Collections => &[
            ("NODE", "node"),
            ("COLLECTION", "collection"),
            ("STATE", "state"),
            ("CONTRIBUTORS", "contributors"),
            ("READERS", "readers"),
        ],
        What::Health => &[],
    }
}

impl View {
    /// The pages of one answer as text.
    pub(super) fn render(&self, what: What, pages: &[Received<'_>]) -> String {
        let mut text = String::new();
        if what == What::Health {
            for report in pages.iter().filter_map(|page| page.health.as_ref()) {
                render_report(&mut text, "", report);
            }
            return text;
        }
        let columns = columns(what);
        let rows: Vec<Vec<String>> = pages
            .iter()
            .flat_map(|page| &page.entries)
            .map(|entry| columns.iter().map(|(_, field)| self.cell(entry, field)).collect())
            .collect();
        if rows.is_empty() {
            text.push_str(match what {
                What::Gaps => "no gaps: every need has a kind that the registry answers\n",
                _ => "nothing there\n",
            });
        } else {
            let titles: Vec<String> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
            self.align(&mut text, &titles, &rows);
        }
        self.render_malformed(&mut text, pages);
        if let Some(next) = pages.last().and_then(|page| page.next.as_ref()) {
            writeln!(text, "\nthere is more: --all follows, or go on with --after {}", quote(next)).ok();
        }
        text
    }

    fn render_malformed(&self, text: &mut String, pages: &[Received<'_>]) {
        let total: usize = pages.iter().map(|page| page.malformed_total).sum();
        if total == 0 {
            return;
        }
        writeln!(text, "\n{}", self.paint().paint(Style::Yellow, &format!("malformed: {total}"))).ok();
        let rows: Vec<Vec<String>> = pages
            .iter()
            .flat_map(|page| &page.malformed)
            .map(|malformed| {
                ["key", "why", "at", "detail"].iter().map(|field| self.cell(malformed, field)).collect()
            })
            .collect();
        let titles = ["KEY", "WHY", "AGE", "DETAIL"].map(str::to_owned).to_vec();
        self.align(text, &titles, &rows);
        if total > rows.len() {
            writeln!(text, "and {} more", total - rows.len()).ok();
        }
    }

    /// What the column of `field` shows of an entry.
    fn cell(&self, entry: &Object<'_>, field: &str) -> String {
        let raw = |field: &str| entry.0.iter().find(|(name, _)| name == field).map(|(_, value)| value.get());
        let plain = |field: &str| {
            let text = entry.text(field).or_else(|| raw(field).map(str::to_owned));
            text.map(|text| escape(&text).into_owned())
        };
        let shown = match field {
            "at" | "last_write_at" | "needed_at" | "applied_at" => entry.text(field).map(|at| self.age(&at)),
            "value" => plain("value")
                .or_else(|| plain("text"))
                .or_else(|| plain("base64").map(|base64| format!("base64 {base64}"))),
            "where" => plain("verb")
                .map(|verb| format!("verb {verb}"))
                .or_else(|| {
                    let bucket = plain("bucket")?;
                    Some(format!("bucket {bucket}, key {}", plain("key")?))
                })
                .or_else(|| plain("value")),
            "contributors" | "readers" => raw(field).and_then(|list| {
                let names: Vec<String> = serde_json::from_str(list).ok()?;
                Some(escape(&names.join(", ")).into_owned())
            }),
            _ => plain(field),
        };
        shown.filter(|shown| !shown.is_empty()).unwrap_or_else(|| "-".to_owned())
    }

    /// How long ago `at` was; the time itself if it is not RFC 3339.
    fn age(&self, at: &str) -> String {
        match time::parse(at) {
            Ok(then) => duration(self.now.duration_since(then).unwrap_or_default()),
            Err(_) => at.to_owned(),
        }
    }

    fn align(&self, text: &mut String, titles: &[String], rows: &[Vec<String>]) {
        let length = |cell: &String| cell.chars().count();
        let mut widths: Vec<usize> = titles.iter().map(length).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(length(cell));
            }
        }
        if let Some(most) = self.width {
            let gaps = 2 * (widths.len() - 1);
            narrow(&mut widths, most.saturating_sub(gaps));
        }
        let paint = self.paint();
        let mut line = |cells: &[String], title: bool| {
            let mut shown = String::new();
            for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let cut = cut(cell, *width);
                let padding = width - cut.chars().count();
                let style = if title {
                    Style::Bold
                } else if NOT_WELL.contains(&cell.as_str()) {
                    Style::Yellow
                } else {
                    Style::Plain
                };
                shown.push_str(&paint.paint(style, &cut));
                if at + 1 < cells.len() {
                    shown.extend(std::iter::repeat_n(' ', padding + 2));
                }
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        };
        line(titles, true);
        for row in rows {
            line(row, false);
        }
    }

    fn paint(&self) -> Paint {
        Paint::of(self.width.is_some())
    }
}

/// States that want a look.
const NOT_WELL: [&str; 6] = ["never", "unapplied", "orphan", "unread", "unfed", "true"];

/// Takes width from the widest columns until all fit into `most`.
fn narrow(widths: &mut [usize], most: usize) {
    while widths.iter().sum::<usize>() > most {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else { return };
        *widest -= 1;
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let mut cut: String = cell.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// An age as people say it: its largest unit.
fn duration(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} m", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

/// A place as a shell takes it.
fn quote(place: &str) -> String {
    format!("'{}'", escape(place).replace('\'', r"'\''"))
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

    const PAGE: &str = r#"{"entries":[
        {"key":"a.w.port.http","node":"attic","module":"web","kind":"port","name":"http","value":{"port":8080},"revision":1,"at":"2023-11-14T22:12:20Z"},
        {"key":"c.d.secret.x","node":"cellar","module":"db","kind":"secret","name":"a\u001b[1m","text":"no json","revision":2,"at":"2023-11-14T20:00:00.5Z"}],
        "malformed":[{"key":"a.b","why":"shape","detail":"2 tokens where a need has 4"}],"malformed_total":3,"next":"it's"}"#;

    fn view(width: Option<usize>) -> View {
        View { width, now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) }
    }

    #[test]
    fn a_table_is_aligned_and_says_what_is_set_apart() {
        let page: Received<'_> = serde_json::from_str(PAGE).unwrap();
        assert_eq!(
            view(None).render(What::Needs, &[page]),
            concat!(
                "NODE    MODULE  KIND    NAME        AGE  VALUE\n",
                "attic   web     port    http        60 s  {\"port\":8080}\n",
                "cellar  db      secret  a\\u{1b}[1m  2 h   no json\n",
                "\n",
                "malformed: 3\n",
                "KEY  WHY    AGE  DETAIL\n",
                "a.b  shape  -    2 tokens where a need has 4\n",
                "and 2 more\n",
                "\n",
                "there is more: --all follows, or go on with --after 'it'\\''s'\n",
            )
            .replace("AGE  VALUE", "AGE   VALUE")
        );
    }

    #[test]
    fn a_narrow_terminal_takes_width_from_the_widest_columns() {
        let page: Received<'_> = serde_json::from_str(PAGE).unwrap();
        let text = view(Some(50)).render(What::Needs, &[page]);
        let plain: Vec<String> = text
            .lines()
            .map(|line| line.replace("\u{1b}[1m", "").replace("\u{1b}[33m", "").replace("\u{1b}[0m", ""))
            .collect();
        assert!(plain.iter().take(3).all(|line| line.chars().count() <= 50), "{plain:#?}");
        assert!(plain[1].contains('…'), "{plain:#?}");
    }

    #[test]
    fn ages_are_told_by_their_largest_unit() {
        let told = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|age| duration(Duration::from_secs(age)));
        assert_eq!(told, ["0 s", "119 s", "2 m", "119 m", "2 h", "47 h", "2 d"]);
    }
}

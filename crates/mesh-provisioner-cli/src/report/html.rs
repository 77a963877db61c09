//! HTML as text.

use std::borrow::Cow;

/// Text for the inside of an element or of a quoted attribute. What a browser would not show, such as a line break or
/// a change of direction, is shown as an escape.
pub(super) fn escape(text: &str) -> String {
    let visible: Cow<'_, str> = mesh_daemon::terminal::escape(text);
    let mut escaped = String::with_capacity(visible.len());
    for c in visible.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A table that scrolls sideways by itself, so that a narrow page does not. Cells are HTML.
pub(super) fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let title = |title: &&str| format!("<th scope=\"col\">{}</th>", escape(title));
    let titles = titles.iter().map(title).collect::<Vec<_>>().concat();
    let row = |cells: Vec<String>| format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>"));
    let rows = rows.map(row).collect::<Vec<_>>().concat();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A word with its colour: `good` or `bad`.
pub(super) fn mark(is_good: bool, word: &str) -> String {
    format!("<span class=\"{}\">{}</span>", if is_good { "good" } else { "bad" }, escape(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_become_markup() {
        assert_eq!(escape("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
        assert_eq!(escape("a\nb"), r"a\nb");
        let table = table(&["<b>"], [vec![mark(false, "<i>")]].into_iter());
        assert!(table.contains("<th scope=\"col\">&lt;b&gt;</th>"), "{table}");
        assert!(table.contains("<td><span class=\"bad\">&lt;i&gt;</span></td>"), "{table}");
    }
}

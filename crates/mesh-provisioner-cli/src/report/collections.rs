//! Collections as a graph: who contributes on the left, who reads on the right.

use super::html::{escape, mark};
use crate::query::CollectionRow;
use std::fmt::Write;

/// The height of a line of the graph, in units of the drawing.
const LINE: usize = 30;

/// Where the three columns begin, and the width of a box, in units of the drawing.
const COLUMNS: [usize; 3] = [0, 230, 460];
const BOX: usize = 180;
const WIDTH: usize = COLUMNS[2] + BOX;

/// How many letters fit into a box.
const LETTERS: usize = 24;

/// A drawing for each collection.
pub(super) fn render(rows: &[CollectionRow]) -> String {
    let mut html = String::new();
    for row in rows {
        let title = format!("{} on {}", row.collection, row.node);
        let state = match row.state.as_str() {
            "unread" => "unread: no module of this node reads it",
            "unfed" => "unfed: it is read, and no module contributes to it",
            other => other,
        };
        write!(
            html,
            "<figure><figcaption>{} {}</figcaption>\n{}</figure>\n",
            escape(&title),
            mark(row.state == "read", state),
            drawing(row, &title)
        )
        .ok();
    }
    html
}

fn drawing(row: &CollectionRow, title: &str) -> String {
    let lines = row.contributors.len().max(row.readers.len()).max(1);
    let height = lines * LINE;
    let middle = height / 2;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&format!("{title}: from {} to {}", words(&row.contributors), words(&row.readers)))
    );
    let place = |at: usize, of: usize| (2 * at + 1) * height / (2 * of);
    for (at, _) in row.contributors.iter().enumerate() {
        curve(&mut svg, (COLUMNS[0] + BOX, place(at, row.contributors.len())), (COLUMNS[1], middle));
    }
    for (at, _) in row.readers.iter().enumerate() {
        curve(&mut svg, (COLUMNS[1] + BOX, middle), (COLUMNS[2], place(at, row.readers.len())));
    }
    for (at, name) in row.contributors.iter().enumerate() {
        node(&mut svg, COLUMNS[0], place(at, row.contributors.len()), name, "module");
    }
    node(&mut svg, COLUMNS[1], middle, &row.collection, "collection");
    for (at, name) in row.readers.iter().enumerate() {
        node(&mut svg, COLUMNS[2], place(at, row.readers.len()), name, "module");
    }
    svg.push_str("</svg>\n");
    svg
}

fn words(names: &[String]) -> String {
    if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
}

fn curve(svg: &mut String, (x1, y1): (usize, usize), (x2, y2): (usize, usize)) {
    let half = usize::midpoint(x1, x2);
    writeln!(svg, "<path d=\"M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}\"/>").ok();
}

/// A box with a name, centred on `y`. A name that does not fit is cut, and whole in the tooltip.
fn node(svg: &mut String, x: usize, y: usize, name: &str, class: &str) {
    let shown: String = if name.chars().count() > LETTERS {
        name.chars().take(LETTERS - 1).chain(['…']).collect()
    } else {
        name.to_owned()
    };
    writeln!(
        svg,
        "<g class=\"{class}\"><title>{}</title><rect x=\"{x}\" y=\"{}\" width=\"{BOX}\" height=\"24\" rx=\"5\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
        escape(name),
        y.saturating_sub(12),
        x + BOX / 2,
        y + 4,
        escape(&shown)
    )
    .ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contributor_and_reader_is_tied_to_the_collection() {
        let row = CollectionRow {
            node: "attic".to_owned(),
            collection: "shell:zsh".to_owned(),
            state: "read".to_owned(),
            contributors: vec!["web".to_owned(), "db".to_owned()],
            readers: vec!["shell".to_owned()],
        };
        let html = render(&[row]);
        assert_eq!(html.matches("<path ").count(), 3);
        assert_eq!(html.matches("class=\"module\"").count(), 3);
        assert!(html.contains("aria-label=\"shell:zsh on attic: from web, db to shell\""), "{html}");
        // Both contributors on lines of their own, the collection between them.
        for end in ["M180 15C", "M180 45C", " 230 30\"", "M410 30C"] {
            assert!(html.contains(end), "{end} is not in {html}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_whole_in_the_tooltip() {
        let name = "a-module-with-a-very-long-name";
        let mut svg = String::new();
        node(&mut svg, 0, 12, name, "module");
        assert!(
            svg.contains(&format!("<title>{name}</title>")) && svg.contains(">a-module-with-a-very-lo…<"),
            "{svg}"
        );
    }
}

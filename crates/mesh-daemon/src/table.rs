//! Tables: aligned columns that fit the screen.

use crate::screen::{Screen, cells, cut};
use crate::terminal::Style;

/// A column gets no narrower than this, as long as that is enough.
const NARROWEST: usize = 8;

/// The text between two columns.
const GAP: usize = 2;

/// A table for people and for simple programs.
#[derive(Debug, Default)]
pub struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Cells are shown whole, however wide that is.
    pub is_whole: bool,
    /// The line of titles is left out.
    pub is_bare: bool,
}

/// One cell, whose text is safe on a terminal.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// How it is painted.
    pub style: Style,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell { text, style: Style::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::from(text.to_owned())
    }
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Self {
        Table { titles: titles.into_iter().map(Into::into).collect(), ..Table::default() }
    }

    /// Adds a row of as many cells as there are titles.
    pub fn row<T: Into<Cell>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Keeps the first rows alone.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// The table as text.
    pub fn render(&self, screen: Screen) -> String {
        let mut widths: Vec<usize> =
            self.titles.iter().map(|title| if self.is_bare { 0 } else { cells(title) }).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cells(&cell.text));
            }
        }
        if let Some(most) = screen.width.filter(|_| !self.is_whole) {
            let gaps = GAP * widths.len().saturating_sub(1);
            narrow(&mut widths, most.saturating_sub(gaps));
        }
        let mut text = String::new();
        let mut line = |row: &[Cell]| {
            let mut padding = 0;
            for (cell, width) in row.iter().zip(&widths) {
                if cell.text.is_empty() {
                    padding += width + GAP;
                    continue;
                }
                let cut = cut(&cell.text, *width);
                text.extend(std::iter::repeat_n(' ', padding));
                padding = width - cells(&cut) + GAP;
                text.push_str(&screen.paint.paint(cell.style, &cut));
            }
            text.push('\n');
        };
        if !self.is_bare {
            let title = |title: &String| Cell { text: title.clone(), style: Style::Bold };
            line(&self.titles.iter().map(title).collect::<Vec<_>>());
        }
        for row in &self.rows {
            line(row);
        }
        text
    }
}

/// Takes width from the widest columns until all fit into `most`.
fn narrow(widths: &mut [usize], most: usize) {
    for least in [NARROWEST, 1] {
        while widths.iter().sum::<usize>() > most {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > least) else { break };
            *widest -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;

    fn table() -> Table {
        let mut table = Table::new(["NODE", "KIND", "VALUE"]);
        table.row(["attic", "port", "8080"]);
        table.row(["屋根裏", "se\u{301}cret", "a long value of many words"]);
        table
    }

    fn screen(width: Option<usize>) -> Screen {
        Screen { width, paint: Paint::of(false) }
    }

    #[test]
    fn columns_are_aligned_by_cells() {
        assert_eq!(
            table().render(screen(None)),
            "NODE    KIND    VALUE\nattic   port    8080\n屋根裏  se\u{301}cret  a long value of many words\n"
        );
    }

    #[test]
    fn nothing_is_wider_than_the_screen() {
        for width in [12, 20, 26, 40] {
            let text = table().render(screen(Some(width)));
            assert!(text.lines().all(|line| cells(line) <= width), "{width}:\n{text}");
        }
        assert!(table().render(screen(Some(26))).contains('…'));
        let whole = Table { is_whole: true, ..table() };
        assert_eq!(whole.render(screen(Some(26))), table().render(screen(None)));
    }

    #[test]
    fn without_titles_they_take_no_width() {
        let bare = Table { is_bare: true, ..table() };
        assert_eq!(bare.render(screen(None)).lines().next(), Some("attic   port    8080"));
    }
}

//! Which rows of an answer are shown, and in which form.

/// In which form an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Columns that fit the screen.
    Table,
    /// All columns, whole.
    Wide,
    /// A key or names, one entry a line.
    Name,
    /// As it came.
    Json,
}

const FORMS: [(&str, Form); 4] =
    [("table", Form::Table), ("wide", Form::Wide), ("name", Form::Name), ("json", Form::Json)];

pub(super) fn parse_form(word: &str) -> Result<Form, String> {
    let known = FORMS.iter().find(|(name, _)| *name == word).map(|(_, form)| *form);
    known.ok_or_else(|| format!("{word:?} is not a form of output; it can be table, wide, name or json"))
}

/// Which rows of an answer are shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// Those in one of these states.
    pub(super) states: Option<Vec<String>>,
    /// Those that are not well.
    pub(super) not_ok: bool,
}

impl Rows {
    pub(super) const fn are_all(&self) -> bool {
        self.states.is_none() && !self.not_ok
    }
}

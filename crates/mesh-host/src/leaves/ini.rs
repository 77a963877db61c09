//! Leaves of INI: a name, or a section and a name. Comments, order and layout stay.

use super::Leaf;

pub(super) struct Document(Vec<String>);

/// What a line is.
enum Line<'l> {
    Section(&'l str),
    Value(&'l str, &'l str),
    Other,
}

fn kind(line: &str) -> Line<'_> {
    let trimmed = line.trim();
    if let Some(section) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Line::Section(section.trim());
    }
    match trimmed.split_once('=') {
        Some((name, value)) if !trimmed.starts_with(['#', ';']) => Line::Value(name.trim(), value.trim()),
        _ => Line::Other,
    }
}

impl super::Document for Document {
    fn read(text: &str) -> Result<Self, String> {
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            let is_blank =
                trimmed.is_empty() || trimmed.starts_with(['#', ';']) || line.starts_with([' ', '\t']);
            if !is_blank && matches!(kind(line), Line::Other) {
                return Err(format!("see line {number}"));
            }
        }
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    fn leaves(&self) -> Vec<Leaf> {
        let mut section = None;
        let mut leaves = Vec::new();
        for line in &self.0 {
            match kind(line) {
                Line::Section(name) => section = Some(name.to_owned()),
                Line::Value(name, value) => {
                    let path = section.iter().cloned().chain([name.to_owned()]).collect();
                    leaves.push((path, value.to_owned()));
                }
                Line::Other => {}
            }
        }
        leaves
    }

    fn get(&self, path: &[String]) -> Option<String> {
        self.leaves().into_iter().find(|(known, _)| known == path).map(|(_, value)| value)
    }

    fn existing(&self, path: &[String]) -> usize {
        if self.get(path).is_some() {
            return path.len();
        }
        match path {
            [section, _] => usize::from(self.section(section).is_some()),
            _ => 0,
        }
    }

    fn set(&mut self, path: &[String], value: &str) -> Result<(), String> {
        let (section, name) = match path {
            [name] => (None, name),
            [section, name] => (Some(section), name),
            _ => return Err("INI has sections and names, and nothing below them".to_owned()),
        };
        let line = format!("{name} = {value}");
        if let Some(place) = self.place(path) {
            self.0[place] = line;
            return Ok(());
        }
        let start = match section {
            None => 0,
            Some(section) => self.section(section).map_or_else(|| self.append(section), |place| place + 1),
        };
        let end = self.0[start..].iter().position(|line| matches!(kind(line), Line::Section(_)));
        let mut at = end.map_or(self.0.len(), |end| start + end);
        // Behind the last line of the section that says something.
        while at > start && self.0[at - 1].trim().is_empty() {
            at -= 1;
        }
        self.0.insert(at, line);
        Ok(())
    }

    fn remove(&mut self, path: &[String], existing: usize) {
        if let Some(place) = self.place(path) {
            self.0.remove(place);
        }
        let ([section, _], 0) = (path, existing) else { return };
        if self.leaves().iter().any(|(known, _)| known.len() == 2 && known[0] == *section) {
            return;
        }
        if let Some(place) = self.section(section) {
            self.0.remove(place);
            if place > 0 && self.0[place - 1].trim().is_empty() {
                self.0.remove(place - 1);
            }
        }
    }

    fn write(&self) -> String {
        let mut text = self.0.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Document {
    /// Adds a section at the end; returns the line after its head.
    fn append(&mut self, section: &str) -> usize {
        if self.0.last().is_some_and(|last| !last.trim().is_empty()) {
            self.0.push(String::new());
        }
        self.0.push(format!("[{section}]"));
        self.0.len()
    }

    /// The line of a section's head.
    fn section(&self, section: &str) -> Option<usize> {
        self.0.iter().position(|line| matches!(kind(line), Line::Section(name) if name == section))
    }

    /// The line of a leaf.
    fn place(&self, path: &[String]) -> Option<usize> {
        let mut section: Option<&str> = None;
        self.0.iter().position(|line| match (kind(line), path) {
            (Line::Section(name), _) => {
                section = Some(name);
                false
            }
            (Line::Value(name, _), [wanted]) => section.is_none() && name == wanted,
            (Line::Value(name, _), [of, wanted]) => section == Some(of.as_str()) && name == wanted,
            _ => false,
        })
    }
}

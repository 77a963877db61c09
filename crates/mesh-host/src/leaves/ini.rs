//! Leaves of INI: a name, or a section and a name. Comments, order and layout stay. Lines that are indented deeper than
//! the value above them belong to it.

use super::Leaf;
use std::ops::Range;

pub(super) struct Document(Vec<String>);

/// What a line is.
enum Line<'l> {
    Section(&'l str),
    Value(&'l str, &'l str),
    /// One more line of the value above it.
    Further(&'l str),
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
        let mut leaves: Vec<Leaf> = Vec::new();
        for line in self.lines() {
            match line {
                Line::Section(name) => section = Some(name.to_owned()),
                Line::Value(name, value) => {
                    let path = section.iter().cloned().chain([name.to_owned()]).collect();
                    leaves.push((path, value.to_owned()));
                }
                Line::Further(line) => {
                    if let Some((_, value)) = leaves.last_mut() {
                        value.push('\n');
                        value.push_str(line);
                    }
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
        let blank = if value.starts_with('\n') { "" } else { " " };
        let text = format!("{name} ={blank}{value}");
        let lines = text.split('\n').map(str::to_owned);
        if let Some(place) = self.place(path) {
            self.0.splice(place, lines);
            return Ok(());
        }
        let start = match section {
            None => 0,
            Some(section) => self.section(section).map_or_else(|| self.append(section), |place| place + 1),
        };
        let end = self.lines().skip(start).position(|line| matches!(line, Line::Section(_)));
        let mut at = end.map_or(self.0.len(), |end| start + end);
        // Behind the last line of the section that says something.
        while at > start && self.0[at - 1].trim().is_empty() {
            at -= 1;
        }
        self.0.splice(at..at, lines);
        Ok(())
    }

    fn remove(&mut self, path: &[String], existing: usize) {
        if let Some(place) = self.place(path) {
            self.0.drain(place);
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

    /// The lines, each known by those above it.
    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut above: Option<usize> = None;
        self.0.iter().map(move |line| {
            let indent = line.len() - line.trim_start().len();
            if !line.trim().is_empty() && above.is_some_and(|above| indent > above) {
                return Line::Further(line);
            }
            let kind = kind(line);
            above = matches!(kind, Line::Value(..)).then_some(indent);
            kind
        })
    }

    /// The line of a section's head.
    fn section(&self, section: &str) -> Option<usize> {
        self.lines().position(|line| matches!(line, Line::Section(name) if name == section))
    }

    /// The lines of a leaf.
    fn place(&self, path: &[String]) -> Option<Range<usize>> {
        let mut section: Option<&str> = None;
        let start = self.lines().position(|line| match (line, path) {
            (Line::Section(name), _) => {
                section = Some(name);
                false
            }
            (Line::Value(name, _), [wanted]) => section.is_none() && name == wanted,
            (Line::Value(name, _), [of, wanted]) => section == Some(of.as_str()) && name == wanted,
            _ => false,
        })?;
        let further = self.lines().skip(start + 1).take_while(|line| matches!(line, Line::Further(_)));
        Some(start..start + 1 + further.count())
    }
}

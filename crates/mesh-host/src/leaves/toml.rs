//! Leaves of TOML. Comments, order and layout stay.

use super::Leaf;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

pub(super) struct Document(DocumentMut);

impl super::Document for Document {
    fn read(text: &str) -> Result<Self, String> {
        text.parse::<DocumentMut>().map(Self).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start].split('\n').count());
            format!("see line {line}")
        })
    }

    fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        gather(self.0.as_table(), &mut Vec::new(), &mut leaves);
        leaves
    }

    fn get(&self, path: &[String]) -> Option<String> {
        let (name, tables) = path.split_last()?;
        let mut at: &dyn TableLike = self.0.as_table();
        for name in tables {
            at = at.get(name)?.as_table_like()?;
        }
        at.get(name).and_then(value)
    }

    fn existing(&self, path: &[String]) -> usize {
        let mut at: Option<&dyn TableLike> = Some(self.0.as_table());
        path.iter()
            .take_while(|name| match at.and_then(|table| table.get(name)) {
                Some(item) => {
                    at = item.as_table_like();
                    true
                }
                None => false,
            })
            .count()
    }

    fn set(&mut self, path: &[String], value: &str) -> Result<(), String> {
        let value: Value = value.parse().map_err(|_| "a value is not TOML".to_owned())?;
        let Some((name, tables)) = path.split_last() else { return Ok(()) };
        let mut at: &mut dyn TableLike = self.0.as_table_mut();
        for (depth, name) in tables.iter().enumerate() {
            let item = at.entry(name).or_insert_with(|| Item::Table(Table::new()));
            at = item.as_table_like_mut().ok_or_else(|| {
                let shown = path[..=depth].join(".");
                format!("{shown} is a value in the file, and the content has a table there")
            })?;
        }
        match at.get_mut(name).and_then(Item::as_value_mut) {
            Some(there) => {
                let decor = there.decor().clone();
                *there = value;
                *there.decor_mut() = decor;
            }
            None => drop(at.insert(name, Item::Value(value))),
        }
        Ok(())
    }

    fn remove(&mut self, path: &[String], existing: usize) {
        remove(self.0.as_table_mut(), path, existing);
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// A value as it is; tables, and lists of them, as they are written in one line.
fn value(item: &Item) -> Option<String> {
    item.clone().into_value().ok().map(|value| shown(&value))
}

fn shown(value: &Value) -> String {
    let mut value = value.clone();
    value.decor_mut().clear();
    value.to_string()
}

fn gather(table: &dyn TableLike, path: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    for (name, item) in table.iter() {
        path.push(name.to_owned());
        match item {
            Item::Table(inner) => gather(inner, path, leaves),
            leaf => leaves.extend(value(leaf).map(|value| (path.clone(), value))),
        }
        path.pop();
    }
}

/// Removes a leaf; a table below the first `existing` names that is empty then goes with it.
fn remove(table: &mut dyn TableLike, path: &[String], existing: usize) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.remove(name);
        return;
    }
    let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) else { return };
    remove(inner, rest, existing.saturating_sub(1));
    if existing == 0 && inner.is_empty() {
        table.remove(name);
    }
}

//! What it means that nothing was found: that all is well, or that a filter names something that is not there.

use crate::query::{CollectionRow, KindRow, ModuleRow, NoAnswer, NodeRow, Seat, about};
use mesh_daemon::arguments::nearest;
use mesh_provisioner_api::request::{self, What};
use std::collections::BTreeSet;

/// How many known names are listed where none is near.
const LISTED: usize = 12;

/// What it means.
#[derive(Debug)]
pub(super) struct Nothing {
    /// The sentence for the person.
    pub(super) sentence: String,
    /// Every filter names something that is there, or there is no filter.
    pub(super) is_well: bool,
}

/// Says why `ask` found nothing. Asks the seat for the names that there are.
pub(super) fn explain(seat: &mut Seat, ask: &request::Ask) -> Result<Nothing, NoAnswer> {
    if let Some(sentence) = unknown(seat, ask)? {
        return Ok(Nothing { sentence, is_well: false });
    }
    let filters = [&ask.node, &ask.module, &ask.kind, &ask.collection];
    let is_narrowed = filters.iter().any(|filter| filter.is_some());
    let scope = scope(ask);
    Ok(match ask.what {
        What::Gaps => Nothing {
            sentence: format!(
                "no gaps{scope}: every need has a kind that the registry answers, and none waits"
            ),
            is_well: true,
        },
        what if ask.after.is_some() => {
            Nothing { sentence: format!("{} has no more{scope}", what.word()), is_well: true }
        }
        what => Nothing {
            sentence: format!("{} has nothing{}", what.word(), if is_narrowed { &scope } else { " yet" }),
            is_well: !is_narrowed,
        },
    })
}

/// What a question is narrowed to, in words: ` for node attic, module web`.
pub(super) fn scope(ask: &request::Ask) -> String {
    let parts =
        [("node", &ask.node), ("module", &ask.module), ("kind", &ask.kind), ("collection", &ask.collection)];
    let parts: Vec<String> =
        parts.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))).collect();
    let narrowed = if parts.is_empty() { String::new() } else { format!(" for {}", parts.join(", ")) };
    match &ask.after {
        Some(after) => format!("{narrowed} after {after}"),
        None => narrowed,
    }
}

/// The first filter that names nothing that is there, in a sentence.
fn unknown(seat: &mut Seat, ask: &request::Ask) -> Result<Option<String>, NoAnswer> {
    if let Some(kind) = &ask.kind {
        let kinds = kinds(seat)?;
        if !kinds.contains(kind) {
            return Ok(Some(not_there("the registry has no kind", kind, &kinds)));
        }
    }
    if let Some(node) = &ask.node
        && let Some(sentence) = unknown_node(seat, node)?
    {
        return Ok(Some(sentence));
    }
    let node = ask.node.as_deref();
    if let Some(collection) = &ask.collection {
        let rows: Vec<CollectionRow> = seat.all(&about(What::Collections, node, None))?.entries;
        let names: BTreeSet<String> = rows.into_iter().map(|row| row.collection).collect();
        if !names.contains(collection) {
            return Ok(Some(not_there(&format!("{} no collection", has(node)), collection, &names)));
        }
    }
    match &ask.module {
        Some(module) => unknown_module(seat, node, module),
        None => Ok(None),
    }
}

fn has(node: Option<&str>) -> String {
    node.map_or_else(|| "the mesh has".to_owned(), |node| format!("{node} has"))
}

/// A sentence, if no node is called `name`.
pub(crate) fn unknown_node(seat: &mut Seat, name: &str) -> Result<Option<String>, NoAnswer> {
    let rows: Vec<NodeRow> = seat.all(&about(What::Nodes, Some(name), None))?.entries;
    if !rows.is_empty() {
        return Ok(None);
    }
    let names = nodes(seat)?;
    Ok((!names.contains(name)).then(|| not_there("the mesh has no node", name, &names)))
}

/// A sentence, if no module of `node`, or of any node, is called `name`.
pub(crate) fn unknown_module(
    seat: &mut Seat,
    node: Option<&str>,
    name: &str,
) -> Result<Option<String>, NoAnswer> {
    let names = modules(seat, node)?;
    Ok((!names.contains(name)).then(|| not_there(&format!("{} no module", has(node)), name, &names)))
}

/// The nodes' names.
pub(crate) fn nodes(seat: &mut Seat) -> Result<BTreeSet<String>, NoAnswer> {
    let rows: Vec<NodeRow> = seat.all(&about(What::Nodes, None, None))?.entries;
    Ok(rows.into_iter().map(|row| row.node).collect())
}

/// The names of the modules of a node, or of all: those that need, have applied, or contribute.
pub(crate) fn modules(seat: &mut Seat, node: Option<&str>) -> Result<BTreeSet<String>, NoAnswer> {
    let rows: Vec<ModuleRow> = seat.all(&about(What::Drift, node, None))?.entries;
    let collections: Vec<CollectionRow> = seat.all(&about(What::Collections, node, None))?.entries;
    let contributors = collections.into_iter().flat_map(|row| row.contributors);
    Ok(rows.into_iter().map(|row| row.module).chain(contributors).collect())
}

/// The kinds of the registry.
pub(crate) fn kinds(seat: &mut Seat) -> Result<BTreeSet<String>, NoAnswer> {
    let rows: Vec<KindRow> = seat.all(&about(What::Registry, None, None))?.entries;
    Ok(rows.into_iter().map(|row| row.kind).collect())
}

/// That something is not there, with what was probably meant or what there is.
pub(crate) fn not_there(what: &str, name: &str, known: &BTreeSet<String>) -> String {
    let near = nearest(name, known.iter().map(String::as_str));
    let hint = match (&near[..], known.len()) {
        ([], 0) => "there is none yet".to_owned(),
        ([], 1..=LISTED) => {
            format!("there are {}", known.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        ([], many) => format!("there are {many} others"),
        (near, _) => format!("did you mean {}?", near.join(" or ")),
    };
    format!("{what} {name:?}: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_names_every_filter() {
        let mut ask = about(What::Gaps, Some("attic"), Some("web"));
        assert_eq!(scope(&ask), " for node attic, module web");
        ask.after = Some("z".to_owned());
        assert_eq!(scope(&ask), " for node attic, module web after z");
        assert_eq!(scope(&request::Ask::new(What::Gaps)), "");
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let known: BTreeSet<String> = ["attic", "cellar"].map(str::to_owned).into();
        let said = |name: &str| not_there("the mesh has no node", name, &known);
        assert_eq!(said("Attic"), "the mesh has no node \"Attic\": did you mean attic?");
        assert_eq!(said("x"), "the mesh has no node \"x\": there are attic, cellar");
        assert_eq!(
            not_there("the mesh has no node", "x", &BTreeSet::new()),
            "the mesh has no node \"x\": there is none yet"
        );
        let many: BTreeSet<String> = (0..20).map(|at| format!("node-number-{at}")).collect();
        assert_eq!(
            not_there("the mesh has no node", "x", &many),
            "the mesh has no node \"x\": there are 20 others"
        );
    }
}

//! The verbs that read: how the mesh stands, and what a push would change. Both are what the commands of these names say.

use crate::compose::compose;
use crate::compose::reason::Acts;
use crate::plan::{Plan, plan};
use crate::serve::task::Reading;
use crate::serve::wire::VERBS;
use crate::standing::{outstanding, read_reports};
use crate::status::{Known, status};
use crate::store::{Error, Moment, Store, acts, identity, nodes, sent, time_of};
use crate::{rekey, snapshot};
use mesh_daemon::time::rfc3339;
use serde_json::{Value, json};

/// The body of the answer. The request is empty, or `{"node":"attic"}`.
pub fn read(store: &Store, verb: Reading, body: &[u8], at: Moment) -> Result<String, Error> {
    let node = node(body)?;
    if let Some(node) = &node {
        nodes::expect(store.inventory(), node)?;
    }
    let mut answer = match verb {
        Reading::Plan => {
            let snapshot = snapshot::read(store.inventory(), store.identity())?;
            let sent = sent::all(store.inventory())?;
            let mut plan = plan(&compose(&snapshot), &sent, node.as_deref());
            rekey::put(&mut plan, rekey::notes(&snapshot, &identity::tokens(store.identity())?, at));
            told(&plan, &acts_of(store)?)
        }
        Reading::Status => {
            let reports = read_reports(store)?;
            let mut outstanding = outstanding(store, &reports)?;
            if let Some(only) = &node {
                outstanding.retain(|node, _| node == only);
            }
            let declarations = sent::declarations(store.inventory())?;
            let undone = sent::count_undone(store.inventory())?;
            let joined = identity::node_keys(store.identity())?.into_iter().map(|keys| keys.node).collect();
            let known = Known {
                outstanding: &outstanding,
                declarations: &declarations,
                undone: &undone,
                reports: &reports,
                joined: &joined,
                now: at,
            };
            serde_json::to_value(status(&known)).map_err(|why| Error::Broken(why.to_string()))?
        }
    };
    let schema = VERBS[if verb == Reading::Status { 1 } else { 2 }].response_schema;
    answer["type"] = schema.into();
    Ok(answer.to_string())
}

fn node(body: &[u8]) -> Result<Option<String>, Error> {
    let wrong = || Error::Refused(r#"the request is neither empty nor {"node":NAME}"#.into());
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return Err(wrong()) };
    match (fields.len(), fields.get("node")) {
        (0, _) => Ok(None),
        (1, Some(Value::String(node))) => Ok(Some(node.clone())),
        _ => Err(wrong()),
    }
}

fn acts_of(store: &Store) -> Result<Acts, Error> {
    let words = |act: acts::Done| (act.id, format!("{} {} by {}", act.command, act.what, act.who));
    Ok(acts::since(store.inventory(), 0)?.into_iter().map(words).collect())
}

fn told(plan: &Plan, acts: &Acts) -> Value {
    let at = |moment: Moment| rfc3339(time_of(moment));
    let nodes = plan.nodes.iter().map(|(node, change)| {
        let lines = change.lines.iter().map(|line| {
            json!({"module": line.module, "path": line.path, "old": line.old, "new": line.new,
                "why": line.why.as_ref().map(|why| why.tell(acts, &at))})
        });
        json!({"node": node, "base": change.base, "differs": change.differs(),
            "lines": lines.collect::<Vec<Value>>(), "problems": change.problems, "notes": change.notes})
    });
    json!({"digest": plan.digest().to_string(), "differs": plan.differs(), "nodes": nodes.collect::<Vec<Value>>()})
}

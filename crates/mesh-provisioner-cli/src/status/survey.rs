//! What the seat says of the whole mesh.

use crate::query::{CollectionRow, Health, Malformed, ModuleRow, Need, NoAnswer, NodeRow, Seat, about};
use mesh_daemon::time;
use mesh_provisioner_api::request::{self, What};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// A need may wait this long before that is not well: values take a moment to arrive.
const WAITED_TOO_LONG: Duration = Duration::from_secs(60);

/// The whole mesh.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) health: Health,
    pub(crate) modules: Vec<ModuleRow>,
    /// Needs whose kind nobody answers.
    pub(crate) gaps: Vec<Need>,
    /// Needs that wait for a value.
    pub(crate) waiting: Vec<Need>,
    pub(crate) nodes: Vec<NodeRow>,
    /// How long without a write makes a node stale, if it was asked for.
    pub(crate) stale_after: Option<Duration>,
    pub(crate) collections: Vec<CollectionRow>,
    /// Malformed keys in all three buckets of the nodes.
    pub(crate) malformed: usize,
    /// Those that can be told apart.
    pub(crate) malformed_keys: Vec<Malformed>,
    pub(crate) now: SystemTime,
}

impl Survey {
    /// Asks the seat everything.
    pub(crate) fn make(
        seat: &mut Seat,
        stale_after: Option<Duration>,
        now: SystemTime,
    ) -> Result<Self, NoAnswer> {
        let all = |what| about(what, None, None);
        let nodes = request::Ask { stale_after: stale_after.map(|time| time.as_secs()), ..all(What::Nodes) };
        let health = seat.health()?;
        let nodes = seat.all(&nodes)?;
        let gaps = seat.all::<Need>(&all(What::Gaps))?.entries.into_iter();
        let (waiting, gaps) = gaps.partition(|need| need.gap.as_deref() == Some("waiting"));
        Ok(Survey {
            health,
            modules: seat.all(&all(What::Drift))?.entries,
            gaps,
            waiting,
            stale_after,
            collections: seat.all(&all(What::Collections))?.entries,
            malformed: nodes.malformed_total,
            malformed_keys: nodes.malformed,
            nodes: nodes.entries,
            now,
        })
    }

    /// Whether all is well.
    pub(crate) fn is_ok(&self) -> bool {
        self.health.ready
            && self.modules.iter().all(|module| module.state == "current")
            && self.gaps.is_empty()
            && !self.waiting.iter().any(|need| self.waits_long(need))
            && self.stale().next().is_none()
            && self.collections.iter().all(|collection| collection.state == "read")
            && self.malformed == 0
    }

    /// How long ago a time of the bus was.
    pub(crate) fn age(&self, at: &str) -> Duration {
        time::parse(at).ok().and_then(|then| self.now.duration_since(then).ok()).unwrap_or_default()
    }

    /// Whether a need waits for longer than values take to arrive.
    pub(crate) fn waits_long(&self, need: &Need) -> bool {
        self.age(&need.at) > WAITED_TOO_LONG
    }

    /// The nodes that are stale.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &NodeRow> {
        self.nodes.iter().filter(|node| node.stale == Some(true))
    }

    /// How many modules are in each state, or collections.
    pub(crate) fn count<'a>(states: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
        let mut counts = BTreeMap::new();
        for state in states {
            *counts.entry(state).or_default() += 1;
        }
        counts
    }

    /// The nodes with malformed keys, and how many; the last is for keys that name no node.
    pub(crate) fn malformed_by_node(&self) -> (Vec<(&str, usize)>, usize) {
        let those = self.nodes.iter().filter(|node| node.malformed > 0);
        let those: Vec<(&str, usize)> = those.map(|node| (node.node.as_str(), node.malformed)).collect();
        let named = those.iter().map(|(_, number)| number).sum();
        let rest = self.malformed.saturating_sub(named);
        (those, rest)
    }

    /// As one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let (malformed, rest) = self.malformed_by_node();
        let need = |need: &Need| json!({"key": need.key, "node": need.node, "module": need.module, "kind": need.kind, "name": need.name, "at": need.at});
        let waiting = self.waiting.iter().map(|waiting| {
            let mut json = need(waiting);
            json["why"] = json!(waiting.why);
            json
        });
        let modules = self.modules.iter().filter(|module| module.state != "current").map(|module| {
            json!({"node": module.node, "module": module.module, "state": module.state, "needs": module.needs,
                   "needed_at": module.needed_at, "applied_at": module.applied_at})
        });
        let collections = self
            .collections
            .iter()
            .filter(|collection| collection.state != "read")
            .map(|row| json!({"node": row.node, "collection": row.collection, "state": row.state}));
        let status = json!({
            "ok": self.is_ok(),
            "seat": {
                "ready": self.health.ready, "missing": self.health.missing, "server": self.health.server,
                "uptime_seconds": self.health.uptime_seconds,
                "id": self.health.seat.as_ref().map(|seat| &seat.id),
                "version": self.health.seat.as_ref().map(|seat| &seat.version),
            },
            "modules": Survey::count(self.modules.iter().map(|module| module.state.as_str())),
            "not_current": modules.collect::<Vec<_>>(),
            "gaps": self.gaps.iter().map(need).collect::<Vec<_>>(),
            "waiting": waiting.collect::<Vec<_>>(),
            "nodes": self.nodes.len(),
            "stale": self.stale().map(|node| &node.node).collect::<Vec<_>>(),
            "collections": Survey::count(self.collections.iter().map(|row| row.state.as_str())),
            "not_read": collections.collect::<Vec<_>>(),
            "malformed": malformed.into_iter().collect::<BTreeMap<_, _>>(),
            "malformed_without_node": rest,
        });
        format!("{status}\n")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const AT: &str = "2023-11-14T22:11:20Z";

    /// A mesh in which something of each kind is not well.
    pub(crate) fn survey() -> Survey {
        let health = r#"{"ready":true,"missing":[],"server":"nats://h:4222","uptime_seconds":7200,"other_seats":[],"counters":{"requests":5}}"#;
        let module = |node: &str, module: &str, state: &str, applied: Option<&str>| ModuleRow {
            node: node.to_owned(),
            module: module.to_owned(),
            state: state.to_owned(),
            needs: 3,
            needed_at: Some(AT.to_owned()),
            applied_at: applied.map(str::to_owned),
        };
        let need = |node: &str, kind: &str| -> Need {
            serde_json::from_str(&format!(
                r#"{{"key":"{node}.web.{kind}.x","node":"{node}","module":"web","kind":"{kind}","name":"x","revision":1,"at":"{AT}"}}"#
            ))
            .unwrap()
        };
        let node = |name: &str, malformed: usize, stale: Option<bool>| NodeRow {
            node: name.to_owned(),
            malformed,
            age_seconds: Some(120),
            stale,
        };
        Survey {
            health: serde_json::from_str(health).unwrap(),
            modules: vec![
                module("attic", "web", "current", Some(AT)),
                module("attic", "backup", "never", None),
                module("cellar", "web", "unapplied", Some(AT)),
            ],
            gaps: vec![need("attic", "licence")],
            waiting: vec![Need { why: Some("no responder".to_owned()), ..need("cellar", "secret") }],
            nodes: vec![node("attic", 2, Some(false)), node("cellar", 0, Some(true))],
            stale_after: Some(Duration::from_secs(60)),
            collections: vec![CollectionRow {
                node: "attic".to_owned(),
                collection: "motd".to_owned(),
                state: "unfed".to_owned(),
                contributors: vec![],
                readers: vec!["web".to_owned()],
            }],
            malformed: 3,
            malformed_keys: vec![Malformed {
                key: "attic.web.port".to_owned(),
                detail: "3 tokens where a need has 4".to_owned(),
            }],
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        }
    }

    /// One in which all is well.
    pub(crate) fn well() -> Survey {
        let mut well = Survey {
            gaps: vec![],
            waiting: vec![],
            collections: vec![],
            malformed: 0,
            malformed_keys: vec![],
            ..survey()
        };
        well.modules.truncate(1);
        for node in &mut well.nodes {
            (node.malformed, node.stale) = (0, Some(false));
        }
        well
    }

    #[test]
    fn each_thing_that_is_wrong_is_enough() {
        assert!(well().is_ok());
        let wrong: [fn(Survey) -> Survey; 7] = [
            |well| Survey { gaps: survey().gaps, ..well },
            |well| Survey { waiting: survey().waiting, ..well },
            |well| Survey { nodes: survey().nodes, ..well },
            |well| Survey { collections: survey().collections, ..well },
            |well| Survey { malformed: 1, ..well },
            |well| Survey { modules: survey().modules, ..well },
            |well| Survey { health: Health { ready: false, ..well.health }, ..well },
        ];
        assert!(wrong.into_iter().all(|wrong| !wrong(well()).is_ok()));
        // A value takes a moment to arrive.
        let young = |mut survey: Survey| {
            survey.now -= Duration::from_secs(60);
            survey
        };
        assert!(young(Survey { waiting: survey().waiting, ..well() }).is_ok());
    }

    #[test]
    fn malformed_keys_that_name_no_node_are_counted_apart() {
        assert_eq!(survey().malformed_by_node(), (vec![("attic", 2)], 1));
    }

    #[test]
    fn json_says_the_same() {
        let status: serde_json::Value = serde_json::from_str(&survey().to_json()).unwrap();
        assert_eq!(status["ok"], false);
        assert_eq!(status["modules"], json!({"current": 1, "never": 1, "unapplied": 1}));
        assert_eq!(status["waiting"][0]["why"], "no responder");
        assert_eq!(status["malformed"], json!({"attic": 2}));
        assert_eq!(status["stale"], json!(["cellar"]));
    }
}

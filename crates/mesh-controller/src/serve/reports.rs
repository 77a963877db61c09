//! Reports of nodes on their way to the store: of each node the newest, and of all together only this many bytes.

use crate::serve::task::Report;
use mesh_model::digest::Digest;
use mesh_model::report;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many bytes may wait for the store. What does not fit is read again once the store has taken those.
pub const MAX_WAITING: usize = 16 * 1024 * 1024;

/// When all reports are listed again after the store has failed.
const AGAIN: Duration = Duration::from_secs(5);

/// The reports that wait.
#[derive(Debug, Default)]
pub struct Reports {
    /// By node.
    waiting: BTreeMap<String, (u64, Vec<u8>)>,
    bytes: usize,
    /// The revision and the digest of what the store was given last, by node: it is not given twice.
    given: BTreeMap<String, (u64, Digest)>,
    /// The nodes of what the store is being given.
    is_taking: bool,
    /// Whether one was dropped since the last list.
    has_dropped: bool,
    list_at: Option<Duration>,
}

impl Reports {
    /// A report was read. One that is older than what waits cannot come: a bucket is read in its order.
    pub fn hear(&mut self, report: Report) {
        let Report { node, revision, body } = report;
        if body.len() > report::MAX_BYTES {
            return;
        }
        let (bytes, digest) = (body.len(), Digest::of(&body));
        if self.given.get(&node).is_some_and(|given| *given == (revision, digest)) {
            return;
        }
        let before = self.waiting.get(&node).map_or(0, |(_, body)| body.len());
        if self.bytes - before + bytes > MAX_WAITING {
            self.has_dropped = true;
            return;
        }
        self.bytes = self.bytes - before + bytes;
        self.waiting.insert(node, (revision, body));
    }

    /// What the store is to be given next, of nodes that are known; of others nothing is kept.
    pub fn take(&mut self, known: &BTreeSet<String>) -> Vec<Report> {
        if self.is_taking || self.waiting.is_empty() {
            return Vec::new();
        }
        self.given.retain(|node, _| known.contains(node));
        self.bytes = 0;
        let mut reports = Vec::new();
        for (node, (revision, body)) in std::mem::take(&mut self.waiting) {
            if known.contains(&node) {
                self.given.insert(node.clone(), (revision, Digest::of(&body)));
                reports.push(Report { node, revision, body });
            }
        }
        self.is_taking = !reports.is_empty();
        reports
    }

    /// The store has taken them.
    pub fn taken(&mut self, now: Duration) {
        self.is_taking = false;
        if std::mem::take(&mut self.has_dropped) {
            self.list_at = Some(now);
        }
    }

    /// The store has not taken them: all are read again.
    pub fn failed(&mut self, now: Duration) {
        self.is_taking = false;
        self.given.clear();
        self.has_dropped = false;
        self.list_at = Some(now + AGAIN);
    }

    /// Whether all reports are to be listed again now; once.
    pub fn is_list_due(&mut self, now: Duration) -> bool {
        self.list_at.take_if(|at| *at <= now).is_some()
    }

    /// When that is.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.list_at
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, revision: u64, bytes: usize) -> Report {
        Report { node: node.to_owned(), revision, body: vec![b'x'; bytes] }
    }

    fn known(count: usize) -> BTreeSet<String> {
        (0..count).map(|number| format!("n{number:03}")).collect()
    }

    #[test]
    fn one_node_takes_the_room_of_one_report() {
        let mut reports = Reports::default();
        for revision in 0..4096 {
            reports.hear(report("n000", revision, report::MAX_BYTES));
        }
        assert_eq!(reports.bytes(), report::MAX_BYTES);
        let taken = reports.take(&known(1));
        assert_eq!((taken.len(), taken[0].revision, reports.bytes()), (1, 4095, 0), "the newest");
        reports.hear(report("n000", 4096, report::MAX_BYTES + 1));
        reports.hear(report("n000", 4095, report::MAX_BYTES));
        assert_eq!(reports.bytes(), 0, "neither one that is too large nor what the store has");
    }

    #[test]
    fn all_nodes_together_take_a_bounded_room_and_each_is_heard_in_the_end() {
        let nodes = known(200);
        let mut reports = Reports::default();
        let mut had = BTreeSet::new();
        for round in 0..4 {
            for (revision, node) in (0..).zip(&nodes) {
                reports.hear(report(node, revision, report::MAX_BYTES));
                assert!(reports.bytes() <= MAX_WAITING);
            }
            had.extend(reports.take(&nodes).into_iter().map(|report| report.node));
            reports.taken(Duration::ZERO);
            assert_eq!(reports.is_list_due(Duration::ZERO), round < 3, "{round}");
        }
        assert_eq!(had, nodes);
    }

    #[test]
    fn unknown_nodes_are_dropped_and_a_store_that_failed_hears_all_again() {
        let mut reports = Reports::default();
        reports.hear(report("other", 1, 10));
        assert!(reports.take(&known(1)).is_empty() && reports.bytes() == 0);
        reports.hear(report("n000", 2, 10));
        assert_eq!(reports.take(&known(1)).len(), 1);
        reports.hear(report("n000", 3, 11));
        assert!(reports.take(&known(1)).is_empty(), "one task at a time");
        reports.failed(Duration::ZERO);
        assert!(!reports.is_list_due(Duration::ZERO) && reports.is_list_due(AGAIN));
        assert!(!reports.is_list_due(AGAIN), "once");
        reports.hear(report("n000", 2, 10));
        assert_eq!(reports.take(&known(1)).len(), 1);
    }
}

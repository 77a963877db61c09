//! A query: a state machine that requests reads, consumes replies, and ends with one response or one error.

pub(super) mod context;
mod gap;
mod key_filter;
mod page;
mod report;

use super::call::{Budget, Call, Tag};
use super::read::snapshot::Snapshot;
use context::QueryContext;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::{Cause, Refusal};
use mesh_provisioner_api::request::{Ask, What};
use page::PageQuery;
use report::Report;
use std::rc::Rc;
use std::time::Duration;

/// A query under way.
#[derive(Debug)]
pub(super) enum Query {
    /// Entries of one bucket.
    Page(PageQuery),
    /// A report over several buckets.
    Report(Report),
}

impl Query {
    /// Begins to answer `asks`, which are the same work; `registry` is what is known of the registry from queries
    /// before.
    pub(super) fn new(asks: &[Ask], context: QueryContext, registry: Option<Rc<Snapshot>>) -> Self {
        match asks[0].what {
            What::Registry | What::Needs | What::Applied | What::Collect | What::Gaps => {
                Query::Page(PageQuery::new(asks[0].clone(), context, registry))
            }
            What::Drift | What::Nodes | What::Collections => Query::Report(Report::new(asks, context)),
            What::Health => unreachable!("answered from memory"),
        }
    }

    /// The next call, if there is one that may be sent now.
    pub(super) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        match self {
            Query::Page(page) => page.next_call(budget),
            Query::Report(report) => report.next_call(budget),
        }
    }

    /// Handles the reply for `tag`.
    pub(super) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) {
        match self {
            Query::Page(page) => page.on_reply(tag, body),
            Query::Report(report) => report.on_reply(tag, body),
        }
    }

    /// Handles a part of the reply for `tag`. The error says why the reply is unusable; the query then reads the same
    /// in another way.
    pub(super) fn on_part(&mut self, tag: Tag, part: Part, now: Duration) -> Result<(), String> {
        match self {
            Query::Page(page) => page.on_part(tag, part, now),
            Query::Report(report) => report.on_part(tag, part, now),
        }
    }

    /// Reads `bucket` key by key from now on.
    pub(super) fn leave_bulk(&mut self, bucket: Bucket) {
        match self {
            Query::Page(page) => page.leave_bulk(bucket),
            Query::Report(report) => report.leave_bulk(bucket),
        }
    }

    /// Whether there is more to do without a reply: long responses are made in slices, so that others do not wait for
    /// all of it.
    pub(super) const fn is_busy(&self) -> bool {
        match self {
            Query::Page(page) => page.is_busy(),
            Query::Report(report) => report.is_busy(),
        }
    }

    /// Does one more slice.
    pub(super) fn poll(&mut self) {
        match self {
            Query::Page(page) => page.poll(),
            Query::Report(report) => report.poll(),
        }
    }

    /// The next answer's body or error, once it is there, and to which of the asks.
    pub(super) fn outcome(&mut self) -> Option<(usize, Result<String, Refusal>)> {
        match self {
            Query::Page(page) => page.outcome.take().map(|outcome| (0, outcome)),
            Query::Report(report) => report.outcome(),
        }
    }

    /// Whether all asks have been answered, once one has.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Query::Page(_) => true,
            Query::Report(report) => report.is_done(),
        }
    }

    /// The state in which it read the registry, and the snapshot, once finished.
    pub(super) fn take_registry(&mut self) -> Option<(State, Option<Rc<Snapshot>>)> {
        match self {
            Query::Page(page) => page.take_registry(),
            Query::Report(_) => None,
        }
    }

    /// Ends with what was read so far, if that is a response: a page is, because the next one continues after it.
    pub(super) fn cut_short(&mut self) {
        match self {
            Query::Page(page) => page.cut_short(),
            Query::Report(_) => {}
        }
    }

    /// How many keys of a list it keeps.
    pub(super) fn listed_keys(&self) -> usize {
        match self {
            Query::Page(page) => page.listed_keys(),
            Query::Report(report) => report.listed_keys(),
        }
    }

    /// What it waits for, for the message of a time-out.
    pub(super) fn progress(&self) -> String {
        match self {
            Query::Page(page) => page.progress(),
            Query::Report(report) => report.progress(),
        }
    }
}

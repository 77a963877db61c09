//! The questions that no single bucket answers: `drift`, `nodes` and `collections`. Each reads the buckets that it
//! needs one after the other, and keeps a row for each thing that it speaks of. When a key was written last is all that
//! it wants to know; values are read only where there is no other way.

mod collections;
mod drift;
mod nodes;

use super::reach::Reach;
use super::{Allowance, Frame, Slot, Want};
use crate::seat::failure::{Cause, Refusal};
use crate::seat::index::{Entry, Standing, words};
use crate::seat::scan::{Scan, Scanned};
use crate::wire::answer::{AsOf, Complaint, MAX_MALFORMED_LISTED, Page, json};
use crate::wire::direct::Part;
use crate::wire::request::{Ask, MAX_LIMIT, What};
use mesh_model::bucket::Bucket;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;
use time::OffsetDateTime;

/// A survey of several buckets.
#[derive(Debug)]
pub(in crate::seat) struct Survey {
    ask: Ask,
    frame: Frame,
    scan: Option<Scan>,
    to_scan: VecDeque<Bucket>,
    tally: Box<dyn Tally>,
    as_of: BTreeMap<&'static str, AsOf>,
    complaints: Vec<String>,
    complaints_total: usize,
    /// Whether there are keys that have not been counted yet.
    busy: bool,
    pub(super) outcome: Option<Result<String, Refusal>>,
}

/// What a survey counts.
trait Tally: fmt::Debug + Send {
    /// The buckets that it reads, in order.
    fn buckets(&self) -> &'static [Bucket];

    /// Whether a key with these names makes a difference.
    fn concerns(&self, _bucket: Bucket, _names: &[String]) -> bool {
        true
    }

    /// Whether a module's name narrows which keys are read, or only which rows are shown.
    fn narrows_keys_by_module(&self) -> bool {
        true
    }

    /// Takes a key that is there, or, if `deleted`, the mark that it no longer is; and the time of that write.
    fn take(&mut self, bucket: Bucket, names: &[String], at: Time, deleted: bool);

    /// The rows.
    fn rows(&mut self, ask: &Ask, now: Duration) -> Vec<Row>;
}

/// One entry of the answer.
#[derive(Debug)]
struct Row {
    /// Where it stands among the others, as keys are sorted.
    place: String,
    /// The entry as JSON.
    json: String,
    /// Whether it is as it should be.
    ok: bool,
}

/// A time of the bus: to compare, and to show in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Time(OffsetDateTime);

impl Time {
    /// Keeps the later of two in `latest`.
    fn keep_later(latest: &mut Option<Time>, other: Time) {
        *latest = (*latest).max(Some(other));
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&words(self.0))
    }
}

impl Survey {
    pub(super) fn new(ask: Ask, frame: Frame) -> Self {
        let tally: Box<dyn Tally> = match ask.what {
            What::Nodes => Box::new(nodes::Nodes::default()),
            What::Collections => Box::new(collections::Collections::default()),
            _ => Box::new(drift::Drift::default()),
        };
        let mut survey = Survey {
            ask,
            frame,
            scan: None,
            to_scan: tally.buckets().iter().copied().collect(),
            tally,
            as_of: BTreeMap::new(),
            complaints: Vec::new(),
            complaints_total: 0,
            busy: false,
            outcome: None,
        };
        survey.scan_next();
        survey
    }

    fn scan_next(&mut self) {
        self.scan = self.to_scan.pop_front().map(|bucket| self.frame.scan(bucket, &self.ask));
    }

    pub(super) fn want(&mut self, allowance: Allowance) -> Option<Want> {
        self.scan.as_mut()?.want(allowance)
    }

    pub(super) fn heard(&mut self, slot: Slot, body: Result<&[u8], Cause>) {
        let Some(scan) = &mut self.scan else { return };
        match scan.heard(slot, body) {
            Ok(()) => self.advance(),
            Err(cause) => {
                self.outcome = Some(Err(cause.refuse(scan.bucket())));
                self.scan = None;
            }
        }
    }

    pub(super) fn heard_part(&mut self, slot: Slot, part: Part) -> Result<(), String> {
        let Some(scan) = &mut self.scan else { return Ok(()) };
        let heard = scan.heard_part(slot, part);
        self.advance();
        heard
    }

    pub(super) fn leave_bulk(&mut self, bucket: Option<Bucket>) {
        self.frame.bulk.retain(|other| bucket.is_some_and(|bucket| bucket != *other));
        if let Some(scan) =
            self.scan.as_mut().filter(|scan| bucket.is_none_or(|bucket| bucket == scan.bucket()))
        {
            scan.leave_bulk();
        }
    }

    pub(super) fn waits_for_bulk(&self) -> bool {
        self.scan.as_ref().is_some_and(Scan::waits_for_bulk)
    }

    /// Whether there is more to do without hearing anything.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn progress(&self) -> String {
        self.scan.as_ref().map_or_else(|| "it was just done".to_owned(), Scan::progress)
    }

    pub(super) fn keeps_long_list(&self) -> bool {
        self.scan.as_ref().is_some_and(Scan::keeps_long_list)
    }

    /// Goes on as far as what has been heard allows, for a slice.
    pub(super) fn advance(&mut self) {
        self.busy = false;
        let mut counted = 0;
        while let Some(mut scan) = self.scan.take() {
            if counted == super::SLICE {
                self.busy = true;
                self.scan = Some(scan);
                return;
            }
            let bucket = scan.bucket();
            match scan.next() {
                Scanned::Waiting => {
                    self.scan = Some(scan);
                    return;
                }
                Scanned::Listed => {
                    scan.pick(None, usize::MAX, |key| self.concerns(bucket, key));
                    self.scan = Some(scan);
                }
                Scanned::Indexed => {
                    scan.tell(None);
                    self.scan = Some(scan);
                }
                Scanned::Key(key, found) => {
                    self.take(bucket, &key, Standing::of_found(&found), found.is_gone());
                    self.scan = Some(scan);
                    counted += 1;
                }
                Scanned::Entry(key, Entry { standing, .. }) => {
                    if self.concerns(bucket, &key) {
                        self.take(bucket, &key, Some(standing), standing.deleted);
                    }
                    self.scan = Some(scan);
                    counted += 1;
                }
                Scanned::Told | Scanned::End => {
                    self.as_of.insert(bucket.suffix(), scan.as_of());
                    self.scan_next();
                    if self.scan.is_none() {
                        self.answer();
                    }
                }
            }
        }
    }

    fn concerns(&self, bucket: Bucket, key: &str) -> bool {
        self.reach(bucket).holds(key)
            && bucket.parse(key).map_or(true, |names| self.tally.concerns(bucket, &names))
    }

    fn reach(&self, bucket: Bucket) -> Reach {
        if self.tally.narrows_keys_by_module() {
            Reach::new(bucket, &self.ask)
        } else {
            Reach::new(bucket, &Ask { module: None, ..self.ask.clone() })
        }
    }

    fn take(&mut self, bucket: Bucket, key: &str, standing: Option<Standing>, deleted: bool) {
        match bucket.parse(key) {
            Ok(names) => {
                if let Some(Standing { at, deleted, .. }) = standing {
                    self.tally.take(bucket, &names, Time(at), deleted);
                }
            }
            Err(_) if deleted => {}
            Err(malformed) => {
                self.complaints_total += 1;
                if self.complaints.len() < MAX_MALFORMED_LISTED {
                    let written = standing.map(|standing| (standing.sequence, words(standing.at)));
                    let written = written.as_ref().map(|(sequence, at)| (*sequence, at.as_str()));
                    self.complaints.push(Complaint::new(key, &malformed, written).of(bucket).to_json());
                }
            }
        }
    }

    fn answer(&mut self) {
        let rows = self.tally.rows(&self.ask, self.frame.clock);
        let ok = rows.iter().all(|row| row.ok);
        let mut page = Page::new(self.ask.limit.unwrap_or(MAX_LIMIT), self.frame.page_bytes);
        // They belong to no row, so they are said once, on the first page.
        if self.ask.after.is_none() {
            page.complain(std::mem::take(&mut self.complaints), self.complaints_total);
        }
        let after = self.ask.after.as_deref();
        for row in rows.into_iter().filter(|row| after.is_none_or(|after| row.place.as_str() > after)) {
            if !page.add(&row.place, Some(row.json), Vec::new()) {
                break;
            }
        }
        self.outcome = Some(Ok(page.to_json(self.ask.what, Some(ok), &json(&self.as_of), &self.frame.seat)));
    }
}

/// The place of a row that is known by these names.
fn place(names: &[&str]) -> String {
    names.iter().map(|name| mesh_model::name::encode(name)).collect::<Vec<_>>().join(".")
}

//! Requests stream info of every bucket once a minute: whether the registry is still as the last pass left it, and
//! whether a bucket has settings that lose data.

use super::Seat;
use super::call::{Call, Cost, Tag};
use super::in_flight::Owner;
use super::topic::Topic;
use log::Level;
use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::stream_info::{self, State};
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::{Cause, shorten};
use std::time::Duration;

impl Seat {
    /// Requests stream info if it is due.
    pub(super) fn check_streams(&mut self, now: Duration) {
        if !self.is_up() || self.stopping.is_some() || !self.checks.begin(now) {
            return;
        }
        for (at, bucket) in Bucket::ALL.into_iter().enumerate() {
            if self.in_flight.room() > 0 {
                let request = stream_info::get(Kv::new(bucket.name()));
                let call = Call { tag: Tag::Value(at), request, cost: Cost::Single };
                self.send_call(Owner::Checks, call, now);
            }
        }
    }

    /// Handles the stream info of a bucket.
    pub(super) fn stream_checked(&mut self, tag: Tag, body: Result<&[u8], Cause>, now: Duration) {
        let Tag::Value(at) = tag else { return };
        let (Some(bucket), Ok(body)) = (Bucket::ALL.get(at).copied(), body) else { return };
        match stream_info::parse(Kv::new(bucket.name()), body) {
            Ok(Some(info)) => {
                if !info.losses.is_empty() {
                    let losses = info.losses.join(", ");
                    let text = format!(
                        "bucket {bucket} loses data: {losses}: unset that, or see mesh-provisioner check"
                    );
                    self.notice(Level::Warn, Topic::Buckets, bucket.name(), &text, now);
                }
                if bucket == Bucket::Registry {
                    self.registry_seen(&info.state, now);
                }
            }
            Err(error @ ApiError::NotABucket(_)) => {
                let text = shorten(Cause::Api(error).tell(bucket));
                self.notice(Level::Warn, Topic::Buckets, bucket.name(), &text, now);
            }
            // The pass reports why it cannot read.
            Ok(None) | Err(_) => {}
        }
    }

    /// The stream of the registry has this state. If the last pass left it in another one, the next pass is due.
    pub(super) fn registry_seen(&mut self, state: &State, now: Duration) {
        if self.pass.is_settled_at(state) {
            self.checks.confirm(now);
        } else if self.stopping.is_none() {
            self.pass.doubt(now);
        }
    }
}

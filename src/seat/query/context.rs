//! What every query is given.

use super::key_filter::node_token;
use crate::seat::read::bucket_reader::BucketReader;
use crate::seat::read::cache::CacheStore;
use crate::seat::read::way::Way;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::request::Ask;
use mesh_service::identity::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// How many keys are processed in one slice: it bounds the delay for other requests.
pub(in crate::seat) const SLICE: usize = 256;

/// What a query needs to know to fit its response.
#[derive(Debug, Clone)]
pub(in crate::seat) struct QueryContext {
    /// The largest body, in bytes.
    pub(in crate::seat) page_bytes: usize,
    /// The seat that responds.
    pub(in crate::seat) seat: Identity,
    /// The buckets that may be read in bulk.
    pub(in crate::seat) bulk: BTreeSet<Bucket>,
    /// The largest part of a bulk read, in bytes.
    pub(in crate::seat) part_bytes: usize,
    /// The lists that the connection does not bring: of these buckets, as a whole or of one node.
    pub(in crate::seat) unlisted: BTreeSet<(Bucket, bool)>,
    /// Up to this many keys are read one by one.
    pub(in crate::seat) max_keys_one_by_one: usize,
    /// The caches of the buckets.
    pub(in crate::seat) store: Rc<CacheStore>,
    /// The recent mean size of a reply with a value, by bucket, where known.
    pub(in crate::seat) value_bytes: BTreeMap<Bucket, usize>,
    /// The time since 1970, for ages.
    pub(in crate::seat) clock: Duration,
}

impl QueryContext {
    /// Reads what `ask` is about in `bucket` after the key `after`, or more.
    pub(in crate::seat) fn reader(&self, bucket: Bucket, ask: &Ask, after: Option<&str>) -> BucketReader {
        let value_bytes = self.value_bytes.get(&bucket).copied();
        let token = node_token(ask);
        let way = if self.unlisted.contains(&(bucket, token.is_some())) {
            Way::Singly
        } else if self.bulk.contains(&bucket) {
            Way::InBulk { few: self.max_keys_one_by_one, part_bytes: self.part_bytes }
        } else {
            Way::Listed
        };
        BucketReader::new(bucket, token, after, value_bytes, way, Rc::clone(&self.store))
    }
}

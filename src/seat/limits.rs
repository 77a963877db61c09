//! Every bound of the seat that a client or an operator can see, and how they depend on each other. PROTOCOL.md lists
//! them; a test compares the two.

pub use mesh_provisioner_api::request::{MAX_BODY_BYTES, MAX_LIMIT};
pub use mesh_provisioner_api::response::MAX_MALFORMED_LISTED;
use std::time::Duration;

/// The maximum number of queries under way.
pub const MAX_UNDER_WAY: usize = 64;

/// How many requests may wait in addition to those under way.
pub const MAX_WAITING: usize = 1024;

/// How many requests that are the same work may share a query: each has a page of its own, which may be long.
pub const MAX_SHARING: usize = 16;

/// How long a request may take from its arrival to its response.
pub const QUERY_DEADLINE: Duration = Duration::from_secs(4);

/// How long a stopping seat still responds to requests under way.
pub const FAREWELL: Duration = Duration::from_secs(5);

/// The largest response, in bytes, whatever the server's `max_payload`.
pub const MAX_RESPONSE_BYTES: usize = 512 * 1024;

/// How many requests may wait for the loop: as many as the seat accepts, and as many again, which get the response
/// that it is full. A turn takes microseconds; requests that wait for JetStream wait in the seat.
pub const MAX_UNTAKEN_REQUESTS: usize = 2048;

/// How many monitoring requests may wait for the loop, on each subject.
pub const MAX_UNTAKEN_MONITORING: usize = 64;

/// The maximum number of calls in flight.
pub const MAX_IN_FLIGHT: usize = 256;

/// How many of them may list keys: those replies can be megabytes.
pub const MAX_LISTINGS: usize = 4;

/// How many keys of lists are kept before no more are listed: 100 000 take about six megabytes.
pub const MAX_LISTED_KEYS: usize = 100_000;

/// How many calls may read in bulk: those replies can be megabytes too, in many messages.
pub const MAX_BATCHES: usize = 8;

/// A reply that is larger than this is large. Others are bounded by their number.
pub const LARGE_BYTES: usize = 32 * 1024;

/// How many bytes of large values may be in flight, over all readers.
pub const MAX_LARGE_BYTES: usize = 8 * 1024 * 1024;

/// How long a call waits for its reply.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a bulk read waits for the next message. The same keys can then be read one by one.
pub const BATCH_GAP_TIMEOUT: Duration = Duration::from_secs(1);

/// Up to this many keys are read one by one: about 20 µs each.
pub const MAX_KEYS_ONE_BY_ONE: usize = 32;

/// How long a bucket is read key by key after a bulk read failed.
pub const BULK_PAUSE: Duration = Duration::from_secs(15 * 60);

/// How many bytes a part of a bulk read asks for: few at first, so that one which is given up on a slow line delays
/// nobody for long; more if the last one took less than [`QUICK_PART`], fewer if it took more than [`SLOW_PART`].
pub const FIRST_PART_BYTES: usize = 64 * 1024;
/// The fewest.
pub const MIN_PART_BYTES: usize = 16 * 1024;
/// The most.
pub const MAX_PART_BYTES: usize = 4 * 1024 * 1024;
/// A part that came within this time was quick.
pub const QUICK_PART: Duration = Duration::from_millis(100);
/// A part that took longer was slow.
pub const SLOW_PART: Duration = Duration::from_millis(500);

/// A list of keys that did not come within this time is too long for the line, if its query is given up.
pub const SLOW_LIST: Duration = Duration::from_secs(2);
/// A list that fails twice within this time is not requested for [`BULK_PAUSE`]. Once, the connection may have ended for
/// another reason.
pub const FAILS_AGAIN: Duration = Duration::from_secs(60);

/// The longest value that is cached, in bytes.
pub const MAX_CACHED_VALUE_BYTES: usize = 2 * 1024;

/// The most keys of a bucket that is cached.
pub const MAX_CACHED_KEYS: usize = 150_000;

/// The size of all caches together, in bytes.
pub const MAX_CACHE_BYTES: usize = 48 * 1024 * 1024;

/// The size of all caches from which on no more values are cached, in bytes.
pub const MAX_CACHE_BYTES_WITH_VALUES: usize = 40 * 1024 * 1024;

/// How long the caches are kept without a query.
pub const CACHES_KEPT: Duration = Duration::from_secs(10 * 60);

/// The size of the rows of a report, in bytes.
pub const MAX_ROWS_BYTES: usize = 32 * 1024 * 1024;

/// How often the streams of the buckets are looked at.
pub const CHECK_EVERY: Duration = Duration::from_secs(50);

/// How long after such a look its reply is still expected.
pub const CHECK_ANSWERED: Duration = Duration::from_secs(10);

// The loop has room for everything that the seat accepts, and for as many requests that it rejects.
const _: () = assert!(MAX_UNTAKEN_REQUESTS >= MAX_WAITING + MAX_UNDER_WAY);
// Nobody who waits for a query that was cut short waits longer than a stopping seat.
const _: () = assert!(FAREWELL.as_secs() > QUERY_DEADLINE.as_secs());
// Every query under way may have a call in flight.
const _: () = assert!(MAX_IN_FLIGHT > MAX_UNDER_WAY && MAX_LISTINGS + MAX_BATCHES < MAX_IN_FLIGHT);
const _: () = assert!(LARGE_BYTES <= MAX_LARGE_BYTES);
const _: () = assert!(MIN_PART_BYTES <= FIRST_PART_BYTES && FIRST_PART_BYTES <= MAX_PART_BYTES);
const _: () = assert!(QUICK_PART.as_millis() < SLOW_PART.as_millis());
// A part that never comes leaves time to read the same keys one by one.
const _: () = assert!(BATCH_GAP_TIMEOUT.as_secs() < QUERY_DEADLINE.as_secs());
const _: () = assert!(MAX_CACHE_BYTES_WITH_VALUES < MAX_CACHE_BYTES);
// A value that is cached is never one of those whose bytes are counted in flight.
const _: () = assert!(MAX_CACHED_VALUE_BYTES < LARGE_BYTES);
// The registry is seen to have changed within a minute.
const _: () = assert!(CHECK_EVERY.as_secs() + CHECK_ANSWERED.as_secs() <= 60);

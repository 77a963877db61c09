//! The provisioner's seat of a mesh: keeps the registry of kinds and answers what each module on each node needs.
//!
//! Start reading at [`seat::Event`] and [`seat::Action`], everything that can wake the seat and everything that it
//! can ask for; then [`seat::Seat::handle`], which turns one into the other; then `shell`, the loop around it.
//! ARCHITECTURE.md has the picture.
//!
//! # Words
//!
//! A *client* sends a *request* and gets a *response*. A request starts a *query*, or joins an equal one that has not
//! begun. A query reads through *calls*, requests of the seat to JetStream, which get *replies*. So request and response
//! are with clients, calls and replies with JetStream, and the query is the work between them.
//!
//! | word | meaning |
//! |---|---|
//! | [`seat`] | the machine, and the office that it holds: one program answers for the whole mesh |
//! | `BucketReader`, `Step` | reads one bucket, one step at a time |
//! | `KeyLister`, `ValueReader` | list the keys of a bucket, and read the values of some |
//! | `BucketCache`, `CacheStore`, `Lease` | keys and short values of a bucket, where those are kept, and the right of one query to use one |
//! | `CatchUp` | brings a cache up to date with its bucket |
//! | `Snapshot` | a whole small bucket at one state: the registry |
//! | `Tag`, `Cost`, `Budget` | which reply of a machine it is, how much it may bring, and what may be sent just now |
//! | `InFlight`, `Owner` | the calls that wait for a reply, and whose each is |
//! | `KeyFilter` | which keys a narrowed request is about |
//! | `Aggregate` | what a report over several buckets counts |
//! | pass, plan | one look at the registry that puts it right; what that would change |

pub mod cli;
pub mod seat;
pub mod shell;

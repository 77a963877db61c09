//! Key-value buckets and JetStream as text: subjects and requests, and what the bytes of an answer say. Nothing here
//! knows how a message gets to the bus, and whose bucket it is.

pub mod api;
pub mod bucket;
mod config;
pub mod direct_get;
mod headers;
pub mod keys;
pub mod kv;
pub mod message;
pub mod named;
pub mod stream_info;
pub mod subject;

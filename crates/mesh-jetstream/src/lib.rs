//! Key-value buckets and JetStream as text: subjects, calls, and the parsing of replies. Nothing here knows how a
//! message is sent, or what a bucket is for.

pub mod api;
pub mod bucket;
mod config;
pub mod consumer;
pub mod direct_get;
pub mod headers;
pub mod keys;
pub mod kv;
pub mod message;
pub mod named;
pub mod stream_info;
pub mod subject;

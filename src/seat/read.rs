//! Reading a bucket: [`bucket_reader`] gives its keys in order and what is under each. It lists the keys
//! ([`key_lister`]) and reads the values ([`value_reader`]), or brings the [`cache`] of the bucket up to date
//! ([`catch_up`]) and reads from there.

pub(super) mod bucket_reader;
pub(super) mod cache;
mod catch_up;
pub(super) mod found;
mod key_lister;
pub(super) mod snapshot;
pub(super) mod value_reader;
pub(super) mod way;

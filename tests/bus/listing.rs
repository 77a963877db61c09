//! Reading buckets that hold anything at all.

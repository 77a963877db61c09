//! The loop that every program on the bus shares.

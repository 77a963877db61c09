//! The connection, and what becomes of it.

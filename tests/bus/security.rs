//! TLS and every way to log in.

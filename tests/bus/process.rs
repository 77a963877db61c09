//! The process: signals, secrets, supervisors.

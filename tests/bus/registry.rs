//! Keeping the registry.

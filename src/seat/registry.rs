//! Writing the registry: the [`plan`] says what differs, the [`pass`] writes it.

pub(super) mod pass;
pub(super) mod plan;

//! What every service of the mesh needs, without I/O: the services API of NATS, coded errors, a guard of reply
//! subjects, back-off, and a limit of log lines.

pub mod backoff;
pub mod errors;
pub mod follow;
pub mod identity;
pub mod inboxes;
pub mod json;
pub mod log_limit;
pub mod reply_guard;
pub mod services;

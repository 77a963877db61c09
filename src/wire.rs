//! What crosses the bus between clients and the seat, as text and back. Nothing here knows how it gets there.

pub mod answer;
pub mod reason;
pub mod request;
mod strict;

use mesh_model::provisioner::{INBOX, QUEUE, SERVICE, VERB};
use mesh_service::reply_guard::ReplyGuard;
use mesh_service::services::Service;

/// The service that the seat is.
pub const PROVISIONING: Service = Service {
    name: SERVICE,
    description: "Tells what every module on every node needs, what is applied where, what is in every collection, and which domain answers which kind",
    endpoint: "provisioning",
    verb: VERB,
    queue: QUEUE,
    request_schema: "io.mesh.provisioner.v1.request",
    response_schema: "io.mesh.provisioner.v1.response",
};

/// Which reply subjects the seat answers under.
pub const REPLIES: ReplyGuard = ReplyGuard { service: SERVICE, inbox: INBOX };

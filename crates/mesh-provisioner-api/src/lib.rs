//! The API of the provisioner's seat: the messages between clients and the seat, to text and back, and why a request can
//! fail. Nothing here knows how they are sent.

pub mod failure;
pub mod reason;
pub mod request;
pub mod response;
mod strict;

use mesh_model::provisioner::{INBOX, QUEUE, SERVICE, VERB};
use mesh_service::reply_guard::ReplyGuard;
use mesh_service::services::Service;

/// The service that the seat is.
pub const PROVISIONING: Service = Service {
    name: SERVICE,
    description: "Reports what each module on each node needs, what is applied where, what each collection holds, and which domain answers which kind",
    endpoint: "provisioning",
    verb: VERB,
    queue: QUEUE,
    request_schema: "io.mesh.provisioner.v1.request",
    response_schema: "io.mesh.provisioner.v1.response",
};

/// The reply subjects that the seat responds to.
pub const REPLIES: ReplyGuard = ReplyGuard { service: SERVICE, inbox: INBOX };

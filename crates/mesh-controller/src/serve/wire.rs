//! What the controller is on the bus: its verbs, who is answered, and its errors.

use mesh_jetstream::message::Outgoing;
use mesh_model::rights::{CONTROLLER_READS, Inbox, JOIN, QUEUE};
use mesh_runtime::Subscription;
use mesh_service::errors;
use mesh_service::reply_guard::ReplyGuard;
use mesh_service::services::{Endpoint, Service};

/// The service's name.
pub const SERVICE: &str = "mesh-controller";

/// The schema id of an error.
pub const ERROR: &str = "io.mesh.controller.v1.error_response";

/// The verbs, in the order of their subscriptions.
pub const VERBS: [Endpoint; 3] = [
    Endpoint {
        name: "join",
        subject: JOIN,
        queue: QUEUE,
        request_schema: "io.mesh.controller.v1.join_request",
        response_schema: "io.mesh.controller.v1.join_response",
    },
    Endpoint {
        name: "status",
        subject: CONTROLLER_READS[0],
        queue: QUEUE,
        request_schema: "io.mesh.controller.v1.status_request",
        response_schema: "io.mesh.controller.v1.status_response",
    },
    Endpoint {
        name: "plan",
        subject: CONTROLLER_READS[1],
        queue: QUEUE,
        request_schema: "io.mesh.controller.v1.plan_request",
        response_schema: "io.mesh.controller.v1.plan_response",
    },
];

/// The controller as a service.
pub const CONTROLLER: Service = Service {
    name: SERVICE,
    description: "Decides what each node runs, lets nodes join, and says how the mesh stands",
    endpoint: VERBS[1].name,
    verb: VERBS[1].subject,
    queue: QUEUE,
    request_schema: VERBS[1].request_schema,
    response_schema: VERBS[1].response_schema,
};

/// The reply subjects that are answered.
pub const REPLIES: ReplyGuard = ReplyGuard { service: SERVICE, inbox: "_INBOX_mesh.controller" };

/// How many requests to join may wait for the loop: a whole fleet may come at once.
const MAX_JOINS: usize = 4096;

/// How many other requests may wait for the loop, on each subject.
const MAX_REQUESTS: usize = 256;

/// The subscriptions of an instance: the verbs, then the services API.
pub fn subscriptions(id: &str) -> Vec<Subscription> {
    let verbs = VERBS.iter().map(|verb| Subscription {
        subject: verb.subject.to_owned(),
        queue: Some(QUEUE),
        limit: if verb.subject == JOIN { MAX_JOINS } else { MAX_REQUESTS },
    });
    let monitoring =
        CONTROLLER.monitored(id).map(|subject| Subscription { subject, queue: None, limit: MAX_REQUESTS });
    verbs.chain(monitoring).collect()
}

/// What the subjects of replies begin with.
pub fn inbox(own: &str) -> String {
    format!("{}.{own}", Inbox::Controller.prefix())
}

/// An answer.
pub fn answer(reply: String, body: String) -> Outgoing {
    Outgoing { subject: reply, reply: None, headers: Vec::new(), body: body.into_bytes().into() }
}

/// An error.
pub fn error(reply: String, code: u16, reason: &str, message: &str) -> Outgoing {
    let body = errors::body(ERROR, code, reason, message);
    Outgoing { headers: errors::headers(code, message), ..answer(reply, body) }
}

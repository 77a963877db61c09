//! What the vault is on the bus: its verbs, who is answered, and the bodies of its errors.

use mesh_model::rights::{Inbox, QUEUE, VAULT_CONSUMERS, VAULT_SECRET};
use mesh_service::json::json;
use mesh_service::reply_guard::ReplyGuard;
use mesh_service::services::{Endpoint, Service};
use serde::Serialize;

/// The service's name.
pub const SERVICE: &str = "mesh-vault";

/// What the inbox of its account begins with.
pub const INBOX: &str = "_INBOX_mesh.vault";

/// After how many seconds a client asks again, where no bucket tells of a new revision.
pub const AGAIN_AFTER: u64 = 300;

/// The bucket of revisions.
pub const REVISIONS: &str = "mesh-vault_revisions";

/// The buckets that are followed, in the order of [`Bucket`].
pub const BUCKETS: [&str; 5] = [
    "mesh-controller_declarations",
    "mesh-controller_assignments",
    "mesh-controller_nodes",
    "mesh-provisioner_applied",
    REVISIONS,
];

/// A bucket that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bucket {
    /// What each node runs, signed.
    Declarations,
    /// Which secrets each module needs.
    Assignments,
    /// The keys of each node, signed.
    Nodes,
    /// What each module has applied.
    Applied,
    /// What the vault told of revisions.
    Revisions,
}

impl Bucket {
    /// All of them.
    pub const ALL: [Bucket; 5] =
        [Bucket::Declarations, Bucket::Assignments, Bucket::Nodes, Bucket::Applied, Bucket::Revisions];

    /// Its name on the bus.
    pub const fn name(self) -> &'static str {
        BUCKETS[self as usize]
    }
}

/// A verb of the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// One secret, for a node.
    Secret,
    /// All credentials of a provider's consumers.
    Consumers,
    /// Takes a value that the mesh cannot make.
    Accept,
    /// Makes a new revision.
    Rotate,
    /// Every recovery copy, page by page.
    Export,
}

impl Verb {
    /// All of them, in the order of their subscriptions.
    pub const ALL: [Verb; 5] = [Verb::Secret, Verb::Consumers, Verb::Accept, Verb::Rotate, Verb::Export];

    /// Its subject.
    pub const fn subject(self) -> &'static str {
        match self {
            Verb::Secret => VAULT_SECRET,
            Verb::Consumers => VAULT_CONSUMERS,
            Verb::Accept => "mesh-vault.accept",
            Verb::Rotate => "mesh-vault.rotate",
            Verb::Export => "mesh-vault.export",
        }
    }

    /// The verb of a subject.
    pub fn of(subject: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.subject() == subject)
    }

    /// How the services API tells of it.
    pub const fn endpoint(self) -> Endpoint {
        let (name, request_schema, response_schema) = match self {
            Verb::Secret => ("secret", "io.mesh.vault.v1.secret_request", "io.mesh.vault.v1.secret_response"),
            Verb::Consumers => {
                ("consumers", "io.mesh.vault.v1.consumers_request", "io.mesh.vault.v1.consumers_response")
            }
            Verb::Accept => {
                ("accept", "io.mesh.vault.v1.signed_request", "io.mesh.vault.v1.revision_response")
            }
            Verb::Rotate => {
                ("rotate", "io.mesh.vault.v1.signed_request", "io.mesh.vault.v1.revision_response")
            }
            Verb::Export => ("export", "io.mesh.vault.v1.signed_request", "io.mesh.vault.v1.export_response"),
        };
        Endpoint { name, subject: self.subject(), queue: QUEUE, request_schema, response_schema }
    }
}

/// The service that the vault is.
pub const VAULT: Service = Service {
    name: SERVICE,
    description: "Makes, keeps and hands out the secrets of the mesh, sealed to the machine that uses them",
    endpoint: Verb::Secret.endpoint().name,
    verb: VAULT_SECRET,
    queue: QUEUE,
    request_schema: Verb::Secret.endpoint().request_schema,
    response_schema: Verb::Secret.endpoint().response_schema,
};

/// The reply subjects that the vault answers.
pub const REPLIES: ReplyGuard = ReplyGuard { service: SERVICE, inbox: INBOX };

/// Why there is no answer, as a word that programs can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The request is none.
    BadRequest,
    /// The request's signature does not count.
    NotSigned,
    /// No declaration gives the module that secret.
    NotAssigned,
    /// A person has to give it, and has not.
    NotAccepted,
    /// A credential that its provider has not applied yet.
    NotApplied,
    /// Sealed to a key that the node no longer has: a person has to give it again.
    AcceptAgain,
    /// There is no such secret.
    Absent,
    /// The id of the request was used before.
    UsedId,
    /// What is asked cannot be done with such a secret.
    NotPossible,
    /// The answer does not fit into a message.
    TooLarge,
    /// The buckets are not read yet, or not all.
    NotRead,
    /// What is assigned does not fit the declaration yet.
    DoesNotFit,
    /// The node has no record that counts.
    NoRecord,
    /// The mesh names another vault.
    OtherVault,
    /// The store does not have what was handed out before.
    StoreLost,
    /// The store cannot be read or written.
    Store,
    /// Too many requests wait.
    Busy,
    /// The vault ends.
    Stopping,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 18] = [
        Reason::BadRequest,
        Reason::NotSigned,
        Reason::NotAssigned,
        Reason::NotAccepted,
        Reason::NotApplied,
        Reason::AcceptAgain,
        Reason::Absent,
        Reason::UsedId,
        Reason::NotPossible,
        Reason::TooLarge,
        Reason::NotRead,
        Reason::DoesNotFit,
        Reason::NoRecord,
        Reason::OtherVault,
        Reason::StoreLost,
        Reason::Store,
        Reason::Busy,
        Reason::Stopping,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::BadRequest => "bad_request",
            Reason::NotSigned => "not_signed",
            Reason::NotAssigned => "not_assigned",
            Reason::NotAccepted => "not_accepted",
            Reason::NotApplied => "not_applied",
            Reason::AcceptAgain => "accept_again",
            Reason::Absent => "absent",
            Reason::UsedId => "used_id",
            Reason::NotPossible => "not_possible",
            Reason::TooLarge => "too_large",
            Reason::NotRead => "not_read",
            Reason::DoesNotFit => "does_not_fit",
            Reason::NoRecord => "no_record",
            Reason::OtherVault => "other_vault",
            Reason::StoreLost => "store_lost",
            Reason::Store => "store",
            Reason::Busy => "busy",
            Reason::Stopping => "stopping",
        }
    }

    /// The code, as in HTTP. 403 takes a secret away from a node that has no newer declaration; no other does.
    pub const fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::NotSigned | Reason::NotAssigned => 403,
            Reason::NotAccepted | Reason::NotApplied | Reason::AcceptAgain | Reason::Absent => 404,
            Reason::UsedId | Reason::NotPossible => 409,
            Reason::TooLarge => 413,
            Reason::NotRead
            | Reason::DoesNotFit
            | Reason::NoRecord
            | Reason::OtherVault
            | Reason::StoreLost
            | Reason::Store
            | Reason::Busy
            | Reason::Stopping => 503,
        }
    }
}

/// Why a request gets an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for programs.
    pub reason: Reason,
    /// What failed, why, and what to do next.
    pub message: String,
    /// The sequence of the declaration by which it was judged.
    pub sequence: Option<u64>,
}

impl Refusal {
    /// One that no declaration was looked at for.
    pub fn new(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { reason, message: message.into(), sequence: None }
    }

    /// One by the declaration of that sequence.
    pub fn by(sequence: u64, reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { sequence: Some(sequence), ..Refusal::new(reason, message) }
    }

    /// The body of the response.
    pub fn body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Error<'a>,
        }
        #[derive(Serialize)]
        struct Error<'a> {
            code: u16,
            reason: &'static str,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            sequence: Option<u64>,
        }
        json(&Body {
            error: Error {
                code: self.reason.code(),
                reason: self.reason.as_str(),
                message: &self.message,
                sequence: self.sequence,
            },
        })
    }
}

/// The inbox that the account of the vault may hear.
pub fn inbox() -> String {
    Inbox::Vault.prefix()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_inbox_is_the_one_of_the_account() {
        assert_eq!(inbox(), INBOX);
    }

    #[test]
    fn a_refusal_is_read_as_the_model_has_it() {
        let body = Refusal::by(17, Reason::NotAssigned, "no \"need\"").body();
        let read: mesh_model::vault_api::Refusal = serde_json::from_str(&body).unwrap();
        assert_eq!((read.error.code, read.error.sequence), (403, Some(17)));
        assert!(read.error.takes_away(17));
        let words: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        assert!(
            Reason::ALL
                .iter()
                .all(|reason| reason.code() != 403
                    || [Reason::NotSigned, Reason::NotAssigned].contains(reason))
        );
    }
}

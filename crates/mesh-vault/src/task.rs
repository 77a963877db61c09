//! What the machine has done for it, and what comes of it. Nothing here holds a plaintext.

use crate::holdings::{Held, List, Seen};
use crate::place::Place;
use mesh_model::assignment::{Consumer, Make};
use mesh_model::keys::SealingKey;
use mesh_model::sealed::Sealed;
use mesh_model::vault_api::{RecoveryCopy, SealedConsumer};

/// A task, under the number by which its outcome comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The number.
    pub number: u64,
    /// What is to be done.
    pub work: Work,
}

/// What comes of a task.
#[derive(Debug)]
pub struct Done {
    /// The number of the task.
    pub number: u64,
    /// What came of it.
    pub outcome: Result<Outcome, Failure>,
}

/// The keys that a secret is sealed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The node's.
    pub node: SealingKey,
    /// The operator's; none where the operator wants no second copy.
    pub recovery: Option<SealingKey>,
}

/// The id of a signed request: it is kept in the transaction of what the request does, so that it is good once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The id.
    pub id: String,
    /// Now, in seconds since 1970.
    pub now: u64,
}

/// A credential that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCredential {
    /// Whose.
    pub consumer: Consumer,
    /// Its revision.
    pub revision: u64,
    /// The consumer's keys.
    pub keys: Keys,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Remember these nodes.
    Remember {
        /// The mesh's id.
        mesh: Option<String>,
        /// The nodes.
        nodes: Vec<(String, Seen)>,
    },
    /// Make a secret and keep it.
    Make {
        /// The mesh's id.
        mesh: String,
        /// Its place.
        place: Place,
        /// Its revision.
        revision: u64,
        /// How.
        make: Make,
        /// For whom.
        keys: Keys,
        /// Of a signed request.
        once: Option<Once>,
    },
    /// Open a value that was sealed to the vault, and keep it.
    Accept {
        /// The mesh's id.
        mesh: String,
        /// Its place.
        place: Place,
        /// Its revision.
        revision: u64,
        /// For whom.
        keys: Keys,
        /// The value.
        value: Sealed,
        /// The request.
        once: Once,
    },
    /// Make credentials, and a new revision of the list that has them.
    List {
        /// The mesh's id.
        mesh: String,
        /// The place of the list.
        place: Place,
        /// The list, complete.
        list: List,
        /// The provider's key.
        key: SealingKey,
        /// Which of its credentials are new.
        new: Vec<NewCredential>,
    },
    /// Forget the revisions of a secret that are older.
    Forget {
        /// The secret.
        place: Place,
        /// The oldest revision that stays.
        before: u64,
    },
    /// Read one sealed copy.
    Give {
        /// The secret.
        place: Place,
        /// The revision.
        revision: u64,
    },
    /// Read the provider's copies of a list's members.
    GiveList {
        /// The place of the list.
        place: Place,
        /// Its members.
        members: Vec<(Consumer, u64)>,
    },
    /// Read recovery copies.
    Export {
        /// The mesh's id.
        mesh: String,
        /// Where the page begins.
        after: Option<String>,
        /// How many bytes the copies may take.
        bytes: usize,
        /// The request.
        once: Once,
    },
}

/// What came of a task.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Nothing,
    /// A secret was made or accepted, and is kept.
    Kept(Held),
    /// A list and its new credentials are kept.
    KeptList(Vec<(Place, u64, Held)>),
    /// A sealed copy.
    Copy(Sealed),
    /// The provider's copies.
    Copies(Vec<SealedConsumer>),
    /// A page of recovery copies, and where the next begins.
    Page(Vec<RecoveryCopy>, Option<String>),
}

/// Why a task was not done. Nothing of it was kept then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The store could not be read or written.
    Store(String),
    /// The value could not be sealed: a key is none.
    Seal(String),
    /// The value that came cannot be opened, is another one, or is too large.
    Value(String),
    /// The id of the request was used before.
    UsedId,
    /// There is no such copy.
    Absent,
}

//! Whether a declaration counts.

use crate::digest::Digest;
use crate::record::{Accepted, Memory};
use crate::site::Settings;
use mesh_model::declaration::Declaration;
use mesh_model::json::Read as _;
use mesh_model::signed::{Envelope, PayloadType};

/// A declaration that counts.
#[derive(Debug)]
pub struct Verified {
    /// The declaration.
    pub declaration: Declaration,
    /// What is remembered of it.
    pub accepted: Accepted,
    /// Whether it is the one that was accepted last.
    pub same: bool,
}

/// Why a declaration is refused whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Verifies the envelope, and compares mesh, node, sequence and fence with what is known.
pub fn verify(envelope: &Envelope, settings: &Settings, memory: &Memory) -> Result<Verified, Refusal> {
    let refused = |why: String| Refusal(format!("the declaration is refused: {why}"));
    let payload = envelope
        .verify(PayloadType::Declaration, &settings.mesh_key)
        .map_err(|why| refused(why.to_string()))?;
    let declaration =
        Declaration::from_json_bytes(payload).map_err(|problem| refused(problem.to_string()))?;
    if declaration.mesh != settings.mesh {
        return Err(refused(format!(
            "it is for the mesh {:?}, and this node is in {:?}",
            declaration.mesh, settings.mesh
        )));
    }
    if declaration.node != settings.node {
        return Err(refused(format!(
            "it is for the node {:?}, and this is {:?}",
            declaration.node, settings.node
        )));
    }
    let accepted = Accepted {
        sequence: declaration.sequence,
        fence: declaration.fence,
        payload: Digest::plain(payload),
    };
    let Some(last) = &memory.accepted else {
        return Ok(Verified { declaration, accepted, same: false });
    };
    if accepted.sequence < last.sequence {
        return Err(refused(format!(
            "its sequence is {}, and {} was accepted before",
            accepted.sequence, last.sequence
        )));
    }
    if accepted.fence < last.fence {
        return Err(refused(format!(
            "its fence is {}, and {} was accepted before",
            accepted.fence, last.fence
        )));
    }
    if accepted.sequence == last.sequence && accepted.payload != last.payload {
        return Err(refused(format!(
            "another declaration with the sequence {} was accepted before",
            last.sequence
        )));
    }
    let same = accepted == *last;
    Ok(Verified { declaration, accepted, same })
}

//! What the managers of the machine hold.

use super::{Decided, Failure, View, failed};
use crate::desired::Desired;

pub(super) fn next(desired: &Desired, _: &View<'_>) -> Decided {
    let kind = desired.target().kind.name();
    Err(failed(Failure::Failed(format!("this program cannot apply a {kind} yet: use a newer one"))))
}

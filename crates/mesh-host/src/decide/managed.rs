//! What the managers of the machine hold.

use super::{Decided, Failure, View, failed, service};
use crate::desired::{Desired, Managed};
use mesh_model::resource::What;

pub(super) fn next(desired: &Desired, managed: &Managed, view: &View<'_>) -> Decided {
    match &managed.what {
        What::Service(declared) => service::next(declared, managed.private, view),
        _ => {
            let kind = desired.target().kind.name();
            Err(failed(Failure::Failed(format!("this program cannot apply a {kind} yet: use a newer one"))))
        }
    }
}

//! What the managers of the machine hold.

use super::{
    Decided, Failure, View, action, container, failed, network, opening, package, process, service, user,
};
use crate::desired::{Desired, Managed};
use mesh_model::resource::What;

pub(super) fn next(desired: &Desired, managed: &Managed, view: &View<'_>) -> Decided {
    match &managed.what {
        What::User(declared) => user::next(declared, view),
        _ if !view.managers => Ok(super::skipped()),
        What::Service(declared) => service::next(declared, managed.private, view),
        What::Process(declared) => process::next(&desired.id, declared, managed, view),
        What::Package(declared) => package::next(&declared.package.to_string(), view),
        What::Action(declared) => action::next(&desired.id, declared, managed.private, view),
        What::Container(declared) => container::next(desired, declared, managed.env.as_ref(), view),
        What::Network(_) => network::next(view),
        What::Opening(declared) => opening::next(&desired.id, declared, view),
        _ => {
            let kind = desired.target().kind.name();
            Err(failed(Failure::Failed(format!("this program cannot apply a {kind} yet: use a newer one"))))
        }
    }
}

//! Taking over a module on an adopted machine, by hand: a preview with its digest first, and then exactly that.

use super::{How, Input, Tell, Trouble, apply, broken, lock, memory, plan_as_if};
use crate::accepted;
use crate::digest::Digest;
use crate::record::Entry;
use crate::site::Site;
use mesh_model::host_api::Apply;
use mesh_model::report::{Report, Word};

/// How many hexadecimal digits of a preview's digest are enough.
const SHORT: usize = 12;

/// What taking over a module would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview(String);

impl Preview {
    /// The digest as it is printed: its first digits.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }

    /// Whether `given` is that digest, or at least its first twelve digits.
    pub fn is(&self, given: &str) -> bool {
        given.len() >= SHORT && self.0.starts_with(given)
    }
}

/// Looks and decides as if `module` were taken over, and does nothing. `tell` is called for each of its resources.
///
/// # Errors
/// Nothing of the module is held, or there is no own copy of a declaration.
pub fn preview(site: &Site, module: &str, tell: Tell<'_>) -> Result<Preview, Trouble> {
    let held = memory(site)?.holds.values().any(|hold| hold.origin.name() == module);
    if !held {
        return Err(Trouble::Refused(format!(
            "nothing is held of the module {module}: see mesh-host status"
        )));
    }
    let mut seen = String::new();
    let mut hear = |outcome: &mesh_model::report::Outcome, news: bool| {
        if outcome.module != module || outcome.word == Word::Unchanged {
            return;
        }
        let (from, to) = (outcome.from.as_deref().unwrap_or("-"), outcome.to.as_deref().unwrap_or("-"));
        seen.extend([outcome.id.as_str(), " ", outcome.word.as_str(), " ", from, " ", to, "\n"]);
        tell(outcome, news);
    };
    let taken = vec![Entry::Taken { module: module.to_owned() }];
    let (_, _) = plan_as_if(site, copy(site)?, taken, &mut hear)?;
    Ok(Preview(Digest::plain(seen.as_bytes()).as_str().trim_start_matches("sha256:").to_owned()))
}

/// Takes over what is held of `module`, and applies the own copy.
pub fn take(site: &Site, module: &str, tell: Tell<'_>) -> Result<Report, Trouble> {
    let input = copy(site)?;
    {
        let _lock = lock(site)?;
        let (mut journal, _) = site.journal().map_err(|error| broken("the state cannot be read", &error))?;
        let stored = journal
            .commit(vec![Entry::Taken { module: module.to_owned() }])
            .and_then(|()| journal.checkpoint());
        stored.map_err(|error| broken("the state cannot be written", &error))?;
    }
    apply(site, input, How::Apply, tell)
}

/// What was accepted last.
fn copy(site: &Site) -> Result<Input, Trouble> {
    let none = || Trouble::Refused("no declaration was applied here yet".to_owned());
    let own = site.sealing_key().map_err(|error| broken("the sealing key cannot be read", &error))?;
    let own = own.ok_or_else(none)?;
    let apply: Option<Apply> =
        accepted::load(site, &own).map_err(|error| broken("the own copy cannot be read", &error))?;
    Ok(Input::Mesh(Box::new(apply.ok_or_else(none)?)))
}

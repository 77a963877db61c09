//! How the work on a container ends, seen from what was there before.

use super::{Case, Status};
use crate::outcome::{Drift, Outcome, Verdict};

const CUT_OFF: &str = "an exchange that was cut off is finished";

impl Case<'_> {
    /// How the work ends, seen from what was there before.
    pub(super) fn verdict(&self) -> Verdict {
        let to = Some(self.label.clone());
        let recorded = self.recorded().filter(|record| !record.ends);
        let put_back = recorded.is_some_and(|record| record.digest == self.digest);
        let Some(before) = self.before() else {
            let verdict = match recorded {
                Some(_) if put_back => {
                    Verdict::new(Outcome::Corrected(Drift::Gone), "it had been removed from the machine")
                }
                Some(_) => Verdict::new(Outcome::Updated, "it had been removed from the machine"),
                None => Verdict::plain(Outcome::Created),
            };
            return verdict.moved(None, to);
        };
        let pick_up = self.owed().map_or_else(String::new, |ids| format!("to pick up {ids}"));
        if !self.fits(before) {
            // What the label says is not what this host recorded: a person made it again, or a kill came between.
            let detail =
                if pick_up.is_empty() { "replaced".to_owned() } else { format!("replaced; and {pick_up}") };
            return Verdict::new(Outcome::Updated, detail).moved(before.digest.clone(), to);
        }
        if !pick_up.is_empty() {
            return Verdict::new(Outcome::Updated, format!("recreated {pick_up}"))
                .moved(before.digest.clone(), to);
        }
        if before.status != Status::Running {
            let was = match before.status {
                Status::Exited(code) => format!("exited with {code}"),
                Status::Restarting => "restarting".to_owned(),
                _ => "not started".to_owned(),
            };
            let verdict = if put_back {
                Verdict::new(Outcome::Corrected(Drift::State), "it did not run")
            } else {
                Verdict::new(Outcome::Updated, "started")
            };
            return verdict.moved(was, "running".to_owned());
        }
        if !before.lasts && !self.view.did.is_empty() {
            return if put_back {
                Verdict::new(Outcome::Corrected(Drift::Boot), "it would not have been started at boot")
            } else {
                Verdict::new(Outcome::Updated, CUT_OFF)
            };
        }
        if self.recorded().is_none() && self.begun() {
            return Verdict::plain(Outcome::Created).moved(None, to);
        }
        if self.view.did.is_empty() {
            Verdict::plain(Outcome::Unchanged)
        } else {
            Verdict::new(Outcome::Updated, CUT_OFF)
        }
    }
}

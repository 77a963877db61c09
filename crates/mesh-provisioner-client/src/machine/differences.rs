//! What differs between what was applied and what would be handed over, in words. No value is among them: of a secret its
//! revision is told, of everything else that it changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Client;

impl Client {
    /// A line for each difference: `+` is new, `~` is another, `-` is gone.
    pub(super) fn differences(&self) -> String {
        let mut text = String::new();
        let memory = &self.settings.memory;
        for (name, module) in &self.modules {
            let Some(fitting) = module.fitting.as_ref().filter(|_| module.whole.is_some()) else { continue };
            let version = &fitting.assignment.version;
            let Some(done) = memory.done(name) else {
                writeln!(text, "+ {name} version {version}").ok();
                continue;
            };
            if done.applied.version != *version {
                writeln!(text, "~ {name} version {} → {version}", done.applied.version).ok();
            }
            if done.applied.assignment != module.part.assignment {
                writeln!(text, "~ {name} assignment «changed»").ok();
            }
            if done.applied.settings != module.part.settings {
                writeln!(text, "~ {name} settings «changed»").ok();
            }
            let held = self.held_revisions(name);
            revisions(&mut text, name, &done.applied.secrets, &held);
            if module.outside != Some(done.outside) && held == done.applied.secrets {
                writeln!(text, "~ {name} bound «changed»").ok();
            }
        }
        for name in memory.modules.keys().filter(|name| !self.modules.contains_key(*name)) {
            writeln!(text, "- {name}").ok();
        }
        text
    }
}

fn revisions(text: &mut String, module: &str, before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) {
    let kind = |name: &str| if name.starts_with("consumers:") { "" } else { "secret:" };
    for (name, revision) in now {
        let kind = kind(name);
        match before.get(name) {
            None => writeln!(text, "+ {module} {kind}{name} «{kind}{name}»").ok(),
            Some(old) if old != revision => {
                writeln!(text, "~ {module} {kind}{name} revision {old} → {revision}").ok()
            }
            Some(_) => None,
        };
    }
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        writeln!(text, "- {module} {}{name}", kind(name)).ok();
    }
}

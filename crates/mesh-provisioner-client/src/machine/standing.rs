//! How the client stands: a line for the service manager, and the status file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::module::Stand;
use super::{Client, Counters};

/// The contents of the status file.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    live: bool,
    ready: bool,
    /// In words.
    #[serde(rename = "status")]
    words: String,
    node: String,
    connected: bool,
    /// The sequence of the declaration that was read.
    sequence: Option<u64>,
    /// Why the host did not take the last hand-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    modules: BTreeMap<String, ModuleStatus>,
    counters: Counters,
}

/// How a module stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Current, applying, waiting, failed, left alone.
    pub state: String,
    /// Why, where the host did not apply it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How many needs are filled.
    pub filled: usize,
    /// Those that are not.
    #[serde(default)]
    pub waiting: Vec<NeedStatus>,
}

/// How a need stands that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NeedStatus {
    /// `kind:name`
    pub need: String,
    /// Why it waits.
    pub why: String,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_of: Option<String>,
    /// How often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u64>,
    /// The last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// For how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl Client {
    pub(super) fn stands(&self, now: Duration, live: bool) -> Status {
        Status {
            live,
            ready: live && self.ready && self.link.is_up(),
            words: if live { self.line() } else { "the client has ended".to_owned() },
            node: self.settings.node.clone(),
            connected: self.link.is_up(),
            sequence: self.declaration.as_ref().map(|(_, declaration)| declaration.sequence),
            host: self.host_problem.clone(),
            modules: self.modules.keys().map(|name| (name.clone(), self.module_status(name, now))).collect(),
            counters: self.counters,
        }
    }

    /// How one module stands.
    pub fn module_status(&self, name: &str, now: Duration) -> ModuleStatus {
        let Some(module) = self.modules.get(name) else { return ModuleStatus::default() };
        let applying = self.applying.as_ref().is_some_and(|applying| applying.modules.contains_key(name));
        let state = if module.is_left_alone() {
            "left alone"
        } else if applying {
            "applying"
        } else if self.stands_as_applied(name) {
            "current"
        } else if module.failed.is_some() && module.failed == module.whole {
            "failed"
        } else {
            "waiting"
        };
        let waiting = module.stands.iter().filter(|(_, stand)| *stand != Stand::Filled);
        let waiting = waiting.map(|(need, stand)| {
            let why = match stand {
                Stand::Waiting(why) => why.to_string(),
                Stand::Unread | Stand::Filled => "not read yet".to_owned(),
            };
            let ask = self.asks.get(&(name.to_owned(), need.kind.clone(), need.name.clone()));
            NeedStatus {
                need: format!("{}:{}", need.kind, need.name),
                why,
                asked_of: ask.map(|ask| ask.verb.clone()),
                tries: ask.map(|ask| ask.tries),
                last: ask.map(|ask| ask.last.clone()),
                seconds: ask.map(|ask| now.saturating_sub(ask.since).as_secs()),
            }
        });
        ModuleStatus {
            state: state.to_owned(),
            problem: module.problem.clone().or_else(|| module.broken.clone()),
            filled: module.stands.iter().filter(|(_, stand)| *stand == Stand::Filled).count(),
            waiting: waiting.collect(),
        }
    }

    pub(super) fn line(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for name in self.modules.keys() {
            *counts.entry(self.module_status(name, self.now).state).or_default() += 1;
        }
        let current = counts.remove("current").unwrap_or(0);
        let mut text = format!("{current} current");
        for (state, count) in counts {
            write!(text, ", {count} {state}").ok();
        }
        let first: Vec<String> = self
            .modules
            .iter()
            .flat_map(|(name, module)| module.waiting().map(move |(need, _)| format!("{name}: {need}")))
            .take(3)
            .collect();
        if !first.is_empty() {
            write!(text, " ({})", first.join("; ")).ok();
        }
        if !self.link.is_up() {
            text.push_str("; the bus is away");
        }
        if let Some(why) = &self.host_problem {
            write!(text, "; the host: {why}").ok();
        }
        text
    }
}

//! What comes from the bus: entries of buckets, and answers.

use std::collections::BTreeSet;

use log::Level;
use mesh_model::declaration::Declaration;
use mesh_model::name;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_model::standing::Revision;
use mesh_service::follow::Entry;

use super::assess::provided;
use super::{
    APPLIED, ASSIGNMENTS, COLLECT, Call, Client, DECLARATIONS, FIRST_BOUND, NEEDS, REGISTRY, REVISIONS,
    SETTINGS, Topic,
};

impl Client {
    pub(super) fn entry(&mut self, place: usize, entry: Entry) {
        let Entry { key, value, revision, .. } = entry;
        match place {
            DECLARATIONS => {
                // A declaration that is gone changes nothing: only a newer one does.
                if let Some(value) = value.filter(|_| key == self.token) {
                    self.declare(&value);
                }
            }
            ASSIGNMENTS | SETTINGS => {
                let module = self.names(&key).and_then(|names| single(&names));
                // The same with what it names.
                if let (Some(module), Some(value)) = (module, value) {
                    self.raw[place - ASSIGNMENTS].insert(module.clone(), value);
                    self.dirty.insert(module);
                }
            }
            REGISTRY => {
                if let Ok(kind) = name::decode(&key) {
                    match value {
                        Some(value) => drop(self.registry.insert(kind, value)),
                        None => drop(self.registry.remove(&kind)),
                    }
                    self.all_dirty();
                }
            }
            REVISIONS => {
                let names: Option<[String; 2]> = self.names(&key).and_then(|names| names.try_into().ok());
                let Some([module, name]) = names else { return };
                let Some(value) = value else { return };
                match serde_json::from_slice::<Revision>(&value) {
                    Ok(value) => self.revision(module, name, value.revision),
                    Err(_) => self.notice(
                        Level::Warn,
                        Topic::Bucket,
                        "revision",
                        "a revision of a secret cannot be read; the last good one stays",
                    ),
                }
            }
            NEEDS | APPLIED | COLLECT => self.mirrors[place - NEEDS].entry(key, value, revision),
            _ => self.bound_entry(place, &key, value),
        }
    }

    /// The names of a key below this node.
    fn names(&self, key: &str) -> Option<Vec<String>> {
        let rest = key.strip_prefix(&self.token)?.strip_prefix('.')?;
        rest.split('.').map(|token| name::decode(token).ok()).collect()
    }

    fn provider_of(&self, place: usize) -> Option<String> {
        self.bound_places.iter().find(|(_, of)| **of == place).map(|(module, _)| module.clone())
    }

    fn bound_entry(&mut self, place: usize, key: &str, value: Option<Vec<u8>>) {
        let Some(provider) = self.provider_of(place) else { return };
        let Some(names) = self.names(key) else { return };
        let is_looked_for = self.is_looked_for(&provider, &names);
        let Some(module) = names.into_iter().next() else { return };
        let at = (provider, key.to_owned());
        if !is_looked_for {
            self.left_out.insert(place);
            self.bound.remove(&at);
            return;
        }
        match value {
            // What cannot be read does not take the place of what could.
            Some(value) if provided(&value).is_some() || !self.bound.contains_key(&at) => {
                self.bound.insert(at, value);
            }
            Some(_) => {}
            None => drop(self.bound.remove(&at)),
        }
        self.dirty.insert(module);
    }

    pub(super) fn complete(&mut self, place: usize, list: &BTreeSet<String>) {
        match place {
            DECLARATIONS => {}
            REGISTRY => {
                self.registry.retain(|kind, _| list.contains(&name::encode(kind)));
                self.all_dirty();
            }
            ASSIGNMENTS | SETTINGS => {
                let modules: Vec<String> = self.modules.keys().cloned().collect();
                self.dirty.extend(modules);
            }
            REVISIONS => self.all_dirty(),
            NEEDS | APPLIED | COLLECT => self.mirrors[place - NEEDS].complete(list),
            _ => {
                let Some(provider) = self.provider_of(place) else { return };
                self.bound.retain(|(of, key), _| *of != provider || list.contains(key));
                self.all_dirty();
            }
        }
    }

    /// The bucket does not exist, or cannot be read.
    pub(super) fn missing(&mut self, place: usize) {
        if place >= FIRST_BOUND
            && let Some(provider) = self.provider_of(place)
            && self.follows[place].reading() == mesh_service::follow::Reading::Missing
        {
            self.bound.retain(|(of, _), _| *of != provider);
        }
        self.all_dirty();
    }

    pub(super) fn all_dirty(&mut self) {
        self.dirty.extend(self.modules.keys().cloned());
    }

    fn declare(&mut self, bytes: &[u8]) {
        let refused = |client: &mut Client, why: String| {
            client.notice(
                Level::Error,
                Topic::Declaration,
                &why,
                &format!("the declaration is left alone: {why}"),
            );
        };
        let envelope = match Envelope::parse(bytes) {
            Ok(envelope) => envelope,
            Err(problem) => return refused(self, problem.to_string()),
        };
        let declaration: Declaration = match envelope.open(PayloadType::Declaration, &self.settings.mesh_key)
        {
            Ok(declaration) => declaration,
            Err(why) => return refused(self, why.to_string()),
        };
        if declaration.mesh != self.settings.mesh || declaration.node != self.settings.node {
            return refused(self, "it is for another mesh or node".to_owned());
        }
        let before = self.declaration.as_ref().map(|(_, before)| before.sequence);
        if declaration.sequence < before.unwrap_or_default().max(self.settings.memory.sequence) {
            let why = format!("its sequence {} is an old one: push to this node", declaration.sequence);
            return refused(self, why);
        }
        if self.declaration.as_ref().is_some_and(|(known, _)| *known == envelope) {
            return;
        }
        self.take_declaration(envelope, declaration);
    }

    pub(super) fn reply(&mut self, number: u64, no_responders: bool, failed: bool, body: &[u8]) {
        let Some((call, _)) = self.calls.remove(&number) else {
            self.counters.dropped += 1;
            return;
        };
        match call {
            Call::Follow(place) => {
                if self.follows[place].awaits(number) {
                    let steps = self.follows[place].answered(no_responders, body, self.now);
                    self.steps(place, steps);
                }
            }
            Call::Verb(asked) => self.verb_answered(&asked, no_responders, failed, body),
            Call::Write(mirror, key) => self.write_answered(mirror, &key, Some(body)),
            Call::Report => self.report_answered(no_responders, body),
        }
    }

    /// Calls whose answer did not come in time.
    pub(super) fn overdue(&mut self) {
        let now = self.now;
        let late: Vec<u64> =
            self.calls.iter().filter(|(_, (_, until))| *until <= now).map(|(number, _)| *number).collect();
        for number in late {
            let Some((call, _)) = self.calls.remove(&number) else { continue };
            match call {
                // It notices by itself.
                Call::Follow(_) => {}
                Call::Verb(asked) => self.verb_silent(&asked),
                Call::Write(mirror, key) => self.write_answered(mirror, &key, None),
                Call::Report => self.report_due = Some(now + super::link::PATIENCE),
            }
        }
    }

    /// The server denied publishing to that subject.
    pub(super) fn denied(&mut self, subject: &str) {
        let is_denied = |call: &Call| match call {
            Call::Verb(asked) => self.asks.get(asked).is_some_and(|ask| ask.verb == subject),
            _ => false,
        };
        let calls: Vec<u64> =
            self.calls.iter().filter(|(_, (call, _))| is_denied(call)).map(|(number, _)| *number).collect();
        for number in calls {
            if let Some((Call::Verb(asked), _)) = self.calls.remove(&number) {
                self.verb_denied(&asked);
            }
        }
    }
}

fn single(names: &[String]) -> Option<String> {
    match names {
        [name] => Some(name.clone()),
        _ => None,
    }
}

//! From what was read to how each need stands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh_model::assignment::{Assignment, Need, PlacedKind};
use mesh_model::bucket::Bucket;
use mesh_model::declaration::Declaration;
use mesh_model::digest::Digest;
use mesh_model::host_api::{Given, MAX_VALUE_DEPTH};
use mesh_model::json::{At, Json, Read as _};
use mesh_model::name;
use mesh_model::object::Object;
use mesh_model::placeholder::{Declared, fill_item};
use mesh_model::registry::is_entry_of;
use mesh_model::signed::Envelope;
use mesh_model::standing::{NeedValue, Why, consumers_name};
use mesh_service::follow::Reading;

use super::asks::{Ask, Asked, Held};
use super::module::{Fitting, Module, Stand};
use super::{Change, Client, FIRST_BOUND, MOST_PROVIDERS, REGISTRY};

/// How long the bytes that a declaration names may come after it.
pub(super) const LATE: Duration = Duration::from_secs(2);

/// Where the values of a kind are, as the registry says.
enum Found {
    Placement(PlacedKind),
    Settings,
    Collection,
    Bound,
    Verb { verb: String, provider: String },
}

impl Client {
    pub(super) fn take_declaration(&mut self, envelope: Envelope, declaration: Declaration) {
        let names: BTreeSet<String> = declaration.modules.iter().map(|part| part.module.clone()).collect();
        self.modules.retain(|name, _| names.contains(name));
        self.asks.retain(|(module, _, _), _| names.contains(module));
        for part in &declaration.modules {
            let remembered = self.settings.memory.done(&part.module).map(|done| done.outside);
            match self.modules.get_mut(&part.module) {
                Some(module) if module.part == *part => {}
                Some(module) => {
                    module.part = part.clone();
                    module.fitting = None;
                    module.broken = None;
                    module.failed = None;
                    module.retry = None;
                    module.failures = 0;
                }
                None => {
                    let mut module = Module::new(part.clone());
                    module.with_host = remembered;
                    self.modules.insert(part.module.clone(), module);
                }
            }
        }
        for mirror in &mut self.mirrors {
            mirror.declare(names.clone());
        }
        self.declared_at = self.now;
        self.late_at = Some(self.now + LATE);
        self.full_retry = None;
        self.say(
            log::Level::Info,
            format!("declaration {} with {} modules", declaration.sequence, declaration.modules.len()),
        );
        self.declaration = Some((envelope, declaration));
        self.note_change();
        self.all_dirty();
    }

    pub(super) fn note_change(&mut self) {
        let now = self.now;
        let change = self.change.get_or_insert(Change { first: now, last: now });
        change.last = now;
    }

    /// Looks at every module of which something is new.
    pub(super) fn assess(&mut self) {
        if self.declaration.is_none() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        // What fits first: collections are of all modules.
        let mut came = false;
        for name in &dirty {
            came |= self.fit(name);
        }
        if came {
            // What was left out of providers' buckets may be looked for now.
            for place in std::mem::take(&mut self.left_out) {
                let steps = self.follows[place].relist(self.now);
                self.steps(place, steps);
            }
            let collecting = self.modules.iter().filter(|(_, module)| collects(module));
            dirty.extend(collecting.map(|(name, _)| name.clone()));
        }
        for name in dirty {
            if self.modules.contains_key(&name) {
                self.assess_module(&name);
            }
        }
    }

    /// Takes the bytes of a module if they fit. Returns whether they came now.
    fn fit(&mut self, name: &str) -> bool {
        let Some(module) = self.modules.get_mut(name) else { return false };
        if module.fitting.is_some() || module.broken.is_some() {
            return false;
        }
        let [assignments, settings] = &self.raw;
        let (Some(assignment), Some(settings)) = (assignments.get(name), settings.get(name)) else {
            return false;
        };
        if Digest::of(assignment) != module.part.assignment || Digest::of(settings) != module.part.settings {
            return false;
        }
        match (Assignment::from_json_bytes(assignment), Json::parse_bytes(settings)) {
            (Ok(parsed), Ok(json)) if parsed.module == *name => {
                let bytes = [assignment.clone(), settings.clone()];
                module.fitting = Some(Fitting { assignment: parsed, settings: json, bytes });
            }
            (Ok(_), Ok(_)) => module.broken = Some("the assignment is of another module".to_owned()),
            (Err(problem), _) => module.broken = Some(format!("the assignment: {problem}")),
            (_, Err(problem)) => module.broken = Some(format!("the settings: {problem}")),
        }
        true
    }

    fn assess_module(&mut self, name: &str) {
        let needs = self.needs_of(name);
        let mut stands = Vec::with_capacity(needs.len());
        for need in needs {
            let stand = self.stand(name, &need);
            stands.push((need, stand));
        }
        let digests = self.digests(name, &stands);
        let Some(module) = self.modules.get_mut(name) else { return };
        let is_new = digests.map(|(whole, _)| whole) != module.whole;
        module.stands = stands;
        module.whole = digests.map(|(whole, _)| whole);
        module.outside = digests.map(|(_, outside)| outside);
        if is_new && module.whole.is_some() {
            self.note_change();
        }
        self.publish(name);
    }

    /// The needs of the bytes that fit; late, of those that do not.
    fn needs_of(&self, name: &str) -> Vec<Need> {
        let Some(module) = self.modules.get(name) else { return Vec::new() };
        if let Some(fitting) = &module.fitting {
            return fitting.assignment.needs.clone().unwrap_or_default();
        }
        let loose = self.raw[0].get(name).and_then(|bytes| Assignment::from_json_bytes(bytes).ok());
        loose.and_then(|assignment| assignment.needs).unwrap_or_default()
    }

    fn stand(&mut self, name: &str, need: &Need) -> Stand {
        let found = match self.found(&need.kind) {
            Ok(found) => found,
            Err(stand) => return stand,
        };
        let Some(fitting) = self.modules.get(name).and_then(|module| module.fitting.as_ref()) else {
            let is_late = self.now >= self.declared_at + LATE;
            return if is_late { Stand::Waiting(Why::DigestDoesNotFit) } else { Stand::Unread };
        };
        match found {
            Found::Placement(kind) => {
                let value = fitting.assignment.placement.value(kind, &need.name);
                value.map_or(Stand::Waiting(Why::ValueMissing), |_| Stand::Filled)
            }
            Found::Settings => present(fitting.settings.at_path(&need.name)),
            Found::Collection => {
                if self.modules.values().all(|module| module.fitting.is_some()) {
                    Stand::Filled
                } else if self.now >= self.declared_at + LATE {
                    Stand::Waiting(Why::DigestDoesNotFit)
                } else {
                    Stand::Unread
                }
            }
            Found::Bound => self.bound_stand(name, need),
            Found::Verb { verb, provider } => self.verb_stand(name, need, &verb, &provider),
        }
    }

    /// What the registry says of a kind.
    fn found(&self, kind: &str) -> Result<Found, Stand> {
        if !self.was_read.contains(&REGISTRY) {
            return Err(match self.follows[REGISTRY].reading() {
                Reading::Missing => Stand::Waiting(Why::BucketMissing),
                _ => Stand::Unread,
            });
        }
        let Some(bytes) = self.registry.get(kind) else { return Err(Stand::Waiting(Why::NoEntry)) };
        let not_understood = Stand::Waiting(Why::EntryNotUnderstood);
        let object = Object::parse(bytes).map_err(|_| not_understood)?;
        if !is_entry_of(kind, &object) {
            return Err(not_understood);
        }
        let (verb, bucket) = (object.text("verb"), object.text("bucket"));
        let provider = object.text("module").unwrap_or_default();
        let collection = ["collected", "shell", "environment", "contribution"].contains(&kind);
        match (kind, verb, bucket.as_deref()) {
            ("secret" | "consumers", Some(verb), None) => Ok(Found::Verb { verb, provider }),
            ("config", None, Some("mesh-controller_settings")) => Ok(Found::Settings),
            ("bound", None, Some("<provider-module>_bound")) => Ok(Found::Bound),
            (_, None, Some(bucket)) if collection && bucket == Bucket::Collect.name() => {
                Ok(Found::Collection)
            }
            (kind, None, Some("mesh-controller_assignments")) => {
                kind.parse().map(Found::Placement).map_err(|_| not_understood)
            }
            _ => Err(not_understood),
        }
    }

    fn bound_stand(&mut self, name: &str, need: &Need) -> Stand {
        let Some(provider) = need.provider.as_ref().map(|provider| provider.module.clone()) else {
            return Stand::Waiting(Why::ValueMissing);
        };
        let place = match self.bound_places.get(&provider) {
            Some(place) => *place,
            None if self.bound_places.len() >= MOST_PROVIDERS => {
                return Stand::Waiting(Why::BucketMissing);
            }
            None => {
                let below = format!("{}.>", self.token);
                let place = self.add_follow(&format!("{provider}_bound"), &below);
                self.bound_places.insert(provider.clone(), place);
                if self.link.is_up() {
                    self.follow_up(place);
                }
                place
            }
        };
        debug_assert!(place >= FIRST_BOUND);
        if let Some(value) = self.bound_value(name, need) {
            return match provided(value) {
                Some(Json::Null) => Stand::Waiting(Why::Null),
                Some(_) => Stand::Filled,
                None => Stand::Waiting(Why::Nonsense),
            };
        }
        match self.follows[place].reading() {
            Reading::Missing => Stand::Waiting(Why::BucketMissing),
            Reading::Refused => Stand::Waiting(Why::Refused),
            Reading::Current => Stand::Waiting(Why::ProviderHasNotAnswered),
            Reading::Listing => Stand::Unread,
        }
    }

    /// The provider's word to this consumer: to this entry of it, or to all of its entries of the provision.
    fn bound_value(&self, name: &str, need: &Need) -> Option<&Vec<u8>> {
        let provider = need.provider.as_ref()?.module.clone();
        let provision = name::encode(need.provision.as_deref().unwrap_or(&need.name));
        let general = format!("{}.{}.{provision}", self.token, name::encode(name));
        let own = format!("{general}.{}", name::encode(&need.name));
        let look = |key: String| self.bound.get(&(provider.clone(), key));
        look(own).or_else(|| look(general))
    }

    /// Whether a need looks for the provider's key of these names below the node: module, provision, and perhaps the entry.
    pub(super) fn is_looked_for(&self, provider: &str, names: &[String]) -> bool {
        let [module, provision, entry @ ..] = names else { return false };
        let stands = self.modules.get(module).map(|module| module.stands.as_slice()).unwrap_or_default();
        stands.iter().any(|(need, _)| {
            need.kind == "bound"
                && need.provider.as_ref().is_some_and(|by| by.module == provider)
                && need.provision.as_ref().unwrap_or(&need.name) == provision
                && (entry.is_empty() || *entry == [need.name.clone()])
        })
    }

    fn verb_stand(&mut self, name: &str, need: &Need, verb: &str, provider: &str) -> Stand {
        let asked: Asked = (name.to_owned(), need.kind.clone(), need.name.clone());
        let now = self.now;
        let known = if need.kind == "consumers" { consumers_name(&need.name) } else { need.name.clone() };
        if !self.asks.contains_key(&asked) {
            let mut ask = Ask::new(verb, provider, now);
            // What went in last time is with the host, and need not be asked for again.
            let done = self.settings.memory.done(name);
            let revision = done.and_then(|done| done.applied.secrets.get(&known).copied());
            ask.held = revision.map(|revision| Held { revision, given: None });
            ask.newest = self.revisions.get(&(name.to_owned(), known)).copied().unwrap_or(0);
            self.asks.insert(asked.clone(), ask);
        }
        let Some(ask) = self.asks.get_mut(&asked) else { return Stand::Unread };
        if ask.verb != verb || ask.provider != provider {
            verb.clone_into(&mut ask.verb);
            provider.clone_into(&mut ask.provider);
        }
        match (&ask.held, ask.why) {
            (Some(_), _) => Stand::Filled,
            (None, Some(why)) => Stand::Waiting(why),
            (None, None) => Stand::Unread,
        }
    }

    /// The digests of a module whose needs are all filled.
    fn digests(&self, name: &str, stands: &[(Need, Stand)]) -> Option<(Digest, Digest)> {
        let module = self.modules.get(name)?;
        let fitting = module.fitting.as_ref()?;
        fitting.assignment.needs.as_ref()?;
        if stands.iter().any(|(_, stand)| *stand != Stand::Filled) {
            return None;
        }
        let memory = &self.settings.memory;
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for (need, _) in stands {
            let piece = match need.kind.as_str() {
                "bound" => self.bound_value(name, need).cloned(),
                "secret" | "consumers" => {
                    let asked = (name.to_owned(), need.kind.clone(), need.name.clone());
                    let held = self.asks.get(&asked).and_then(|ask| ask.held.as_ref());
                    held.map(|held| held.revision.to_string().into_bytes())
                }
                _ => None,
            };
            let Some(piece) = piece else { continue };
            pieces.push(format!("{}:{}", need.kind, need.name).into_bytes());
            // Spaces and a final newline are not a change of a value.
            let canonical =
                Json::parse_bytes(&piece).map_or(piece, |json| sorted(json).to_string().into_bytes());
            pieces.push(canonical);
        }
        let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let outside = memory.digest(&slices);
        let mut all: Vec<Digest> = vec![module.part.assignment, module.part.settings, outside];
        if collects(module) {
            for other in self.modules.values().filter(|other| contributes(other)) {
                all.extend([other.part.assignment, other.part.settings]);
            }
        }
        let all: Vec<&[u8]> = all.iter().map(|digest| &digest.bytes()[..]).collect();
        Some((memory.digest(&all), outside))
    }

    /// The values from outside of a module. An error: those whose bytes are not here.
    pub(super) fn outside_values(&self, name: &str) -> Result<BTreeMap<String, Given>, Vec<Asked>> {
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        let stands = self.modules.get(name).map(|module| module.stands.as_slice()).unwrap_or_default();
        for (need, _) in stands {
            let key = format!("{}:{}", need.kind, need.name);
            match need.kind.as_str() {
                "bound" => {
                    let value = self.bound_value(name, need).and_then(|bytes| Json::parse_bytes(bytes).ok());
                    values.extend(value.map(|json| {
                        (
                            key,
                            match json {
                                Json::Text(text) => Given::Text(text),
                                other => Given::Json(other),
                            },
                        )
                    }));
                }
                "secret" | "consumers" => {
                    let asked = (name.to_owned(), need.kind.clone(), need.name.clone());
                    let held = self.asks.get(&asked).and_then(|ask| ask.held.as_ref());
                    match held.and_then(|held| held.given.clone()) {
                        Some(given) => drop(values.insert(key, given)),
                        None => missing.push(asked),
                    }
                }
                _ => {}
            }
        }
        if missing.is_empty() { Ok(values) } else { Err(missing) }
    }

    /// What the buckets should say of a module.
    fn publish(&mut self, name: &str) {
        let Some(module) = self.modules.get(name) else { return };
        let is_unread = module.stands.iter().any(|(_, stand)| *stand == Stand::Unread);
        let left_alone = module.is_left_alone();
        if is_unread || left_alone || (module.fitting.is_none() && module.stands.is_empty()) {
            return;
        }
        let plan = module.part.plan();
        let token = name::encode(name);
        let mut needs = BTreeMap::new();
        for (need, stand) in &module.stands {
            let why = match stand {
                Stand::Waiting(why) => Some(*why),
                Stand::Unread | Stand::Filled => None,
            };
            let answered_by = self.registry.get(&need.kind).and_then(|bytes| {
                Object::parse(bytes).ok()?.text("module").filter(|module| !module.starts_with('<'))
            });
            let value = NeedValue { why, answered_by: answered_by.as_deref(), plan: &plan, need };
            let text = serde_json::to_string(&value).expect("texts and numbers");
            let key = format!("{}.{token}.{}.{}", self.token, need.kind, name::encode(&need.name));
            needs.insert(key, text);
        }
        let mut items = BTreeMap::new();
        if let Some(fitting) = &module.fitting {
            let declared = Declared::by_needs(fitting.assignment.needs.as_deref().unwrap_or_default());
            for given in &fitting.assignment.contributes {
                let at = At::Root;
                let placement = &fitting.assignment.placement;
                // What cannot be filled is said by the host, which refuses the module.
                if let Ok(item) = fill_item(&given.item, &declared, placement, &fitting.settings, &at) {
                    let key = format!("{}.{}.{token}", self.token, name::encode(&given.collection));
                    items.insert(key, item.to_string());
                }
            }
            self.mirrors[2].want(name, items);
        }
        self.mirrors[0].want(name, needs);
    }

    /// After the time that bytes may come late, what is still missing is said.
    pub(super) fn late(&mut self) {
        if self.late_at.is_some_and(|at| at <= self.now) {
            self.late_at = None;
            let waiting = self.modules.iter().filter(|(_, module)| !module.is_settled());
            let waiting: Vec<String> = waiting.map(|(name, _)| name.clone()).collect();
            self.dirty.extend(waiting);
        }
    }
}

/// What a provider wrote, if it can be handed over: one value that is nested too deep would spoil the whole request.
pub(super) fn provided(value: &[u8]) -> Option<Json> {
    Json::parse_bytes(value).ok().filter(|json| json.depth() <= MAX_VALUE_DEPTH)
}

fn present(value: Option<&Json>) -> Stand {
    match value {
        None => Stand::Waiting(Why::ValueMissing),
        Some(Json::Null) => Stand::Waiting(Why::Null),
        Some(_) => Stand::Filled,
    }
}

/// Whether a module takes something out of a collection.
pub(super) fn collects(module: &Module) -> bool {
    let kinds = ["collected", "shell", "environment", "contribution"];
    let needs = module.fitting.as_ref().and_then(|fitting| fitting.assignment.needs.as_ref());
    needs.is_some_and(|needs| needs.iter().any(|need| kinds.contains(&need.kind.as_str())))
}

fn contributes(module: &Module) -> bool {
    module.fitting.as_ref().is_some_and(|fitting| !fitting.assignment.contributes.is_empty())
}

/// Members in the order of their names: another order is not another value.
fn sorted(json: Json) -> Json {
    match json {
        Json::Object(mut members) => {
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Json::Object(members.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Json::List(items) => Json::List(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

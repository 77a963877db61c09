//! The verbs of the operator: they act on signatures, never on who seems to ask, and each id is good once.

use super::answer::Waiting;
use super::judge::Verdict;
use super::link::LinkState;
use super::{Job, Vault};
use crate::place::Place;
use crate::task::{Once, Outcome, Work};
use crate::wire::{Reason, Refusal, Verb};
use mesh_model::assignment::Need;
use mesh_model::name;
use mesh_model::signed::{Envelope, PayloadType, Refused};
use mesh_model::vault_api::{self, ExportAnswer, SignedRequest};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long a signed request is good, and how far the clocks may differ.
const GOOD_FOR: Duration = Duration::from_secs(15 * 60);

/// How many bytes the copies of a page may take.
const PAGE_BYTES: usize = 512 * 1024;

/// How much of `max_payload` a page leaves.
const MARGIN: usize = 8 * 1024;

/// The longest id, in bytes.
const MAX_ID_BYTES: usize = 64;

impl Vault {
    pub(super) fn on_signed(&mut self, answer: Waiting, body: &[u8], now: Duration) {
        let begun = self.read_signed(answer.verb, body, now).and_then(|(request, once)| {
            let id = once.id.clone();
            let work = match answer.verb {
                Verb::Accept => self.accept(request, once),
                Verb::Rotate => self.rotate(&request, once),
                _ => Ok(self.export(request, once)),
            }?;
            Ok((work, id))
        });
        let (work, id) = match begun {
            Ok(begun) => begun,
            Err(refusal) => return self.reject(answer, &refusal, now),
        };
        let job = match &work {
            Work::Make { place, revision, .. } | Work::Accept { place, revision, .. } => {
                self.busy.insert(place.clone());
                let (place, revision) = (place.clone(), *revision);
                Job::Keep { place, revision, answer: Some(answer), id: Some(id), sequence: None }
            }
            _ => Job::Export { answer, id },
        };
        self.begin(work, job);
    }

    /// Verifies a request: its signature, its mesh, its verb, its time.
    fn read_signed(&self, verb: Verb, body: &[u8], now: Duration) -> Result<(SignedRequest, Once), Refusal> {
        let bad = |why: String| Refusal::new(Reason::BadRequest, why);
        let not_signed = |why: String| Refusal::new(Reason::NotSigned, why);
        let envelope =
            Envelope::parse(body).map_err(|problem| bad(format!("no signed request: {problem}")))?;
        let opened = envelope.open::<SignedRequest>(PayloadType::VaultRequest, self.known.key());
        let request = opened.map_err(|refused| match refused {
            Refused::Shape(problem) => bad(format!("the request: {problem}")),
            refused => not_signed(format!("the request does not count: {refused}")),
        })?;
        if self.known.mesh.as_ref().is_some_and(|mesh| *mesh != request.mesh) {
            return Err(not_signed(format!("the request is of the mesh {:?}", request.mesh)));
        }
        let of = match request.verb {
            vault_api::Verb::Accept => Verb::Accept,
            vault_api::Verb::Rotate => Verb::Rotate,
            vault_api::Verb::Export => Verb::Export,
        };
        if of != verb {
            return Err(bad(format!(
                "the request is of the verb {}, and came to {}",
                request.verb,
                verb.subject()
            )));
        }
        if request.id.is_empty()
            || request.id.len() > MAX_ID_BYTES
            || !request.id.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(bad(format!("the id is not 1 to {MAX_ID_BYTES} printable characters")));
        }
        for name in [&request.node, &request.module].into_iter().flatten() {
            name::check(name).map_err(|why| bad(format!("the name {name:?} {why}")))?;
        }
        if verb != Verb::Export
            && let Some(name) = &request.name
        {
            name::check(name).map_err(|why| bad(format!("the name {name:?} {why}")))?;
        }
        let Some(clock) = self.clock else {
            return Err(Refusal::new(Reason::NotRead, "the vault has not read its clock yet: ask again"));
        };
        let wall = clock + now;
        let at = OffsetDateTime::parse(&request.at, &Rfc3339)
            .map_err(|why| bad(format!("at is not a time: {why}")))?;
        let at = u64::try_from(at.unix_timestamp()).unwrap_or(0);
        if wall.as_secs().abs_diff(at) > GOOD_FOR.as_secs() {
            return Err(not_signed(format!(
                "the request was signed at {}, and it is {} s since 1970 here: a request is good for {} minutes; compare the clocks",
                request.at,
                wall.as_secs(),
                GOOD_FOR.as_secs() / 60
            )));
        }
        if !self.is_on_duty() {
            return Err(Refusal::new(Reason::NotRead, self.tell_unread()));
        }
        let once = Once { id: request.id.clone(), now: wall.as_secs() };
        Ok((request, once))
    }

    /// The place of a request, which nobody else is about to change.
    fn place_of(&self, request: &SignedRequest) -> Result<Place, Refusal> {
        let (Some(node), Some(module), Some(name)) = (&request.node, &request.module, &request.name) else {
            return Err(Refusal::new(Reason::BadRequest, "the request names no secret"));
        };
        let place = Place::new(node, module, name);
        if place.provision().is_some() {
            return Err(Refusal::new(Reason::NotPossible, format!("{name} is a list, and no secret")));
        }
        if self.is_busy(&place) {
            return Err(Refusal::new(Reason::Busy, format!("{place} is being made: ask again")));
        }
        Ok(place)
    }

    fn next_revision(&self, place: &Place) -> u64 {
        self.holdings.revision(place).max(self.known.revision(place)) + 1
    }

    fn accept(&self, request: SignedRequest, once: Once) -> Result<Work, Refusal> {
        let place = self.place_of(&request)?;
        let Some(record) = self.known.node(&place.node) else {
            let message = format!("no record of the node {} counts: let it join first", place.node);
            return Err(Refusal::new(Reason::NoRecord, message));
        };
        if self.is_bound(&place) {
            let message = format!("{place} is a bound credential: the vault makes it");
            return Err(Refusal::new(Reason::NotPossible, message));
        }
        let Some(value) = request.value else {
            return Err(Refusal::new(Reason::BadRequest, "the request has no value"));
        };
        let revision = self.next_revision(&place);
        Ok(Work::Accept { mesh: request.mesh, place, revision, keys: self.keys(record), value, once })
    }

    /// Whether a secret is a credential that a provider has, too.
    fn is_bound(&self, place: &Place) -> bool {
        let fits = |need: &Need| need.kind == "secret" && need.name == place.name;
        let granted = self.granted(&place.node, &place.module, "secret", fits);
        granted.is_ok_and(|granted| granted.need.provider.is_some())
    }

    fn rotate(&self, request: &SignedRequest, once: Once) -> Result<Work, Refusal> {
        let place = self.place_of(request)?;
        let fits = |need: &Need| need.kind == "secret" && need.name == place.name;
        let what = format!("secret {}", place.name);
        let granted =
            self.granted(&place.node, &place.module, &what, fits).map_err(|verdict| match verdict {
                Verdict::Wait(refusal) | Verdict::Refuse(refusal) => {
                    let reason =
                        if refusal.reason == Reason::NotAssigned { Reason::Absent } else { refusal.reason };
                    Refusal { reason, ..refusal }
                }
                _ => Refusal::new(Reason::Absent, format!("there is no {place}")),
            })?;
        let not_possible = |why: &str| Err(Refusal::new(Reason::NotPossible, format!("{place} {why}")));
        match granted.need {
            Need { provider: Some(_), .. } => {
                not_possible("is a bound credential, which this version does not rotate")
            }
            Need { make: None, .. } => not_possible("was given by a person: accept a new value in its place"),
            Need { make: Some(make), .. } => Ok(Work::Make {
                mesh: granted.mesh.to_owned(),
                revision: self.next_revision(&place),
                make: *make,
                keys: self.keys(granted.record),
                place,
                once: Some(once),
            }),
        }
    }

    fn export(&self, request: SignedRequest, once: Once) -> Work {
        let room = match self.link {
            LinkState::Up { max_payload, .. } => max_payload.saturating_sub(MARGIN).max(max_payload / 2),
            _ => PAGE_BYTES,
        };
        Work::Export { mesh: request.mesh, after: request.name, bytes: PAGE_BYTES.min(room), once }
    }

    /// A page of recovery copies was read.
    pub(super) fn give_page(&mut self, answer: Waiting, id: String, outcome: Outcome, now: Duration) {
        match outcome {
            Outcome::Page(copies, next) => self.respond(answer, &ExportAnswer { id, copies, next }, now),
            _ => self.reject(answer, &Refusal::new(Reason::Store, "the store gave something else"), now),
        }
    }
}

//! The thread that has the store: it carries out the tasks of the machine one after another.

use crate::broker::gather;
use crate::identity::Signer;
use crate::join::{record, register};
use crate::serve::task::{Failed, Lease, Own, Picture, Place, Reading, Report, Task, UsersFile, Value};
use crate::store::sent::{self, Bucket, Sent};
use crate::store::{Error, Moment, Store, lease, nodes, now};
use mesh_model::digest::Digest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Answers the verbs that read: the body of the answer out of the store, or why there is none.
pub type Read = fn(&Store, Reading, &[u8], Moment) -> Result<String, Error>;

/// Places with their values.
type Fetched = Vec<(Place, Option<Vec<u8>>)>;

/// The store with all that its thread remembers.
pub struct Work {
    store: Store,
    signer: Signer,
    holder: String,
    read: Read,
    lease: Option<lease::Lease>,
    /// What the store was like when it was read last: its version, and the day.
    looked: Option<((i64, i64), String)>,
    users: Option<UsersFile>,
    /// Whether a join may have been registered whose account is not in the users yet.
    owes_accounts: bool,
}

impl Work {
    /// `holder` is what the lease says of this program, in words.
    pub fn new(store: Store, signer: Signer, holder: String, read: Read) -> Self {
        Work { store, signer, holder, read, lease: None, looked: None, users: None, owes_accounts: false }
    }

    /// Carries out one task.
    pub fn perform(&mut self, task: Task) -> Vec<Own> {
        match task {
            Task::Lease => vec![Own::Lease(self.renew())],
            Task::Release => {
                if let Some(lease) = self.lease.take() {
                    // Whoever comes next takes it by its age where this fails.
                    lease.release(&mut self.store).ok();
                }
                vec![Own::Released]
            }
            Task::Raise(fence) => match self.raise(fence) {
                Ok(fence) => vec![Own::Lease(Lease::Ours(fence))],
                Err(why) => vec![Own::Lease(Lease::Unknown(why.to_string()))],
            },
            Task::Load { anyway } => match self.load(anyway) {
                Ok(Some(picture)) => vec![Own::Picture(picture)],
                Ok(None) => vec![Own::Unchanged],
                Err(why) => vec![Own::Failed(Failed::Load, why.to_string())],
            },
            Task::Join(requests) => self.join(requests),
            Task::Reports(reports) => match self.report(reports) {
                Ok(news) => vec![Own::Reported(news)],
                Err(why) => vec![Own::Failed(Failed::Reports, why.to_string())],
            },
            Task::Fetch(places) => match self.fetch(&places) {
                Ok(values) => vec![Own::Values(values)],
                Err(why) => vec![Own::Failed(Failed::Fetch(places), why.to_string())],
            },
            Task::Done(done) => match self.done(&done) {
                Ok(()) => vec![Own::Noted],
                Err(why) => vec![Own::Failed(Failed::Done, why.to_string())],
            },
            Task::Cleaned(node) => match self.cleaned(&node) {
                Ok(()) => vec![Own::Cleaned],
                Err(why) => vec![Own::Failed(Failed::Cleaned, why.to_string())],
            },
            Task::Read { id, verb, body } => {
                let answer = (self.read)(&self.store, verb, &body, now());
                vec![Own::Answer(id, answer.map_err(|why| why.to_string()))]
            }
            // Another thread's.
            Task::Users(_) => Vec::new(),
        }
    }

    fn renew(&mut self) -> Lease {
        if let Some(lease) = &self.lease {
            return match lease.renew(&mut self.store) {
                Ok(()) => Lease::Ours(lease.fence),
                Err(Error::Refused(why)) => {
                    self.lease = None;
                    Lease::Lost(why)
                }
                Err(why) => Lease::Unknown(why.to_string()),
            };
        }
        match lease::take(&mut self.store, &self.holder, 0) {
            Ok(lease::Taken::Ours(lease)) => {
                let fence = lease.fence;
                self.lease = Some(lease);
                self.looked = None;
                Lease::Ours(fence)
            }
            Ok(lease::Taken::Theirs(row)) => {
                let who = row.holder.unwrap_or_else(|| "another program".into());
                Lease::Theirs(format!("{who} (process {})", row.pid))
            }
            Err(why) => Lease::Unknown(why.to_string()),
        }
    }

    fn fence(&self) -> Result<u64, Error> {
        let none = || Error::Refused("the lease is not held".into());
        self.lease.as_ref().map(|lease| lease.fence).ok_or_else(none)
    }

    fn raise(&mut self, fence: u64) -> Result<u64, Error> {
        let Some(lease) = &mut self.lease else { return Err(Error::Refused("the lease is not held".into())) };
        lease.raise(&mut self.store, fence)?;
        Ok(lease.fence)
    }

    fn load(&mut self, anyway: bool) -> Result<Option<Picture>, Error> {
        let at = now();
        let looked = (self.store.version()?, gather::day(at));
        if !anyway && self.looked.as_ref() == Some(&looked) {
            return Ok(None);
        }
        let fence = self.fence()?;
        record::refresh(&mut self.store, &self.signer, fence, at)?;
        let mut picture = self.picture(None, at)?;
        sent::each(self.store.inventory(), |sent| picture.values.push(value(&sent)))?;
        self.looked = Some(looked);
        Ok(Some(picture))
    }

    /// All of a picture but its values.
    fn picture(&mut self, only: Option<Bucket>, at: Moment) -> Result<Picture, Error> {
        let accounts = gather::accounts(&self.store, &self.signer, at)?;
        let body = accounts.body().map_err(|why| Error::Unfit(why.to_string()))?;
        let before = self.users.as_ref();
        if before.is_none_or(|users| users.digest != body.digest()) {
            self.users = Some(UsersFile {
                generation: before.map_or(0, |users| users.generation) + 1,
                digest: body.digest(),
                text: Arc::from(gather::file(&body, &self.signer)?),
                users: body.users(),
                missing: accounts.missing(),
                gone: gather::gone(&self.store)?,
            });
        }
        let nodes: BTreeSet<String> =
            nodes::all(self.store.inventory())?.into_iter().map(|node| node.name).collect();
        let leaving = nodes::leaving(self.store.inventory())?;
        Ok(Picture { only, values: Vec::new(), users: self.users.clone(), nodes, leaving })
    }

    fn join(&mut self, requests: Vec<(u64, Vec<u8>)>) -> Vec<Own> {
        let (ids, bodies): (Vec<u64>, Vec<Vec<u8>>) = requests.into_iter().unzip();
        match self.register(&bodies) {
            Ok((outcomes, picture)) => {
                let generation = self.users.as_ref().map_or(0, |users| users.generation);
                let joined = Own::Joined(ids.into_iter().zip(outcomes).collect(), generation);
                picture.map(Own::Picture).into_iter().chain([joined]).collect()
            }
            Err(why) => {
                // What was registered may have no account yet.
                self.owes_accounts = true;
                vec![Own::Failed(Failed::Join(ids), why.to_string())]
            }
        }
    }

    fn register(&mut self, bodies: &[Vec<u8>]) -> Result<(Vec<register::Outcome>, Option<Picture>), Error> {
        let (at, fence) = (now(), self.fence()?);
        lease::expect(self.store.inventory(), fence)?;
        let outcomes = register::register(&mut self.store, &self.signer, bodies, at)?;
        let any_new = outcomes.iter().flatten().any(|welcome| welcome.is_new);
        if !any_new && self.users.is_some() && !self.owes_accounts {
            return Ok((outcomes, None));
        }
        record::refresh(&mut self.store, &self.signer, fence, at)?;
        let mut picture = self.picture(Some(Bucket::Nodes), at)?;
        picture.values.extend(sent::records(self.store.inventory())?.iter().map(value));
        self.owes_accounts = false;
        Ok((outcomes, Some(picture)))
    }

    fn cleaned(&mut self, node: &str) -> Result<(), Error> {
        lease::expect(self.store.inventory(), self.fence()?)?;
        let change = self.store.note_inventory()?;
        nodes::has_left(&change, node)?;
        change.commit()
    }

    fn report(&mut self, reports: Vec<Report>) -> Result<usize, Error> {
        let change = self.store.note_inventory()?;
        let mut news = 0;
        for Report { node, revision, body } in reports {
            let heard = nodes::Heard { at: change.at, revision, body };
            news += usize::from(nodes::note_report(&change, &node, &heard)?);
        }
        change.commit()?;
        Ok(news)
    }

    fn fetch(&self, places: &[Place]) -> Result<Fetched, Error> {
        // A value that is written under a fence of before is refused here, and by the hosts.
        lease::expect(self.store.inventory(), self.fence()?)?;
        let mut values = Vec::new();
        for place in places {
            let sent = sent::get(self.store.inventory(), place.bucket, &place.key)?;
            values.push((place.clone(), sent.and_then(|sent| sent.value)));
        }
        Ok(values)
    }

    fn done(&mut self, done: &[(Place, Option<Digest>, u64)]) -> Result<(), Error> {
        let fence = self.fence()?;
        let change = self.store.note_inventory()?;
        for (Place { bucket, key }, digest, revision) in done {
            let Some(sent) = sent::get(&change, *bucket, key)? else { continue };
            if sent.value.as_deref().map(Digest::of) == *digest {
                sent::done(&change, fence, &sent, *revision)?;
            }
        }
        change.commit()
    }
}

fn value(sent: &Sent) -> Value {
    Value {
        place: Place { bucket: sent.bucket, key: sent.key.clone() },
        digest: sent.value.as_deref().map(Digest::of),
        sequence: sent.sequence,
        done: sent.done,
    }
}

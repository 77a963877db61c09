//! Requests under way: joins that wait for the store and then for the server, and questions that wait for the store.

use crate::join::register::Outcome;
use crate::serve::task::{Reading, Task};
use crate::serve::wire;
use mesh_jetstream::message::Outgoing;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a request may wait until it is told to ask again. Whoever asks again with the same keys gets the same answer.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// How many requests may be under way.
const MAX_UNDER_WAY: usize = 8192;

/// How many questions may wait for the store; one is read for at a time, so that joins and the lease have their turns.
const MAX_ASKED: usize = 64;

/// How many bytes a request may have. One to join has a few hundred.
const MAX_BYTES: usize = 64 * 1024;

/// How many bytes of requests to join may wait to be judged.
const MAX_WAITING: usize = 16 * 1024 * 1024;

/// How many requests to join are judged in one go.
const MAX_BATCH: usize = 512;

#[derive(Debug)]
struct Pending {
    reply: String,
    until: Duration,
    at: At,
}

#[derive(Debug)]
enum At {
    /// It waits for its turn.
    Waiting(Vec<u8>),
    /// It waits for the questions before it.
    Asked(Reading, Vec<u8>),
    /// The store judges it, or reads for it.
    Store,
    /// Its answer waits until the server has this generation of the file of users.
    Account(u64, String),
}

/// All requests under way.
#[derive(Debug, Default)]
pub struct Requests {
    pending: BTreeMap<u64, Pending>,
    next: u64,
    joining: bool,
    /// How many bytes of requests to join wait.
    waiting: usize,
    /// The question that the store reads for.
    reading: Option<u64>,
    asked: usize,
    /// Nodes that have joined since the start.
    pub joined: u64,
    /// Requests to join that were refused.
    pub refused: u64,
}

impl Requests {
    /// Takes a request to join. An error if there are too many.
    pub fn join(&mut self, reply: String, body: Vec<u8>, now: Duration) -> Option<Outgoing> {
        if body.len() > MAX_BYTES {
            return Some(too_large(reply));
        }
        let bytes = body.len();
        if self.waiting + bytes > MAX_WAITING {
            return Some(wire::error(reply, 503, "full", "too many requests are under way: try again"));
        }
        let taken = self.take(reply, At::Waiting(body), now);
        self.waiting += if taken.is_ok() { bytes } else { 0 };
        taken.err()
    }

    /// Takes a question. An error if there are too many.
    pub fn ask(&mut self, reply: String, verb: Reading, body: Vec<u8>, now: Duration) -> Option<Outgoing> {
        if body.len() > MAX_BYTES {
            return Some(too_large(reply));
        }
        if self.asked >= MAX_ASKED {
            return Some(wire::error(reply, 503, "full", "too many questions wait: try again"));
        }
        let taken = self.take(reply, At::Asked(verb, body), now);
        self.asked += usize::from(taken.is_ok());
        taken.err()
    }

    /// The question that is to be read for next, unless one is being read for.
    pub fn read(&mut self) -> Option<Task> {
        if self.reading.is_some() || self.asked == 0 {
            return None;
        }
        let is_asked = |pending: &Pending| matches!(pending.at, At::Asked(..));
        let (id, pending) = self.pending.iter_mut().find(|(_, pending)| is_asked(pending))?;
        let At::Asked(verb, body) = std::mem::replace(&mut pending.at, At::Store) else { return None };
        self.asked -= 1;
        self.reading = Some(*id);
        Some(Task::Read { id: *id, verb, body })
    }

    fn take(&mut self, reply: String, at: At, now: Duration) -> Result<u64, Outgoing> {
        if self.pending.len() >= MAX_UNDER_WAY {
            return Err(wire::error(reply, 503, "full", "too many requests are under way: try again"));
        }
        self.next += 1;
        self.pending.insert(self.next, Pending { reply, until: now + PATIENCE, at });
        Ok(self.next)
    }

    /// The joins that are to be judged next, unless others are being judged.
    pub fn batch(&mut self) -> Option<Task> {
        if self.joining {
            return None;
        }
        let mut batch = Vec::new();
        for (id, pending) in &mut self.pending {
            if batch.len() == MAX_BATCH {
                break;
            }
            if let At::Waiting(body) = &mut pending.at {
                self.waiting -= body.len();
                batch.push((*id, std::mem::take(body)));
                pending.at = At::Store;
            }
        }
        self.joining = !batch.is_empty();
        self.joining.then_some(Task::Join(batch))
    }

    /// The store has judged; `generation` of the file of users has the accounts, `loaded` is what the server has.
    pub fn judged(&mut self, outcomes: Vec<(u64, Outcome)>, generation: u64, loaded: u64) -> Vec<Outgoing> {
        self.joining = false;
        let mut send = Vec::new();
        for (id, outcome) in outcomes {
            match outcome {
                Ok(welcome) => {
                    self.joined += u64::from(welcome.is_new);
                    if let Some(pending) = self.pending.get_mut(&id) {
                        pending.at = At::Account(generation, welcome.body);
                    }
                }
                Err(refusal) => {
                    self.refused += 1;
                    if let Some(Pending { reply, .. }) = self.pending.remove(&id) {
                        send.push(wire::error(reply, refusal.code, refusal.reason, &refusal.message));
                    }
                }
            }
        }
        send.extend(self.loaded(loaded));
        send
    }

    /// The store could not judge them.
    pub fn not_judged(&mut self, ids: &[u64], why: &str) -> Vec<Outgoing> {
        self.joining = false;
        let gone = ids.iter().filter_map(|id| self.pending.remove(id));
        gone.map(|pending| wire::error(pending.reply, 503, "store", &format!("{why}: try again"))).collect()
    }

    /// The server has this generation of the file of users.
    pub fn loaded(&mut self, generation: u64) -> Vec<Outgoing> {
        let good = |pending: &Pending| matches!(pending.at, At::Account(wanted, _) if wanted <= generation);
        let ids: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| good(pending)).map(|(id, _)| *id).collect();
        let done = ids.iter().filter_map(|id| self.pending.remove(id));
        done.filter_map(|pending| match pending.at {
            At::Account(_, body) => Some(wire::answer(pending.reply, body)),
            _ => None,
        })
        .collect()
    }

    /// The answer to a question.
    pub fn answered(
        &mut self,
        id: u64,
        answer: Result<String, String>,
        max_payload: usize,
    ) -> Option<Outgoing> {
        if self.reading == Some(id) {
            self.reading = None;
        }
        let Pending { reply, .. } = self.pending.remove(&id)?;
        Some(match answer {
            Ok(body) if body.len() > max_payload => wire::error(
                reply,
                503,
                "response_too_large",
                "the answer is larger than the server's max_payload: ask for one node",
            ),
            Ok(body) => wire::answer(reply, body),
            Err(why) => wire::error(reply, 503, "store", &why),
        })
    }

    /// Tells those that have waited for too long.
    pub fn due(&mut self, now: Duration) -> Vec<Outgoing> {
        let late: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| pending.until <= now).map(|(id, _)| *id).collect();
        let mut send = Vec::new();
        for pending in late.iter().filter_map(|id| self.pending.remove(id)) {
            match &pending.at {
                At::Waiting(body) => self.waiting -= body.len(),
                At::Asked(..) => self.asked -= 1,
                At::Store | At::Account(..) => {}
            }
            let words = match pending.at {
                At::Account(..) => {
                    "the node is registered, and the server has not loaded its account yet: ask again"
                }
                _ => "no answer in time: ask again",
            };
            send.push(wire::error(pending.reply, 503, "timeout", words));
        }
        send
    }

    /// Tells all that wait that they get no answer here, and why.
    pub fn end(&mut self, reason: &str, words: &str) -> Vec<Outgoing> {
        (self.asked, self.waiting) = (0, 0);
        let waiting = std::mem::take(&mut self.pending).into_values();
        waiting.map(|pending| wire::error(pending.reply, 503, reason, words)).collect()
    }

    /// When [`Requests::due`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        // They are numbered as they came, and each waits as long as the others.
        self.pending.values().next().map(|pending| pending.until)
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }
}

fn too_large(reply: String) -> Outgoing {
    wire::error(reply, 413, "too_large", &format!("a request has at most {MAX_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(message: &Outgoing) -> &str {
        let code = message.headers.iter().find(|(name, _)| *name == "Nats-Service-Error-Code");
        code.map_or("", |(_, code)| code)
    }

    #[test]
    fn one_question_is_read_for_at_a_time_and_only_so_many_wait() {
        let mut requests = Requests::default();
        let now = Duration::ZERO;
        assert!(requests.ask("r".to_owned(), Reading::Plan, Vec::new(), now).is_none());
        let Some(Task::Read { id, .. }) = requests.read() else { panic!("the first is read for") };
        for _ in 0..MAX_ASKED {
            assert!(requests.ask("r".to_owned(), Reading::Status, Vec::new(), now).is_none());
            assert!(requests.read().is_none(), "the others wait");
        }
        let full = requests.ask("r".to_owned(), Reading::Status, Vec::new(), now).unwrap();
        assert_eq!((code(&full), full.subject.as_str()), ("503", "r"));
        // Those that have waited for too long are told, and take no room any more; what is being read for still is.
        assert_eq!(requests.due(PATIENCE).len(), 1 + MAX_ASKED);
        assert!(requests.ask("s".to_owned(), Reading::Status, Vec::new(), PATIENCE).is_none());
        assert!(requests.read().is_none());
        assert!(requests.answered(id, Ok("{}".to_owned()), usize::MAX).is_none(), "it was told already");
        assert!(requests.read().is_some());
    }

    #[test]
    fn whoever_waits_is_told_that_the_controller_ends() {
        let mut requests = Requests::default();
        assert!(requests.join("a".to_owned(), Vec::new(), Duration::ZERO).is_none());
        assert!(requests.ask("b".to_owned(), Reading::Plan, Vec::new(), Duration::ZERO).is_none());
        let large = requests.join("c".to_owned(), vec![b' '; MAX_BYTES + 1], Duration::ZERO).unwrap();
        assert_eq!(code(&large), "413");
        let told = requests.end("stopping", "the controller is stopping: try again");
        assert_eq!(told.iter().map(code).collect::<Vec<_>>(), ["503", "503"]);
        assert_eq!(requests.under_way(), 0);
    }

    #[test]
    fn what_waits_to_be_judged_is_bounded_in_bytes() {
        let mut requests = Requests::default();
        let mut joins = || {
            let join =
                |_: &usize| requests.join("r".to_owned(), vec![b' '; MAX_BYTES], Duration::ZERO).is_none();
            let taken = (0..MAX_UNDER_WAY).take_while(join).count();
            let batch = requests.batch();
            (taken, batch)
        };
        let (taken, batch) = joins();
        assert_eq!(taken * MAX_BYTES, MAX_WAITING);
        assert!(matches!(batch, Some(Task::Join(batch)) if batch.len() == taken));
        // What is being judged waits no more; what was given up does not either.
        let (again, batch) = joins();
        assert!(again == taken && batch.is_none(), "{again}");
        assert_eq!(requests.due(PATIENCE).len(), 2 * taken);
        assert!(requests.join("r".to_owned(), vec![b' '; MAX_BYTES], PATIENCE).is_none());
        requests.end("stopping", "try again");
        assert!(requests.join("r".to_owned(), vec![b' '; MAX_BYTES], PATIENCE).is_none());
    }
}

//! A thread that carries requests to the host and brings back what it says, one request at a time.

use super::line::Conversation;
use crossbeam_channel::{Receiver, Sender, bounded};
use mesh_model::host_api::Line;
use mesh_model::report::Outcome;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long the host may say nothing: it bounds each of its steps itself, and pulling an image is one of the longest.
const SILENCE: Duration = Duration::from_secs(3600);

/// How many requests may wait: an apply, what the vault refused, a confirmation.
const MAX_WAITING: usize = 64;

/// A request, with the number that its end has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The number.
    pub number: u64,
    /// One line of JSON, without its end.
    pub request: Vec<u8>,
}

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It did something, or in a plan it would: of the request that ends next.
    Outcome(Box<Outcome>),
    /// A request has ended. Each ends once, in their order.
    Ended {
        /// Its number.
        call: u64,
        /// The last line, or why there is none.
        result: Result<Line, String>,
    },
}

/// Starts the thread. What the host says goes to `tell`. It ends when the returned sender is dropped, or nobody takes
/// its news any more.
pub fn start<E>(socket: PathBuf, tell: Sender<E>) -> io::Result<Sender<Call>>
where
    E: From<Told> + Send + 'static,
{
    let (calls, received) = bounded(MAX_WAITING);
    thread::Builder::new().name("host".to_owned()).spawn(move || carry(&socket, &received, &tell))?;
    Ok(calls)
}

fn carry<E: From<Told>>(socket: &Path, calls: &Receiver<Call>, tell: &Sender<E>) {
    for Call { number, request } in calls {
        let result = converse(socket, &request, |outcome| {
            // Where nobody listens any more, the end below finds out.
            tell.send(Told::Outcome(outcome).into()).ok();
        });
        if tell.send(Told::Ended { call: number, result }.into()).is_err() {
            return;
        }
    }
}

/// The last line of an answer; what comes before it is told.
fn converse(socket: &Path, request: &[u8], mut tell: impl FnMut(Box<Outcome>)) -> Result<Line, String> {
    let mut conversation = Conversation::open(socket, request)?;
    loop {
        match conversation.next(SILENCE)? {
            Line::Outcome(outcome) => tell(outcome),
            last => return Ok(last),
        }
    }
}

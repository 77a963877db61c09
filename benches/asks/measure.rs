//! Times, and what is taken from them.

use std::time::{Duration, Instant};

use crate::raw::Raw;

/// How long each of many took, and what went wrong with the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    taken: Vec<Duration>,
    pub(crate) errors: Vec<String>,
}

impl Times {
    /// Takes one more.
    pub(crate) fn add(&mut self, time: Result<Duration, String>) {
        match time {
            Ok(time) => {
                let at = self.taken.partition_point(|taken| *taken < time);
                self.taken.insert(at, time);
            }
            Err(error) => self.errors.push(error),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.taken.len() + self.errors.len()
    }

    /// Half of them took at most so long.
    pub(crate) fn median(&self) -> Duration {
        self.at_most(50)
    }

    /// 99 of a hundred took at most so long.
    pub(crate) fn percentile_99(&self) -> Duration {
        self.at_most(99)
    }

    fn at_most(&self, percent: usize) -> Duration {
        let at = (self.taken.len() * percent).div_ceil(100).saturating_sub(1);
        self.taken.get(at).copied().unwrap_or(Duration::MAX)
    }
}

/// How long `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Asks once; an answer that is an error is one.
pub(crate) fn time_ask(raw: &mut Raw, subject: &str, body: &[u8]) -> Result<Duration, String> {
    let begun = Instant::now();
    let answer = raw.ask(subject, body);
    let time = begun.elapsed();
    answer.error().map_or(Ok(time), Err)
}

/// What many asks at a time came to.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) times: Times,
    pub(crate) a_second: f64,
}

/// Asks `total` times with `width` under way: whenever one is answered the next is asked. `body` makes the question
/// of a number.
pub(crate) fn load(
    raw: &mut Raw,
    subject: &str,
    body: impl Fn(usize) -> Vec<u8>,
    total: u32,
    width: usize,
) -> Load {
    let count = usize::try_from(total).expect("a number of asks");
    let mut asked: Vec<Instant> = Vec::with_capacity(count);
    let mut taken = vec![Err("no answer".to_owned()); count];
    let begun = Instant::now();
    let mut answered = 0;
    while answered < count {
        while asked.len() < count && asked.len() - answered < width {
            let reply = raw.reply_subject(asked.len());
            raw.publish(subject, &reply, &body(asked.len()));
            asked.push(Instant::now());
        }
        raw.flush();
        let answer = raw.next();
        let at: usize =
            answer.subject.rsplit('.').next().and_then(|at| at.parse().ok()).expect("one of our replies");
        taken[at] = answer.error().map_or(Ok(asked[at].elapsed()), Err);
        answered += 1;
    }
    let a_second = f64::from(total) / begun.elapsed().as_secs_f64();
    let mut times = Times::default();
    for time in taken {
        times.add(time);
    }
    Load { times, a_second }
}

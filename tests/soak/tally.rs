//! The figures of a run, and what of them makes it fail.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after a fault its consequences are its own: the seat dials again within 4 s, a server reads its store.
const AFTERMATH: Duration = Duration::from_secs(10);

/// How long the seat may be silent once no fault is under way.
const MOST_SILENCE: Duration = Duration::from_secs(60);

/// How many failures are shown in full.
const SHOWN: usize = 10;

pub(crate) struct Tally {
    start: Instant,
    figures: Mutex<Figures>,
}

struct Figures {
    asks: u64,
    right: u64,
    errors: BTreeMap<u16, u64>,
    nobody: u64,
    lost: u64,
    unanswered: u64,
    writes: u64,
    writes_without_outcome: u64,
    wrong: u64,
    failures: Vec<String>,
    faults: BTreeMap<&'static str, u64>,
    exits: BTreeMap<String, u64>,
    longest_farewell: Duration,
    peak_kib: u64,
    /// How many faults that may cost answers are under way, and when the last one ended.
    under_way: usize,
    quiet_since: Instant,
    last_right: Instant,
    longest_silence: Duration,
    longest_silence_after_faults: Duration,
}

/// How an ask ended without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unmet {
    /// Nobody held the seat.
    Nobody,
    /// The asker's own connection broke.
    Lost,
    /// Nothing came in time.
    Silence,
}

/// A fault that may cost answers while this is held.
pub(crate) struct UnderWay<'a>(&'a Tally);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut figures = self.0.lock();
        figures.under_way -= 1;
        figures.quiet_since = Instant::now();
    }
}

impl Tally {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let figures = Figures {
            asks: 0,
            right: 0,
            errors: BTreeMap::new(),
            nobody: 0,
            lost: 0,
            unanswered: 0,
            writes: 0,
            writes_without_outcome: 0,
            wrong: 0,
            failures: Vec::new(),
            faults: BTreeMap::new(),
            exits: BTreeMap::new(),
            longest_farewell: Duration::ZERO,
            peak_kib: 0,
            under_way: 0,
            quiet_since: now,
            last_right: now,
            longest_silence: Duration::ZERO,
            longest_silence_after_faults: Duration::ZERO,
        };
        Self { start: now, figures: Mutex::new(figures) }
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a fault that costs no answer.
    pub(crate) fn fault(&self, kind: &'static str) {
        *self.lock().faults.entry(kind).or_default() += 1;
    }

    /// Counts a fault that may cost answers until the returned value is dropped.
    #[must_use]
    pub(crate) fn disturb(&self, kind: &'static str) -> UnderWay<'_> {
        let mut figures = self.lock();
        *figures.faults.entry(kind).or_default() += 1;
        figures.under_way += 1;
        UnderWay(self)
    }

    pub(crate) fn right(&self) {
        let mut figures = self.lock();
        figures.asks += 1;
        figures.right += 1;
        figures.hear();
    }

    pub(crate) fn error(&self, code: u16) {
        let mut figures = self.lock();
        figures.asks += 1;
        *figures.errors.entry(code).or_default() += 1;
    }

    pub(crate) fn wrong(&self, what: &str) {
        let mut figures = self.lock();
        figures.asks += 1;
        figures.wrong += 1;
        drop(figures);
        self.fail(&format!("wrong answer: {what}"));
    }

    /// Counts an ask that was sent at `asked` and had no answer.
    pub(crate) fn unmet(&self, unmet: Unmet, asked: Instant, ask: &str) {
        let mut figures = self.lock();
        figures.asks += 1;
        match unmet {
            Unmet::Nobody => figures.nobody += 1,
            Unmet::Lost => figures.lost += 1,
            Unmet::Silence => figures.unanswered += 1,
        }
        let explained = figures.under_way > 0 || figures.quiet_since + AFTERMATH > asked;
        drop(figures);
        if !explained {
            self.fail(&format!("no answer though no fault was near ({unmet:?}): {ask}"));
        }
    }

    pub(crate) fn write(&self, has_outcome: bool) {
        let mut figures = self.lock();
        figures.writes += 1;
        figures.writes_without_outcome += u64::from(!has_outcome);
    }

    pub(crate) fn exit(&self, how: String, farewell: Option<Duration>) {
        let mut figures = self.lock();
        *figures.exits.entry(how).or_default() += 1;
        figures.longest_farewell = figures.longest_farewell.max(farewell.unwrap_or_default());
    }

    pub(crate) fn memory(&self, kib: u64) {
        let mut figures = self.lock();
        figures.peak_kib = figures.peak_kib.max(kib);
    }

    /// Whatever makes the run fail.
    pub(crate) fn fail(&self, what: &str) {
        let at = self.start.elapsed().as_secs_f64();
        let mut figures = self.lock();
        figures.failures.push(format!("at {at:.1} s: {what}"));
    }

    /// Closes the books: true if nothing failed.
    pub(crate) fn close(&self) -> bool {
        let mut figures = self.lock();
        figures.hear();
        let silence = figures.longest_silence_after_faults;
        if silence > MOST_SILENCE {
            figures.failures.push(format!("silent for {silence:.1?} though no fault was under way"));
        }
        figures.failures.is_empty()
    }
}

impl Figures {
    /// The seat was heard.
    fn hear(&mut self) {
        let now = Instant::now();
        self.longest_silence = self.longest_silence.max(now - self.last_right);
        if self.under_way == 0 {
            let since = self.last_right.max(self.quiet_since);
            self.longest_silence_after_faults = self.longest_silence_after_faults.max(now - since);
        }
        self.last_right = now;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.lock();
        let counts = |counts: Vec<(String, u64)>| match counts[..] {
            [] => "none".to_owned(),
            _ => counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", "),
        };
        let errors = figures.errors.iter().map(|(code, count)| (code.to_string(), *count)).collect();
        let faults = figures.faults.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        let exits = figures.exits.iter().map(|(how, count)| (how.clone(), *count)).collect();
        writeln!(f, "asks                    {}", figures.asks)?;
        writeln!(f, "  right answers         {}", figures.right)?;
        writeln!(f, "  wrong answers         {}", figures.wrong)?;
        writeln!(f, "  error answers         {}", counts(errors))?;
        writeln!(f, "  nobody held the seat  {}", figures.nobody)?;
        writeln!(f, "  asker's own link lost {}", figures.lost)?;
        writeln!(f, "  unanswered            {}", figures.unanswered)?;
        writeln!(f, "writes                  {}", figures.writes)?;
        writeln!(f, "  without an outcome    {}", figures.writes_without_outcome)?;
        writeln!(f, "faults                  {}", figures.faults.values().sum::<u64>())?;
        writeln!(f, "  by kind               {}", counts(faults))?;
        writeln!(f, "ends of the seat        {}", counts(exits))?;
        writeln!(f, "longest farewell        {:.1} s", figures.longest_farewell.as_secs_f64())?;
        writeln!(f, "longest silence         {:.1} s", figures.longest_silence.as_secs_f64())?;
        writeln!(f, "  with no fault on      {:.1} s", figures.longest_silence_after_faults.as_secs_f64())?;
        writeln!(f, "memory peak             {} KiB", figures.peak_kib)?;
        writeln!(f, "failures                {}", figures.failures.len())?;
        for failure in figures.failures.iter().take(SHOWN) {
            writeln!(f, "  {failure}")?;
        }
        Ok(())
    }
}

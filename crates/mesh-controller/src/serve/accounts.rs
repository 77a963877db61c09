//! The file of users on its way: one load at a time, the newest file next.

use crate::serve::task::{Task, UsersFile};
use mesh_service::backoff::Backoff;
use std::time::Duration;

const AGAIN: Backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(30) };

/// How it stands with the file of users.
#[derive(Debug, Default)]
pub struct Accounts {
    wanted: Option<UsersFile>,
    loading: Option<u64>,
    /// Whether the load under way says nothing of the server that there is now.
    is_doubted: bool,
    loaded: u64,
    failures: u32,
    again: Duration,
    /// Why the last load failed.
    pub failure: Option<String>,
}

impl Accounts {
    /// This is the file from now on.
    pub fn want(&mut self, file: UsersFile) {
        if self.wanted.as_ref().is_none_or(|wanted| wanted.generation < file.generation) {
            self.wanted = Some(file);
            self.again = Duration::ZERO;
        }
    }

    /// The server may have lost it, or be another one: it is proven again.
    pub fn doubt(&mut self) {
        self.loaded = 0;
        self.is_doubted = self.loading.is_some();
        self.again = Duration::ZERO;
        self.failures = 0;
    }

    /// The load that is to be started, if any.
    pub fn next(&mut self, now: Duration) -> Option<Task> {
        let wanted = self.wanted.as_ref()?;
        if self.loading.is_some() || self.loaded >= wanted.generation || now < self.again {
            return None;
        }
        self.loading = Some(wanted.generation);
        Some(Task::Users(wanted.clone()))
    }

    /// A load has ended. Gives the words for the log.
    pub fn ended(
        &mut self,
        generation: u64,
        result: Result<(), String>,
        jitter: f64,
        now: Duration,
    ) -> Option<String> {
        self.loading = None;
        match result {
            Ok(()) if std::mem::take(&mut self.is_doubted) => None,
            Ok(()) => {
                self.loaded = self.loaded.max(generation);
                self.failures = 0;
                self.failure = None;
                None
            }
            Err(why) => {
                self.is_doubted = false;
                self.again = now + AGAIN.after(self.failures, jitter);
                self.failures = self.failures.saturating_add(1);
                self.failure = Some(why.clone());
                Some(why)
            }
        }
    }

    /// The generation that the server has.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Whether the server has the newest file.
    pub fn is_loaded(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| self.loaded >= wanted.generation)
    }

    /// How many users the file has.
    pub fn users(&self) -> usize {
        self.wanted.as_ref().map_or(0, |wanted| wanted.users)
    }

    /// When the next load is to be started.
    pub fn next_deadline(&self) -> Option<Duration> {
        let is_due = self.wanted.is_some() && self.loading.is_none() && !self.is_loaded();
        is_due.then_some(self.again)
    }
}

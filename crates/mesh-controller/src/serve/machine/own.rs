//! What comes of the controller's own tasks: the lease, the store, the file of users.

use super::{Action, Actions, Controller, Exit, LOOK, Level, Link, STANDING_BY, STOPPING, SURE, Topic};
use crate::serve::task::{Failed, Lease, Own, Picture};
use std::time::Duration;

/// When a store that failed is asked again.
const AGAIN: Duration = Duration::from_secs(5);

impl Controller {
    pub(super) fn own(&mut self, own: Own, now: Duration) -> Actions {
        match own {
            Own::Lease(lease) => self.leased(lease, now),
            Own::Released => {
                let told = self.requests.end("stopping", STOPPING);
                let mut actions = self.sends(told);
                actions.push(Action::Exit(Exit::Done));
                actions
            }
            Own::Picture(picture) => self.picture(picture, now),
            Own::Unchanged => {
                self.loading = false;
                self.load_due = now + LOOK;
                self.store_failure = None;
                Vec::new()
            }
            Own::Joined(outcomes, generation) => {
                let answers = self.requests.judged(outcomes, generation, self.accounts.loaded());
                self.sends(answers)
            }
            Own::Values(values) => {
                values.into_iter().flat_map(|(place, value)| self.value(&place, value, now)).collect()
            }
            Own::Noted => {
                self.noting = false;
                Vec::new()
            }
            Own::Reported(_) => {
                self.reports.taken(now);
                Vec::new()
            }
            Own::Cleaned => {
                // The right for it goes.
                self.load_anyway = true;
                Vec::new()
            }
            Own::Users(generation, result) => self.users_ended(generation, result, now),
            Own::Answer(id, answer) => {
                let room = match self.link {
                    Link::Up { max_payload, .. } => max_payload,
                    _ => usize::MAX,
                };
                let answer = self.requests.answered(id, answer, room);
                self.sends(answer.into_iter().collect())
            }
            Own::Failed(failed, why) => self.failed(failed, why, now),
        }
    }

    fn leased(&mut self, lease: Lease, now: Duration) -> Actions {
        let asked = self.held.asked.take().unwrap_or(now);
        let mut actions = Vec::new();
        match lease {
            Lease::Ours(fence) => {
                if self.held.fence.is_none() {
                    actions
                        .push(Action::Say(Level::Info, format!("holds the lease, with the fence {fence}")));
                    self.load_anyway = true;
                    actions.push(self.connect());
                }
                self.held.fence = Some(fence);
                // What counts is when it was asked for: it may have been long in coming.
                self.held.sure = asked;
                self.held.theirs = None;
            }
            Lease::Theirs(who) => {
                let text = format!("stands by: {who} has the lease");
                actions.extend(self.say(Level::Info, Topic::Lease, &text, now));
                actions.extend(self.stand_by(who));
            }
            Lease::Lost(why) => {
                actions.push(Action::Say(
                    Level::Error,
                    format!("the lease is lost, and nothing is written any more: {why}"),
                ));
                actions.extend(self.stand_by(why));
                self.held.due = now;
            }
            Lease::Unknown(why) => {
                self.store_failure = Some(why.clone());
                let text = format!("the lease cannot be renewed: {why}");
                actions.extend(self.say(Level::Error, Topic::Lease, &text, now));
            }
        }
        self.held.is_known = true;
        actions
    }

    /// Somebody else serves: nothing is answered and nothing written until the lease is ours again.
    fn stand_by(&mut self, who: String) -> Actions {
        let had = self.held.fence.take().is_some();
        self.held.theirs = Some(who);
        self.has_picture = false;
        if !had {
            return Vec::new();
        }
        self.link = Link::Off;
        self.move_at = None;
        self.cleaning.down();
        self.mirror.down();
        self.calls.clear();
        self.done.clear();
        for follow in &mut self.follows {
            follow.down();
        }
        let told = self.requests.end("standing_by", STANDING_BY);
        let mut actions = self.sends(told);
        actions.push(Action::StopListening);
        actions
    }

    fn picture(&mut self, picture: Picture, now: Duration) -> Actions {
        let Picture { only, values, users, nodes, leaving } = picture;
        self.loading = self.loading && only.is_some();
        self.store_failure = None;
        if self.held.fence.is_none() {
            // It was being read when the lease was lost: the next one begins with what is there then.
            return Vec::new();
        }
        self.nodes = nodes;
        self.cleaning.want(leaving);
        if let Some(users) = users {
            self.accounts.want(users);
        }
        let found = self.mirror.want(only, values);
        if only.is_none() {
            self.has_picture = true;
            self.load_due = now + LOOK;
        }
        self.found(found, now)
    }

    fn users_ended(&mut self, generation: u64, result: Result<(), String>, now: Duration) -> Actions {
        let users = self.accounts.users();
        let failure = self.accounts.ended(generation, result, self.settings.jitter, now);
        let mut actions = Actions::new();
        if self.accounts.loaded() == generation && failure.is_none() {
            actions.push(Action::Say(
                Level::Info,
                format!("the server has the file of users: {users} accounts"),
            ));
            let answers = self.requests.loaded(self.accounts.loaded());
            actions.extend(self.sends(answers));
        }
        if let Some(why) = failure {
            let text = format!("the server does not have the newest file of users: {why}");
            actions.extend(self.say(Level::Warn, Topic::Users, &text, now));
        }
        actions
    }

    fn failed(&mut self, failed: Failed, why: String, now: Duration) -> Actions {
        let mut actions = Vec::new();
        match failed {
            Failed::Load => {
                self.loading = false;
                self.load_anyway = false;
                self.load_due = now + AGAIN;
            }
            Failed::Join(ids) => {
                let answers = self.requests.not_judged(&ids, &why);
                actions.extend(self.sends(answers));
            }
            Failed::Fetch(places) => {
                for place in places {
                    self.mirror.put_off(&place, now + AGAIN);
                }
            }
            Failed::Done => {
                self.noting = false;
                self.load_anyway = true;
            }
            Failed::Cleaned => self.load_anyway = true,
            Failed::Reports => self.reports.failed(now),
        }
        let text = format!("the store: {why}");
        actions.extend(self.say(Level::Error, Topic::Store, &text, now));
        self.store_failure = Some(why);
        actions
    }

    /// How long the lease is still known to be ours.
    pub(super) fn sure_for(&self, now: Duration) -> Duration {
        (self.held.sure + SURE).saturating_sub(now)
    }
}

//! The inboxes of a program's connections: each has one of its own, so that the consumers of the one before find no
//! listener, and are gone.

/// The inboxes of the connections of one process.
///
/// They are numbered by the connections that came up, not by those that were asked for: a request for one while another
/// is being made is dropped, and an attempt may fail. So what is told of the next connection holds whichever attempt
/// becomes it, and nobody waits for answers at an inbox that no connection has.
#[derive(Debug)]
pub struct Inboxes {
    prefix: String,
    up: u64,
}

impl Inboxes {
    /// `prefix` is what all of them begin with, without the last token's end: new in each process, and hard to guess.
    pub const fn new(prefix: String) -> Self {
        Inboxes { prefix, up: 0 }
    }

    /// The inbox of the connection that is asked for, or is being made.
    pub fn next(&self) -> String {
        format!("{}-{}", self.prefix, self.up + 1)
    }

    /// A connection is up: the one that was asked for.
    pub const fn up(&mut self) {
        self.up += 1;
    }

    /// The inbox of the connection that came up last.
    pub fn current(&self) -> String {
        format!("{}-{}", self.prefix, self.up)
    }
}

#[cfg(test)]
mod tests {
    use super::Inboxes;

    #[test]
    fn the_inbox_of_a_connection_is_the_one_that_was_told_when_it_was_asked_for() {
        let mut inboxes = Inboxes::new("_INBOX_mesh.vault.s".to_owned());
        let asked = inboxes.next();
        // Asked for twice, or again after a failure: the same inbox.
        assert_eq!(inboxes.next(), asked);
        inboxes.up();
        assert_eq!(inboxes.current(), asked);
        assert_ne!(inboxes.next(), asked, "each connection has its own");
    }
}

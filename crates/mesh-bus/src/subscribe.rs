//! What a link subscribes to.

/// A subscription that a link makes.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// Its subject.
    pub subject: String,
    /// Its queue group.
    pub queue: Option<&'static str>,
    /// How many messages may wait to be taken; what comes beyond is dropped and counted.
    pub limit: usize,
    /// Whether it brings requests, so that [`Link::stop_listening`](crate::nats::Link::stop_listening) gives it up.
    pub listens: bool,
}

/// The inbox of a link: what comes to `<prefix>.*`, and to the subjects for deliveries, is taken out by the gate, and
/// the crate never sees it.
#[derive(Debug, Clone)]
pub struct Inbox {
    /// What its subjects begin with, without a dot.
    pub prefix: String,
    /// How many messages may wait to be taken; what comes beyond is dropped and counted.
    pub limit: usize,
    /// How many subjects there are for what consumers deliver: `<prefix>.c.0` and so on. A consumer delivers only to a
    /// subject with a literal subscription.
    pub deliveries: usize,
}

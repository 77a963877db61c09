//! What goes wrong in a run, and how often: drawn from its seed.

use mesh_testing::dice::Dice;

/// What may befall a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The bus refuses, nobody listens, the publish is denied, nothing comes.
    Refused,
    NobodyThere,
    Denied,
    Silent,
    /// Of its messages one is lost, two change places, one comes twice.
    Lost,
    Reordered,
    Repeated,
    /// A server answers that does not know the newest writes yet.
    Lagging,
    /// The connection breaks in the middle.
    Breaks,
}

impl Trouble {
    const ALL: [Trouble; 9] = [
        Trouble::Refused,
        Trouble::NobodyThere,
        Trouble::Denied,
        Trouble::Silent,
        Trouble::Lost,
        Trouble::Reordered,
        Trouble::Repeated,
        Trouble::Lagging,
        Trouble::Breaks,
    ];
}

/// Each is this many of a thousand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// A request is lost on its way to the bus.
    pub(crate) lose_request: u32,
    /// It is done, and its answer is lost.
    pub(crate) lose_answer: u32,
    /// The answer comes late, and so after others.
    pub(crate) delay: u32,
    /// The longest such delay, in milliseconds.
    pub(crate) longest_delay: u64,
    /// The bus refuses.
    pub(crate) refuse: u32,
    /// The bus denies the publish.
    pub(crate) deny: u32,
    /// The answer cannot be read.
    pub(crate) garble: u32,
    /// The answer comes twice.
    pub(crate) repeat: u32,
    /// A batch meets one of these troubles.
    pub(crate) batch_trouble: u32,
    pub(crate) troubles: Vec<Trouble>,
    /// An attempt to connect fails.
    pub(crate) no_connection: u32,
    /// What a node writes has headers that are strange, or that nobody can read; it has a key out of shape.
    pub(crate) ugly_headers: u32,
    pub(crate) ugly_keys: u32,
    /// How many times in the run: the connection breaks, JetStream is off for a while, the machine sleeps.
    pub(crate) breaks: usize,
    pub(crate) outages: usize,
    pub(crate) sleeps: usize,
    /// How often somebody else writes the registry, and nodes write their own.
    pub(crate) registry_writes: usize,
    pub(crate) node_writes: usize,
    /// How often a bucket is copied, and becomes again what it was when it was copied last; how often its newest
    /// write goes without another one.
    pub(crate) restores: usize,
    pub(crate) newest_expires: usize,
    /// How often the registry is purged or made again.
    pub(crate) purges: usize,
}

impl Faults {
    pub(crate) fn drawn(dice: &mut Dice) -> Self {
        let rate = |dice: &mut Dice, most: usize| match dice.below(3) {
            0 => u32::try_from(dice.below(most)).unwrap(),
            _ => 0,
        };
        let count = |dice: &mut Dice, most: usize| if dice.chance(500) { dice.below(most) } else { 0 };
        Faults {
            lose_request: rate(dice, 100),
            lose_answer: rate(dice, 100),
            delay: rate(dice, 300),
            longest_delay: *dice.pick(&[5, 50, 500, 7_000]),
            refuse: rate(dice, 60),
            deny: rate(dice, 40),
            garble: rate(dice, 60),
            repeat: rate(dice, 300),
            batch_trouble: *dice.pick(&[0, 100, 300, 600]),
            troubles: (0..3).map(|_| *dice.pick(&Trouble::ALL)).collect(),
            no_connection: rate(dice, 900),
            ugly_headers: *dice.pick(&[0, 0, 50, 400]),
            ugly_keys: *dice.pick(&[0, 50, 150, 150]),
            breaks: count(dice, 12),
            outages: count(dice, 4),
            sleeps: count(dice, 4),
            registry_writes: count(dice, 30),
            node_writes: count(dice, 60),
            restores: count(dice, 4),
            newest_expires: count(dice, 6),
            purges: count(dice, 3),
        }
    }
}

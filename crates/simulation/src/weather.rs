//! Faults that last: an outage, a full disk.

use std::time::Duration;

use crate::random::Random;

/// What is wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spell {
    /// No connection can be made, and none answers.
    Outage,
    /// Every request is refused with 503.
    Unavailable,
    /// The server's disk is full: 507 to each PUT.
    FullDisk,
}

/// When which spell is.
#[derive(Debug, Clone, Default)]
pub struct Weather(Vec<(Duration, Duration, Spell)>);

impl Weather {
    /// Up to two spells in the first minutes of a run.
    pub fn draw(random: &mut Random) -> Self {
        let count = random.choose(&[0, 0, 1, 2]);
        let mut spell = || {
            let from = Duration::from_secs(random.below(300) as u64);
            let longest = Duration::from_secs(random.choose(&[10, 60, 240]));
            let spell = random.choose(&[Spell::Outage, Spell::Unavailable, Spell::FullDisk]);
            (from, from + random.time(longest), spell)
        };
        Self((0..count).map(|_| spell()).collect())
    }

    /// What is wrong at a time.
    pub fn at(&self, now: Duration) -> Option<Spell> {
        self.0.iter().find(|(from, until, _)| (*from..*until).contains(&now)).map(|(.., spell)| *spell)
    }
}

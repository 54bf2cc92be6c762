//! What becomes of a request.

use std::time::Duration;

use crate::{random::Random, request::Request};

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Carried out and answered.
    Usual,
    /// Carried out and answered after so long. Most clients have given up by then.
    Late(Duration),
    /// Never carried out, nor answered; nor is what follows on its connection.
    Lost,
    /// Carried out, and never answered.
    Unanswered,
    /// Carried out and answered; a copy is carried out after so long.
    Twice(Duration),
    /// The connection ends before it is carried out.
    CutBefore,
    /// The connection ends; it is carried out after so long.
    CutLate(Duration),
    /// The connection ends after it was carried out, without an answer.
    CutAfter,
    /// Refused with this status.
    Refused(u16),
    /// A proxy answers 504; it is carried out after so long.
    GaveUp(Duration),
}

/// How often each kind of fate strikes, in a thousand requests.
#[derive(Debug, Clone)]
pub struct Rates {
    /// [`Fate::Late`].
    pub late: usize,
    /// [`Fate::Lost`].
    pub lost: usize,
    /// [`Fate::Unanswered`].
    pub unanswered: usize,
    /// [`Fate::Twice`].
    pub twice: usize,
    /// [`Fate::CutBefore`].
    pub cut_before: usize,
    /// [`Fate::CutLate`].
    pub cut_late: usize,
    /// [`Fate::CutAfter`].
    pub cut_after: usize,
    /// [`Fate::Refused`].
    pub refused: usize,
    /// [`Fate::GaveUp`].
    pub gave_up: usize,
    /// How often a connection cannot be made.
    pub unreachable: usize,
    /// The longest delay of a late request.
    pub longest: Duration,
    /// The longest that a request takes that is not late.
    pub usual: Duration,
}

impl Rates {
    /// No faults, and answers within `usual`.
    pub fn none(usual: Duration) -> Self {
        Self {
            late: 0,
            lost: 0,
            unanswered: 0,
            twice: 0,
            cut_before: 0,
            cut_late: 0,
            cut_after: 0,
            refused: 0,
            gave_up: 0,
            unreachable: 0,
            longest: Duration::from_secs(1),
            usual,
        }
    }

    /// Rates of a run: one in six has no faults, the others have some of them.
    pub fn draw(random: &mut Random) -> Self {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let usual = Duration::from_millis(random.choose(&[5, 50, 400, 3000]));
        if random.chance(17) {
            return Self::none(usual);
        }
        let most = random.choose(&[10, 30, 100]);
        let mut rate = || if random.chance(50) { random.below(most) + 1 } else { 0 };
        Self {
            late: rate(),
            lost: rate(),
            unanswered: rate(),
            twice: rate(),
            cut_before: rate(),
            cut_late: rate(),
            cut_after: rate(),
            refused: rate(),
            gave_up: rate(),
            unreachable: rate(),
            longest: random.choose(&[Duration::from_secs(5), minutes(1), minutes(3), minutes(12)]),
            usual,
        }
    }

    /// The fate of the `nth` of equal requests, and how long it takes to reach the server.
    pub(crate) fn fate(&self, seed: u64, request: &Request, nth: u64) -> (Fate, Duration) {
        let mut random = Random::for_part(seed, &format!("{} {} {nth}", request.method, request.path));
        let (delay, late) = (random.time(self.usual), random.time(self.longest));
        let refusal = random.choose(&[500, 503]);
        let kinds = [
            (self.late, Fate::Late(late)),
            (self.lost, Fate::Lost),
            (self.unanswered, Fate::Unanswered),
            // No box on the path repeats what is not idempotent (RFC 9110 §9.2.2).
            (if request.method == "LOCK" { 0 } else { self.twice }, Fate::Twice(late)),
            (self.cut_before, Fate::CutBefore),
            (self.cut_late, Fate::CutLate(late)),
            (self.cut_after, Fate::CutAfter),
            (self.refused, Fate::Refused(refusal)),
            (self.gave_up, Fate::GaveUp(late)),
        ];
        let mut drawn = random.below(1000);
        for (rate, fate) in kinds {
            if drawn < rate {
                return (fate, delay);
            }
            drawn -= rate;
        }
        (Fate::Usual, delay)
    }
}

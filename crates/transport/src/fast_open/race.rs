//! Which of two connections it shall be: the one whose SYN carries data, or a plain one beside it.

use super::memory::Event;

/// How far the connection with data in its SYN is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fast {
    /// Its SYN is not answered.
    Silent,
    /// Its handshake is done, the data acknowledged with it or not.
    Open { accepted: bool },
    /// Something came back after it.
    Answered { accepted: bool },
    /// It was refused.
    Failed,
}

/// How far the plain connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// It was not begun.
    No,
    /// Its SYN is not answered.
    Silent,
    /// Its handshake is done.
    Open,
    /// Something came back after it.
    Answered,
    /// No address could be reached.
    Failed,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// Wait for either, or for the time to be up.
    Wait,
    /// Begin a plain one beside it.
    Begin,
    /// It is the one with data in its SYN, and this was learned.
    TakeFast(Event),
    /// It is the plain one, and this was learned.
    TakePlain(Event),
    /// Both have failed.
    Lost,
}

/// Decides. `late`: the bounded wait is over. `trusted`: once the handshake is done, silence is no reason to doubt,
/// because it has worked on this way before, or because what was written may not be repeated.
pub(super) fn decide(fast: Fast, plain: Plain, late: bool, trusted: bool) -> Move {
    let learned = |accepted| if accepted { Event::Answered } else { Event::Ignored };
    match (fast, plain) {
        (Fast::Open { accepted }, _) if trusted => Move::TakeFast(learned(accepted)),
        (Fast::Answered { accepted }, _) | (Fast::Open { accepted }, Plain::Failed) => {
            Move::TakeFast(learned(accepted))
        }
        (Fast::Open { .. }, Plain::Answered) => Move::TakePlain(Event::Swallowed),
        (Fast::Silent | Fast::Failed, Plain::Open | Plain::Answered) => Move::TakePlain(Event::Unanswered),
        (Fast::Failed, Plain::Failed) => Move::Lost,
        (Fast::Failed, Plain::No) => Move::Begin,
        (_, Plain::No) if late => Move::Begin,
        _ => Move::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FASTS: [Fast; 6] = [
        Fast::Silent,
        Fast::Open { accepted: false },
        Fast::Open { accepted: true },
        Fast::Answered { accepted: false },
        Fast::Answered { accepted: true },
        Fast::Failed,
    ];
    const PLAINS: [Plain; 5] = [Plain::No, Plain::Silent, Plain::Open, Plain::Answered, Plain::Failed];

    #[test]
    fn nobody_waits_for_ever_and_nobody_gives_up_what_has_answered() {
        for (fast, plain, trusted) in
            FASTS.iter().flat_map(|f| PLAINS.iter().flat_map(move |p| [false, true].map(|t| (*f, *p, t))))
        {
            let told = format!("{fast:?} {plain:?} {trusted}");
            let late = decide(fast, plain, true, trusted);
            // Late, there is always a plain one that may end the wait, or nothing is left to hope for but the SYN.
            assert_ne!((plain, late), (Plain::No, Move::Wait), "{told}");
            if let Fast::Answered { .. } = fast {
                assert!(matches!(late, Move::TakeFast(_)), "{told}");
            }
            if plain == Plain::Answered {
                assert!(matches!(late, Move::TakeFast(_) | Move::TakePlain(_)), "{told}");
            }
            // What a way is blamed for was seen to do better otherwise.
            if let Move::TakePlain(_) = late {
                assert!(matches!(plain, Plain::Open | Plain::Answered), "{told}");
            }
            assert_eq!(late == Move::Lost, (fast, plain) == (Fast::Failed, Plain::Failed), "{told}");
            let early = decide(fast, plain, false, trusted);
            assert!(early == late || (early, late) == (Move::Wait, Move::Begin), "{told}");
        }
    }
}

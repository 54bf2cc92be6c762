//! The race between a connection with data in its SYN and a plain one.

use super::path_history::Event;

/// The progress of the connection with data in its SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fast {
    /// No SYN-ACK yet.
    Silent,
    /// The handshake is done, with or without the data acknowledged.
    Open { accepted: bool },
    /// A response came.
    Answered { accepted: bool },
    /// It was refused.
    Failed,
}

/// The progress of the plain connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// Not started.
    No,
    /// No SYN-ACK yet.
    Silent,
    /// The handshake is done.
    Open,
    /// A response came.
    Answered,
    /// No address could be reached.
    Failed,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// Wait for either connection, or for the timer.
    Wait,
    /// Start the plain connection.
    Begin,
    /// Use the one with data in its SYN, and record this.
    TakeFast(Event),
    /// Use the plain one, and record this.
    TakePlain(Event),
    /// Both have failed.
    Lost,
}

/// Decides the next step. `late`: the wait for a SYN-ACK is over. `trusted`: silence after the handshake is normal,
/// because the path has worked before, or because the data must not be repeated.
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
    fn race_ends_and_keeps_a_connection_that_has_responded() {
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

//! Which files at the target are left alone, by the user's wish.

use std::{fmt, time::SystemTime};

use super::seconds;

/// Which files at the target are left alone, whatever their source is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spare {
    /// All that are there.
    pub existing: bool,
    /// Those that are newer than their source, in whole seconds.
    pub newer: bool,
    /// Those of the same length.
    pub same_size: bool,
}

/// Why a file was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spared {
    /// It is there already, as far as it was compared.
    Unchanged,
    /// Something of its name is there.
    Existing,
    /// What is there is newer.
    Newer,
    /// What is there has the same length.
    SameSize,
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Existing => "exists at the target",
            Self::Newer => "newer at the target",
            Self::SameSize => "same size at the target",
        })
    }
}

impl Spare {
    /// Whether a file of this length and time at the target is left alone, and why.
    pub(crate) fn judge(
        self,
        source: (Option<u64>, Option<SystemTime>),
        target: (Option<u64>, Option<SystemTime>),
    ) -> Option<Spared> {
        let is_newer = || source.1.zip(target.1).is_some_and(|(source, target)| seconds(target) > seconds(source));
        if self.existing {
            Some(Spared::Existing)
        } else if self.newer && is_newer() {
            Some(Spared::Newer)
        } else if self.same_size && source.0.is_some() && source.0 == target.0 {
            Some(Spared::SameSize)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        Spared::{Existing, Newer, SameSize},
        *,
    };

    #[test]
    fn files_at_the_target_are_left_alone_as_wished() {
        let at = |seconds: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 400));
        let none = Spare::default();
        let spares = [
            none,
            Spare { existing: true, ..none },
            Spare { newer: true, ..none },
            Spare { same_size: true, ..none },
            Spare { newer: true, same_size: true, ..none },
        ];
        for (target, judged) in [
            ((Some(5), at(9)), [None, Some(Existing), None, Some(SameSize), Some(SameSize)]),
            ((Some(5), at(10)), [None, Some(Existing), None, Some(SameSize), Some(SameSize)]),
            ((Some(6), at(11)), [None, Some(Existing), Some(Newer), None, Some(Newer)]),
            ((None, None), [None, Some(Existing), None, None, None]),
        ] {
            assert_eq!(spares.map(|spare| spare.judge((Some(5), at(10)), target)), judged, "{target:?}");
        }
        assert_eq!(spares[3].judge((None, None), (None, None)), None);
    }
}

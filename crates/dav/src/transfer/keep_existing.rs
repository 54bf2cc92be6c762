//! Which existing files at the target to keep, whatever their source is.

use std::{fmt, time::SystemTime};

use super::seconds;

/// Which existing files at the target to keep, whatever their source is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepExisting {
    /// All of them.
    pub existing: bool,
    /// Those that are newer than their source, in whole seconds.
    pub newer: bool,
    /// Those of the same length.
    pub same_size: bool,
}

/// Why a file was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Both sides are equal, as far as they were compared.
    Unchanged,
    /// The target exists.
    Existing,
    /// The target is newer.
    Newer,
    /// The target has the same length.
    SameSize,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Existing => "exists at the target",
            Self::Newer => "newer at the target",
            Self::SameSize => "same size at the target",
        })
    }
}

impl KeepExisting {
    /// Why a target of this length and time is kept, if it is.
    pub(crate) fn reason(
        self,
        source: (Option<u64>, Option<SystemTime>),
        target: (Option<u64>, Option<SystemTime>),
    ) -> Option<SkipReason> {
        let is_newer = || source.1.zip(target.1).is_some_and(|(source, target)| seconds(target) > seconds(source));
        if self.existing {
            Some(SkipReason::Existing)
        } else if self.newer && is_newer() {
            Some(SkipReason::Newer)
        } else if self.same_size && source.0.is_some() && source.0 == target.0 {
            Some(SkipReason::SameSize)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        SkipReason::{Existing, Newer, SameSize},
        *,
    };

    #[test]
    fn existing_newer_or_equally_long_targets_are_kept() {
        let at = |seconds: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 400));
        let none = KeepExisting::default();
        let rules = [
            none,
            KeepExisting { existing: true, ..none },
            KeepExisting { newer: true, ..none },
            KeepExisting { same_size: true, ..none },
            KeepExisting { newer: true, same_size: true, ..none },
        ];
        for (target, reasons) in [
            ((Some(5), at(9)), [None, Some(Existing), None, Some(SameSize), Some(SameSize)]),
            ((Some(5), at(10)), [None, Some(Existing), None, Some(SameSize), Some(SameSize)]),
            ((Some(6), at(11)), [None, Some(Existing), Some(Newer), None, Some(Newer)]),
            ((None, None), [None, Some(Existing), None, None, None]),
        ] {
            assert_eq!(rules.map(|keep| keep.reason((Some(5), at(10)), target)), reasons, "{target:?}");
        }
        assert_eq!(rules[3].reason((None, None), (None, None)), None);
    }
}

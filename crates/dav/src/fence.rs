//! What keeps a late copy of a change from undoing what has been stored since: one table for all who send changes.
//!
//! A server may carry out a request long after its client has given up waiting: a stopped process has it in its socket, or
//! a proxy holds it. By then the file may have been saved again, and that save confirmed. So a change names what it replaces,
//! deletes or creates. If what has happened since makes all of its copies fail, it may be sent again whenever its answer is
//! missing. Otherwise something else has to be done first, or nothing newer may be confirmed.

use http::{HeaderMap, header};

use crate::Precondition;

/// What a change says of its file, by what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// A strong entity tag (RFC 9110 §13.1.1).
    Tag,
    /// A weak entity tag, at a server whose `If` compares weakly.
    WeakTag,
    /// That there is none (RFC 9110 §13.1.2).
    Absent,
    /// The token of our lock, and one of these: all conditions of a list must hold (RFC 4918 §10.4.3).
    LockAndState,
    /// The token alone, which is unique for ever (RFC 4918 §6.5).
    Lock,
    /// Nothing.
    Nothing,
}

/// What may follow a change whose answer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSilence {
    /// The same request.
    Repeat,
    /// UNLOCK and LOCK, before anything newer is sent under the lock.
    Relock,
    /// An error.
    GiveUp,
}

impl Fence {
    /// All of them, in the order of the book's table.
    pub const ALL: [Self; 6] = [Self::Tag, Self::WeakTag, Self::Absent, Self::LockAndState, Self::Lock, Self::Nothing];

    /// Of a change with this precondition, whose tag the server compares, and perhaps under a lock of ours.
    pub fn of(precondition: &Precondition, is_locked: bool) -> Self {
        match precondition {
            Precondition::Unchanged(_) | Precondition::Absent if is_locked => Self::LockAndState,
            Precondition::Unchanged(tag) if tag.is_weak() => Self::WeakTag,
            Precondition::Unchanged(_) => Self::Tag,
            Precondition::Absent => Self::Absent,
            _ if is_locked => Self::Lock,
            _ => Self::Nothing,
        }
    }

    /// Of a client's request. In what form it names a version is its own matter.
    pub fn in_headers(headers: &HeaderMap) -> Self {
        let lists = headers.get("if").map_or(&b""[..], |lists| lists.as_bytes());
        let (names_tag, names_token) = (lists.contains(&b'['), lists.contains(&b'<'));
        let is_absent = headers.contains_key(header::IF_NONE_MATCH);
        match names_tag || is_absent || headers.contains_key(header::IF_MATCH) {
            true if names_token => Self::LockAndState,
            true if is_absent => Self::Absent,
            true => Self::Tag,
            false if names_token => Self::Lock,
            false => Self::Nothing,
        }
    }

    /// What may follow if the answer is missing.
    pub fn after_silence(self) -> AfterSilence {
        match self {
            Self::Tag | Self::WeakTag | Self::Absent | Self::LockAndState => AfterSilence::Repeat,
            Self::Lock => AfterSilence::Relock,
            Self::Nothing => AfterSilence::GiveUp,
        }
    }

    /// Whether a change must not be repeated when its answer is missing. On a pipeline, a middlebox loses answers rather than the
    /// server.
    pub(crate) fn gives_up(self, pipeline: bool) -> bool {
        !pipeline && self.after_silence() == AfterSilence::GiveUp
    }

    /// Its row of the book's table: what is known of the file, what the request says, what becomes of a late copy, and what
    /// follows a missing answer.
    pub fn row(self) -> String {
        let [known, says, late] = match self {
            Self::Tag => ["a strong entity tag", "`If-Match`", "fails with 412"],
            Self::WeakTag => [
                "a weak one, at Apache (for two seconds after a change)",
                "`If` with the tag, which Apache compares weakly",
                "fails with 412",
            ],
            Self::Absent => {
                ["there is none", "`If-None-Match: *`", "fails, unless the file was deleted; a mount deletes it again"]
            }
            Self::LockAndState => ["our lock, and one of these", "both, in one list of `If`", "fails with 412"],
            Self::Lock => ["our lock alone", "the token", "fails when the lock has ended"],
            Self::Nothing => ["neither tag nor lock", "nothing", "can undo a newer save"],
        };
        let then = match self.after_silence() {
            AfterSilence::Repeat => "repeated",
            AfterSilence::Relock => "UNLOCK and LOCK before anything newer",
            AfterSilence::GiveUp => "fails; the gateway answers 504",
        };
        format!("| {known} | {says} | {late} | {then} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETag;

    #[test]
    fn what_fails_by_itself_may_be_repeated_and_nothing_else() {
        let unchanged = |tag| Precondition::Unchanged(ETag::parse(tag).unwrap());
        for (precondition, unlocked, locked) in [
            (unchanged("\"a\""), Fence::Tag, Fence::LockAndState),
            (unchanged("W/\"a\""), Fence::WeakTag, Fence::LockAndState),
            (Precondition::Absent, Fence::Absent, Fence::LockAndState),
            // In any version.
            (Precondition::Present, Fence::Nothing, Fence::Lock),
            (Precondition::None, Fence::Nothing, Fence::Lock),
        ] {
            assert_eq!(
                [false, true].map(|lock| Fence::of(&precondition, lock)),
                [unlocked, locked],
                "{precondition:?}"
            );
        }
        let repeated: Vec<_> =
            Fence::ALL.into_iter().filter(|fence| fence.after_silence() == AfterSilence::Repeat).collect();
        assert_eq!(repeated, Fence::ALL[..4]);
        assert_eq!(Fence::Nothing.after_silence(), AfterSilence::GiveUp);
    }

    #[test]
    fn requests_of_clients_are_read() {
        for (name, value, fence) in [
            ("if-match", "\"1\"", Fence::Tag),
            ("if-none-match", "*", Fence::Absent),
            ("if", "(<urn:a> [\"1\"])", Fence::LockAndState),
            ("if", "([\"1\"])", Fence::Tag),
            ("if", "(<urn:a>)", Fence::Lock),
            ("if", "</a> (<urn:a>)", Fence::Lock),
            ("depth", "0", Fence::Nothing),
        ] {
            let headers = HeaderMap::from_iter([(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())]);
            assert_eq!(Fence::in_headers(&headers), fence, "{name}: {value}");
        }
    }
}

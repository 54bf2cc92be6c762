//! What is here of a file's content, what is on its way, and what the server does not have yet. No I/O.
//!
//! The server's bytes are those below `remote`, as far as the program has not written over them; they are fetched when they
//! are needed. All other bytes are here: written ones, and the zeros of a file that was made longer.

use std::ops::Range;

pub(crate) use writeback::Base;

use crate::{ranges::Ranges, tree::Facts};

/// What an upload has to send.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// The number of changes that it contains.
    pub(crate) changes: u64,
    pub(crate) length: u64,
    pub(crate) base: Base,
}

#[derive(Debug, Clone)]
pub(crate) struct FileState {
    base: Base,
    length: u64,
    /// The end of the server's bytes.
    remote: u64,
    /// The server's bytes that are here or written over.
    present: Ranges,
    /// Those that were requested and have not arrived.
    requested: Ranges,
    changes: u64,
    uploaded: u64,
    /// The number of changes in what was sent last, if the server may have it.
    sent: u64,
    /// The number of changes that the journal has.
    journaled: u64,
}

impl FileState {
    /// A file that a program has created: an upload is due even if nothing is written.
    pub(crate) fn new() -> Self {
        let (present, requested) = <(Ranges, Ranges)>::default();
        Self {
            base: Base::New,
            length: 0,
            remote: 0,
            present,
            requested,
            changes: 1,
            uploaded: 0,
            sent: 0,
            journaled: 0,
        }
    }

    /// A file of the server.
    pub(crate) fn of(facts: Facts) -> Self {
        let length = facts.length;
        let (present, requested) = <(Ranges, Ranges)>::default();
        Self {
            base: Base::Version(facts),
            length,
            remote: length,
            present,
            requested,
            changes: 0,
            uploaded: 0,
            sent: 0,
            journaled: 0,
        }
    }

    /// A file whose content is all here, in the journal.
    pub(crate) fn in_journal(base: Base, length: u64) -> Self {
        Self { base, length, journaled: 1, ..Self::new() }
    }

    /// A file of the server, of which these bytes are here.
    pub(crate) fn with(facts: Facts, present: Ranges) -> Self {
        Self { present, ..Self::of(facts) }
    }

    /// The version, and which bytes of it are here; none if the file differs from all versions of the server.
    pub(crate) fn version(&self) -> Option<(&Facts, &Ranges)> {
        match &self.base {
            Base::Version(facts) if !self.is_dirty() && self.length == self.remote && facts.length == self.length => {
                Some((facts, &self.present))
            }
            _ => None,
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether the content began with a version of this length.
    pub(crate) fn is_version_of(&self, length: u64) -> bool {
        matches!(&self.base, Base::Version(facts) if facts.length == length)
    }

    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// Whether the server lacks a change.
    pub(crate) fn is_dirty(&self) -> bool {
        self.changes != self.uploaded
    }

    /// Whether neither the server nor the journal has a change.
    pub(crate) fn is_unsafe(&self) -> bool {
        self.is_dirty() && self.changes != self.journaled
    }

    /// What `snapshot` contains is about to be sent. Returns whether the same was sent before, with an unknown outcome.
    pub(crate) fn begin_upload(&mut self, snapshot: &Snapshot) -> bool {
        std::mem::replace(&mut self.sent, snapshot.changes) == snapshot.changes
    }

    /// The server does not have what was sent last.
    pub(crate) fn upload_refused(&mut self) {
        self.sent = 0;
    }

    /// The journal has what `snapshot` contains.
    pub(crate) fn journaled(&mut self, snapshot: &Snapshot) {
        self.journaled = snapshot.changes;
    }

    /// Whether the server has never had the file.
    pub(crate) fn is_new(&self) -> bool {
        self.base == Base::New
    }

    fn remote_part(&self, range: Range<u64>) -> Range<u64> {
        range.start.min(self.remote)..range.end.min(self.remote)
    }

    /// The parts of a range that are not here.
    pub(crate) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.present.missing(self.remote_part(range))
    }

    /// The parts of a range that nobody has requested yet; they count as requested now.
    pub(crate) fn request(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let missing = self.missing(range);
        let parts: Vec<_> = missing.into_iter().flat_map(|part| self.requested.missing(part)).collect();
        for part in &parts {
            self.requested.insert(part.clone());
        }
        parts
    }

    /// Whether all of a range is here or requested.
    pub(crate) fn is_coming(&self, range: Range<u64>) -> bool {
        self.missing(range).into_iter().all(|part| self.requested.missing(part).is_empty())
    }

    /// Bytes of the server have arrived. Returns the parts to store: the program has written over the others.
    pub(crate) fn arrived(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let parts = self.missing(range.clone());
        self.present.insert(self.remote_part(range.clone()));
        self.requested.remove(range);
        parts
    }

    /// A fetch has ended; what has not arrived may be requested again.
    pub(crate) fn fetch_ended(&mut self, range: Range<u64>) {
        self.requested.remove(range);
    }

    /// A program writes.
    pub(crate) fn write(&mut self, range: Range<u64>) {
        self.present.insert(self.remote_part(range.clone()));
        self.length = self.length.max(range.end);
        self.changes += 1;
    }

    /// A program sets the length.
    pub(crate) fn truncate(&mut self, length: u64) {
        self.length = length;
        if length < self.remote {
            self.present.remove(length..self.remote);
            self.remote = length;
        }
        self.changes += 1;
    }

    /// What an upload has to send, if anything.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let snapshot = || Snapshot { changes: self.changes, length: self.length, base: self.base.clone() };
        self.is_dirty().then(snapshot)
    }

    /// The server has what `snapshot` contained, as the version `facts`.
    pub(crate) fn uploaded(&mut self, snapshot: &Snapshot, facts: Facts) {
        self.uploaded = snapshot.changes;
        self.base = Base::Version(facts);
        // All of it is here.
        self.remote = snapshot.length.min(self.length);
        self.present.insert(0..self.remote);
    }

    /// The server's bytes here outside `kept`, which can be fetched again; none while the server lacks a change.
    pub(crate) fn evictable(&self, kept: Range<u64>) -> Vec<Range<u64>> {
        if self.is_dirty() {
            return Vec::new();
        }
        let outside = [0..kept.start.min(self.remote), kept.end.min(self.remote)..self.remote];
        outside.into_iter().flat_map(|range| self.present.within(range)).collect()
    }

    /// Makes all bytes ours, because they cannot be fetched again. False if some are missing.
    pub(crate) fn detach(&mut self) -> bool {
        let is_whole = self.missing(0..self.length).is_empty();
        if is_whole {
            (self.remote, self.present) = (0, Ranges::default());
        }
        is_whole
    }

    /// Bytes of the server are here no more.
    pub(crate) fn evicted(&mut self, range: Range<u64>) {
        self.present.remove(range);
    }

    /// The server has the same content under a new entity tag, because it was renamed.
    pub(crate) fn rebase(&mut self, base: Base) {
        self.base = base;
    }

    /// The bytes that the cache holds.
    pub(crate) fn stored(&self) -> u64 {
        self.present.total() + (self.length - self.remote)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, u64),
        Truncate(u64),
        Fetch(u64, u64),
        Upload,
        Evict(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..60_u64, 1..20_u64).prop_map(|(at, length)| Step::Write(at, length)),
            (0..60_u64).prop_map(Step::Truncate),
            (0..60_u64, 1..40_u64).prop_map(|(at, length)| Step::Fetch(at, length)),
            Just(Step::Upload),
            (0..60_u64, 0..60_u64).prop_map(|(start, end)| Step::Evict(start, end)),
        ]
    }

    proptest! {
        /// Against plain bytes: whatever is written, cut and fetched in whatever order, the file is what a local file would
        /// be as soon as nothing is missing.
        #[test]
        fn a_partly_fetched_file_reads_as_a_local_one(length in 0..60_u64, steps in prop::collection::vec(step(), 0..40)) {
            let server: Vec<u8> = (0..length).map(|at| at as u8 + 1).collect();
            let (mut model, mut server_now) = (server.clone(), server);
            let mut here = vec![0_u8; length as usize];
            let mut state = FileState::of(Facts { length, ..Facts::default() });
            for (number, step) in steps.into_iter().enumerate() {
                let mark = 100 + number as u8;
                let set_length = |bytes: &mut Vec<u8>, length: u64| bytes.resize(length as usize, 0);
                match step {
                    Step::Write(at, count) => {
                        for bytes in [&mut model, &mut here] {
                            let end = bytes.len().max((at + count) as usize) as u64;
                            set_length(bytes, end);
                            bytes[at as usize..(at + count) as usize].fill(mark);
                        }
                        state.write(at..at + count);
                    }
                    Step::Truncate(length) => {
                        set_length(&mut model, length);
                        set_length(&mut here, length);
                        state.truncate(length);
                    }
                    Step::Fetch(at, count) => {
                        for range in state.request(at..at + count) {
                            for part in state.arrived(range) {
                                let part = part.start as usize..part.end as usize;
                                here[part.clone()].copy_from_slice(&server_now[part]);
                            }
                        }
                    }
                    Step::Evict(start, end) => {
                        for range in state.evictable(start.min(end)..end) {
                            here[range.start as usize..range.end as usize].fill(0);
                            state.evicted(range);
                        }
                    }
                    Step::Upload => {
                        for range in state.request(0..state.length()) {
                            for part in state.arrived(range) {
                                let part = part.start as usize..part.end as usize;
                                here[part.clone()].copy_from_slice(&server_now[part]);
                            }
                        }
                        if let Some(snapshot) = state.snapshot() {
                            server_now = here.clone();
                            state.uploaded(&snapshot, Facts { length: snapshot.length, ..Facts::default() });
                        }
                        prop_assert!(!state.is_dirty());
                        prop_assert_eq!(&server_now, &model);
                    }
                }
                prop_assert_eq!(state.length(), model.len() as u64);
                let missing: Vec<u64> = state.missing(0..state.length()).into_iter().flatten().collect();
                for at in 0..model.len() {
                    prop_assert!(missing.contains(&(at as u64)) || here[at] == model[at], "byte {}", at);
                }
            }
        }
    }
}

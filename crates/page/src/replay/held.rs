//! The requests that a document's `<head>` holds back ([`Hold`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{Hold, Priority, Spec};

/// What is held back, and by what.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The importance of each request that may be held back, and its group.
    of: BTreeMap<usize, (Priority, usize)>,
    groups: Vec<Group>,
    /// The groups that each request of a `<head>` holds back.
    holds: BTreeMap<usize, Vec<usize>>,
    /// Those that are held back now, by group and importance, in the order in which they are let go.
    now: BTreeMap<(usize, Priority), BTreeSet<usize>>,
}

/// The requests that one `<head>` holds back.
#[derive(Debug)]
struct Group {
    compute: Duration,
    /// How many requests of the `<head>` have not ended; none: the computation after them is done.
    left: Option<usize>,
    /// How many of the `<head>` are under way, and how many of those held back, by importance.
    of_head: usize,
    medium: usize,
    low: usize,
}

impl Group {
    /// Whether it holds back what is of this importance.
    fn is_full(&self, priority: Priority) -> bool {
        let Self { left, of_head, medium, low, .. } = self;
        let full = match priority {
            Priority::Medium => *medium >= Hold::FREE,
            Priority::Low => of_head + medium + low >= Hold::FREE,
        };
        left.is_some() && full
    }
}

impl Held {
    pub(super) fn new(spec: &Spec) -> Self {
        let mut held = Self::default();
        let mut numbers: BTreeMap<(&[usize], Duration), usize> = BTreeMap::new();
        for (index, request) in spec.requests.iter().enumerate() {
            let Some(Hold { priority, behind, compute }) = &request.hold else { continue };
            let group = *numbers.entry((behind, *compute)).or_insert_with(|| {
                let behind: BTreeSet<usize> = behind.iter().copied().collect();
                let group = held.groups.len();
                held.groups.push(Group { compute: *compute, left: Some(behind.len()), of_head: 0, medium: 0, low: 0 });
                for before in behind {
                    held.holds.entry(before).or_default().push(group);
                }
                group
            });
            held.of.insert(index, (*priority, group));
        }
        held
    }

    /// A request is sent.
    pub(super) fn sent(&mut self, request: usize) {
        self.count(request, |under_way| *under_way += 1);
    }

    /// The response to a request is complete. Returns the groups for which it was the last one of the `<head>`, each with
    /// the computation time that follows.
    pub(super) fn ended(&mut self, request: usize) -> Vec<(usize, Duration)> {
        self.count(request, |under_way| *under_way = under_way.saturating_sub(1));
        let mut last = Vec::new();
        for group in self.holds.get(&request).into_iter().flatten() {
            let Group { left, compute, .. } = &mut self.groups[*group];
            *left = left.map(|left| left.saturating_sub(1));
            if *left == Some(0) {
                last.push((*group, *compute));
            }
        }
        last
    }

    /// A `<head>` holds nothing back any more.
    pub(super) fn lift(&mut self, group: usize) {
        self.groups[group].left = None;
    }

    /// A request is ready. Returns whether it is held back.
    pub(super) fn hold(&mut self, request: usize) -> bool {
        let Some(&(priority, group)) = self.of.get(&request) else { return false };
        let is_held = self.groups[group].is_full(priority);
        if is_held {
            self.now.entry((group, priority)).or_default().insert(request);
        }
        is_held
    }

    /// One of those that are held back no longer.
    pub(super) fn free(&mut self) -> Option<usize> {
        let groups = &self.groups;
        let mut held = self.now.iter_mut().filter(|((group, priority), _)| !groups[*group].is_full(*priority));
        held.find_map(|(_, requests)| requests.pop_first())
    }

    fn count(&mut self, request: usize, change: impl Fn(&mut usize)) {
        for group in self.holds.get(&request).into_iter().flatten() {
            change(&mut self.groups[*group].of_head);
        }
        if let Some((priority, group)) = self.of.get(&request) {
            let group = &mut self.groups[*group];
            change(match priority {
                Priority::Medium => &mut group.medium,
                Priority::Low => &mut group.low,
            });
        }
    }
}

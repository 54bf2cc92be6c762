//! The contents on disk that this mount has not opened, or has closed long ago. No I/O.

use std::collections::{BTreeMap, HashMap};

use super::record::Name;

/// The maximum number of contents.
const MOST: usize = 100_000;

/// Contents by their paths' keys, and in the order of their last use.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    names: HashMap<u64, Name>,
    by_age: BTreeMap<u64, u64>,
    stored: u64,
}

impl Unused {
    /// Adds a content. Returns an older one of the same path.
    pub(crate) fn add(&mut self, name: Name) -> Option<Name> {
        let known = self.names.get(&name.key).copied();
        if known.is_some_and(|known| known.number > name.number) {
            return Some(name);
        }
        let older = self.take(name.key);
        self.names.insert(name.key, name);
        self.by_age.insert(name.number, name.key);
        self.stored += name.stored;
        older
    }

    /// Takes the content of a path out.
    pub(crate) fn take(&mut self, key: u64) -> Option<Name> {
        let name = self.names.remove(&key)?;
        self.by_age.remove(&name.number);
        self.stored -= name.stored;
        Some(name)
    }

    /// Takes those out that have to go, if the others may have so many bytes: the ones unused for longest.
    pub(crate) fn above(&mut self, limit: u64) -> Vec<Name> {
        let mut gone = Vec::new();
        while (self.stored > limit || self.names.len() > MOST)
            && let Some((_, key)) = self.by_age.first_key_value().map(|(number, key)| (*number, *key))
        {
            gone.extend(self.take(key));
        }
        gone
    }

    /// Their numbers.
    pub(crate) fn contents(&self) -> impl Iterator<Item = u64> {
        self.names.values().map(|name| name.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: u64, number: u64, stored: u64) -> Name {
        Name { key, number, content: number, stored }
    }

    #[test]
    fn the_ones_unused_for_longest_go_first() {
        let mut unused = Unused::default();
        for (key, number) in [(1, 3), (2, 1), (3, 2), (4, 4)] {
            assert_eq!(unused.add(name(key, number, 10)), None);
        }
        assert_eq!(unused.above(40), []);
        assert_eq!(unused.above(25), [name(2, 1, 10), name(3, 2, 10)]);
        assert_eq!(unused.stored, 20);
        assert_eq!(unused.take(2), None);
        assert_eq!(unused.take(4), Some(name(4, 4, 10)));
        assert_eq!(unused.above(0), [name(1, 3, 10)]);
    }

    #[test]
    fn of_two_contents_of_a_path_the_later_stays() {
        let mut unused = Unused::default();
        assert_eq!(unused.add(name(1, 5, 10)), None);
        assert_eq!(unused.add(name(1, 6, 20)), Some(name(1, 5, 10)));
        assert_eq!(unused.add(name(1, 4, 30)), Some(name(1, 4, 30)));
        assert_eq!((unused.stored, unused.take(1)), (20, Some(name(1, 6, 20))));
    }
}

//! Files that an earlier attempt of the same transfer has copied.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
};

use super::lock;

/// Files that an earlier attempt has copied. Only a hash of each name is kept, since there may be very many.
#[derive(Debug, Clone, Default)]
pub struct AlreadyCopied(Option<Arc<Names>>);

#[derive(Debug, Default)]
struct Names {
    hasher: RandomState,
    numbers: Mutex<HashSet<u64>>,
}

impl AlreadyCopied {
    /// An empty set, for a first attempt.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds a file by the name of its source.
    pub fn add(&self, path: &str) {
        if let Some(names) = &self.0 {
            lock(&names.numbers).insert(names.hasher.hash_one(path));
        }
    }

    /// Whether a file was copied before.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.as_ref().is_some_and(|names| lock(&names.numbers).contains(&names.hasher.hash_one(path)))
    }

    /// Whether there was no earlier attempt.
    pub(crate) fn is_first(&self) -> bool {
        self.0.is_none()
    }
}

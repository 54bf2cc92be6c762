//! What an earlier try of the same transfer has copied.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
};

use super::lock;

/// Files that an earlier try has copied. Of each name a number is kept: there may be very many.
#[derive(Debug, Clone, Default)]
pub struct AlreadyCopied(Option<Arc<Names>>);

#[derive(Debug, Default)]
struct Names {
    hasher: RandomState,
    numbers: Mutex<HashSet<u64>>,
}

impl AlreadyCopied {
    /// None yet.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// A file was copied, by the name of its source.
    pub fn add(&self, path: &str) {
        if let Some(names) = &self.0 {
            lock(&names.numbers).insert(names.hasher.hash_one(path));
        }
    }

    /// Whether a file was copied.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.as_ref().is_some_and(|names| lock(&names.numbers).contains(&names.hasher.hash_one(path)))
    }

    /// Whether there was no earlier try.
    pub(crate) fn is_first(&self) -> bool {
        self.0.is_none()
    }
}

//! The handles that programs have open.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fuser::FileHandle;

/// Open handles.
pub(crate) struct Table<T> {
    handles: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { handles: Mutex::default(), next: AtomicU64::new(1) }
    }

    pub(crate) fn add(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(value));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0)
    }
}

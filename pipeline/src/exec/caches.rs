//! The contents of memory caches, kept from one execution of a dataset to the next.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::item::Item;

/// Caches that keep their elements beyond an execution; further ones keep them for the execution only.
const CACHES_MAX: usize = 64;

/// The elements that the memory caches of a dataset hold, shared by all executions that are given a clone.
/// Each cache bounds its own bytes. An executor that is to reuse what was cached is given the same one.
#[derive(Clone, Default)]
pub struct Caches {
    whole: Arc<Mutex<BTreeMap<String, Arc<[Item]>>>>,
}

/// The place of one cache among those of its dataset.
#[derive(Debug, Clone)]
pub(crate) struct CachePlace {
    caches: Caches,
    /// Tells the cache from others by what it keeps and where it stands.
    key: String,
}

impl Caches {
    /// The place of the cache with this key.
    pub(crate) fn place(&self, key: String) -> CachePlace {
        let caches = self.clone();
        CachePlace { caches, key }
    }
}

impl CachePlace {
    /// The elements of a whole pass, if one was kept.
    pub(crate) fn find(&self) -> Option<Arc<[Item]>> {
        self.caches.whole.lock().get(&self.key).cloned()
    }

    /// Keeps the elements of a whole pass, unless another execution was first or there are too many caches.
    pub(crate) fn keep(&self, items: &Arc<[Item]>) {
        let mut whole = self.caches.whole.lock();
        if whole.len() < CACHES_MAX {
            whole.entry(self.key.clone()).or_insert_with(|| Arc::clone(items));
        }
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches")
            .field("whole", &self.whole.lock().len())
            .finish()
    }
}

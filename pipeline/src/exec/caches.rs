//! The contents of memory caches, which are kept from one execution of a dataset to the next execution.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::item::Item;

/// Maximum number of caches that keep their elements beyond an execution. Further caches keep their elements
/// for one execution only.
const CACHES_MAX: usize = 64;

/// The elements that the memory caches of a dataset hold. Executions share the elements if they receive
/// clones of one `Caches`. Each cache limits its own bytes.
#[derive(Clone, Default)]
pub struct Caches {
    whole: Arc<Mutex<BTreeMap<String, Arc<[Item]>>>>,
}

/// The place of one cache among the caches of its dataset.
#[derive(Debug, Clone)]
pub(crate) struct CachePlace {
    caches: Caches,
    /// The key that distinguishes the cache from other caches, by its contents and by its place in the graph.
    key: String,
}

impl Caches {
    /// Returns the place of the cache with the key `key`.
    pub(crate) fn place(&self, key: String) -> CachePlace {
        let caches = self.clone();
        CachePlace { caches, key }
    }
}

impl CachePlace {
    /// Returns the elements of a whole pass, if a whole pass was kept.
    pub(crate) fn find(&self) -> Option<Arc<[Item]>> {
        self.caches.whole.lock().get(&self.key).cloned()
    }

    /// Keeps the elements of a whole pass. Does nothing if another execution was first, or if there are too
    /// many caches.
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

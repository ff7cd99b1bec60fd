//! The crews of this process, which are pools of executors, by their code. Tasks of one dataset share a pool,
//! and a pool is kept for the next epoch. This file does not know the work of pools.

use std::sync::Arc;

use parking_lot::Mutex;

use super::crew::{Crew, Job};

/// Maximum number of pools that are kept. A kept pool without a task holds its code, and for a minute its
/// processes.
const KEPT_MAX: usize = 8;

/// The executor pools, with the latest at the end.
#[derive(Debug, Default)]
pub(super) struct Crews {
    kept: Mutex<Vec<Arc<Crew>>>,
}

impl Crews {
    /// Returns the pool for `job`, and makes the pool if it does not exist.
    pub(super) fn crew(&self, job: Job) -> Arc<Crew> {
        let mut kept = self.kept.lock();
        let is_same = |crew: &Arc<Crew>| crew.job.code == job.code && crew.job.described == job.described;
        let crew = match kept.iter().position(is_same) {
            Some(index) => kept.remove(index),
            None => Arc::new(Crew::new(job)),
        };
        kept.push(Arc::clone(&crew));
        let dropped = (kept.len() > KEPT_MAX).then(|| kept.remove(0));
        drop(kept);
        // Ending processes takes a moment, during which other threads may need the lock.
        drop(dropped);
        crew
    }
}

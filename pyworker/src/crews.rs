//! The crews of this process, by their code: tasks of one dataset share one, and one stays for the next
//! epoch. Refuses to know what they do.

use std::sync::Arc;

use parking_lot::Mutex;

use super::crew::{Crew, Job};

/// Crews that are kept though no task has them: each costs its code until then, and processes for a minute.
const KEPT_MAX: usize = 8;

/// The crews, the latest last.
#[derive(Debug, Default)]
pub(super) struct Crews {
    kept: Mutex<Vec<Arc<Crew>>>,
}

impl Crews {
    /// The crew for `job`.
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
        // Ending processes takes a moment, in which others may need theirs.
        drop(dropped);
        crew
    }
}

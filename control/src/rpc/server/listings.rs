//! Sources being listed, off the loop: file systems are waited for, but not for ever, and not by everybody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::dispatcher::DatasetRecord;
use crate::id::IterationId;
use crate::planner::{PlanError, Planner, SplitPlan};

/// Listings at a time.
const AT_A_TIME_MAX: usize = 16;
/// Listings that were given up and whose thread still hangs in a file system. Beyond it none begins.
const HUNG_MAX: usize = 64;

/// The listings under way. Dropping it gives them up; a thread that hangs in a file system stays until that
/// lets it go.
pub(super) struct Listings {
    planner: Arc<dyn Planner>,
    deadline: Duration,
    turns: Arc<Semaphore>,
    threads: Arc<Semaphore>,
    under_way: JoinSet<(IterationId, Result<SplitPlan, PlanError>)>,
}

impl Listings {
    pub(super) fn new(planner: Arc<dyn Planner>, deadline: Duration) -> Listings {
        Listings {
            planner,
            deadline,
            turns: Arc::new(Semaphore::new(AT_A_TIME_MAX)),
            threads: Arc::new(Semaphore::new(AT_A_TIME_MAX + HUNG_MAX)),
            under_way: JoinSet::new(),
        }
    }

    /// Begins to list the sources of a dataset for an iteration.
    pub(super) fn begin(&mut self, iteration: IterationId, repetition: u64, dataset: Arc<DatasetRecord>) {
        let planner = Arc::clone(&self.planner);
        let (turns, threads) = (Arc::clone(&self.turns), Arc::clone(&self.threads));
        let deadline = self.deadline;
        self.under_way.spawn(async move {
            let name = dataset.id.clone();
            let listing = list(planner, repetition, dataset, &turns, threads);
            let result = tokio::time::timeout(deadline, listing).await.unwrap_or_else(|_| {
                Err(PlanError::Source(format!(
                    "dataset {name} was not listed within {} s: its file system does not answer, or others that do not \
                     keep it waiting",
                    deadline.as_secs_f64()
                )))
            });
            (iteration, result)
        });
    }

    /// The next listing that ended. Cancel-safe. Waits for ever while there is none.
    pub(super) async fn next(&mut self) -> (IterationId, Result<SplitPlan, PlanError>) {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(planned)) => return planned,
                Some(Err(error)) => tracing::error!(%error, "the task around a listing died"),
                None => std::future::pending().await,
            }
        }
    }
}

async fn list(
    planner: Arc<dyn Planner>,
    repetition: u64,
    dataset: Arc<DatasetRecord>,
    turns: &Semaphore,
    threads: Arc<Semaphore>,
) -> Result<SplitPlan, PlanError> {
    let died = || PlanError::Source("the listing died: see the dispatcher's log".to_owned());
    let _turn = turns.acquire().await.map_err(|_| died())?;
    // The thread's own, so that one that hangs on after its deadline is counted.
    let Ok(thread) = threads.try_acquire_owned() else {
        return Err(PlanError::Source(format!(
            "{HUNG_MAX} earlier listings still hang in their file systems: no other begins"
        )));
    };
    let listing = tokio::task::spawn_blocking(move || {
        let plan = planner.plan_splits(&dataset.definition, repetition);
        drop(thread);
        plan
    });
    listing.await.unwrap_or_else(|_| Err(died()))
}

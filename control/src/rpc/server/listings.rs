//! The listings of sources, which run outside of the event loop. A listing waits for its file system up to
//! a deadline, and does not delay other requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::dispatcher::DatasetRecord;
use crate::id::IterationId;
use crate::planner::{PlanError, Planner, SplitPlan};

/// Maximum number of concurrent listings.
const AT_A_TIME_MAX: usize = 16;
/// Maximum number of abandoned listings whose threads still hang in a file system. At the limit, no further
/// listing begins.
const HUNG_MAX: usize = 64;

/// The listings in progress. Dropping the value abandons the listings. A thread that hangs in a file system
/// remains until the file system returns.
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
                    "dataset {name} was not listed within {} s: its file system does not answer, or slow \
                    listings of other datasets \
                     delay it",
                    deadline.as_secs_f64()
                )))
            });
            (iteration, result)
        });
    }

    /// Returns the next listing that ended, and waits for ever if no listing is in progress. Cancel-safe.
    pub(super) async fn next(&mut self) -> (IterationId, Result<SplitPlan, PlanError>) {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(planned)) => return planned,
                Some(Err(error)) => tracing::error!(%error, "the task of a listing panicked"),
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
    let died = || PlanError::Source("the listing panicked: see the dispatcher's log".to_owned());
    let _turn = turns.acquire().await.map_err(|_| died())?;
    // The thread holds its own permit, so that a thread that hangs beyond its deadline is still counted.
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

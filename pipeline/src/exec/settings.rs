//! The effect of a dataset's options on the threads and the memory of its executor.

use std::sync::Arc;

use super::budget::Budget;
use super::error::ExecError;
use super::pool::Pool;
use super::tune::Tuner;
use crate::graph::{ExternalState, Graph};

/// The threads and the memory of an executor.
pub(crate) struct Settings {
    pub(crate) pool: Arc<Pool>,
    pub(crate) budget: Budget,
    /// The tuner, or `None` if no setting is chosen by measurement.
    pub(crate) tuner: Option<Arc<Tuner>>,
    pub(crate) external_state: ExternalState,
}

impl Settings {
    /// Returns the settings of an executor of `graph` with `pool` and `budget`. The options of a dataset can
    /// request a separate pool, and a smaller budget.
    ///
    /// # Errors
    /// [`ExecError`] of kind `Resource` if the system cannot start a thread.
    pub(crate) fn of(graph: &Graph, pool: Arc<Pool>, budget: Budget) -> Result<Settings, ExecError> {
        let (threading, autotune, external_state) = graph.settings();
        let pool = match threading.private_threads {
            None | Some(0) => pool,
            // The conversion keeps the value: a dataset has at most 4096 threads.
            Some(threads) => Arc::new(Pool::new(threads as usize)?),
        };
        let asked = autotune.ram_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let budget = match asked {
            Some(bytes) if bytes < budget.limit_bytes() => budget.reduced(bytes),
            Some(_) | None => budget,
        };
        let threads = autotune.threads.map_or(usize::MAX, |threads| threads as usize);
        let tuner = autotune
            .enabled
            .unwrap_or(true)
            .then(|| Tuner::new(threads.min(pool.threads())));
        Ok(Settings {
            pool,
            budget,
            tuner: tuner.map(Arc::new),
            external_state,
        })
    }
}

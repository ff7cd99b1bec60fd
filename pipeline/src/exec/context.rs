//! The context of an executor beside its graph, and the parts of it that operations share.

use std::sync::Arc;

use crate::graph::{ErrorPolicy, ExternalState};
use crate::plan::SplitPlan;
use crate::storage::Storage;

use super::budget::Budget;
use super::caches::Caches;
use super::cancel::Cancel;
use super::faults::Faults;
use super::functions::Functions;
use super::measure::{Meter, Stage};
use super::pool::Pool;
use super::random::Seeds;
use super::skipped::Skipped;
use super::splits::{Feed, SplitSource};
use super::statistics::Statistics;
use super::token::Ledger;
use super::tune::Tuner;

/// The context of an executor: its splits, functions, files, threads and memory.
pub struct ExecContext {
    /// The task. Decides the draws of operations without a seed, so tasks that should differ have different
    /// ids.
    pub task_id: u64,
    /// The iteration: a number that all its tasks know. Where they are dealt splits of one shuffled source,
    /// it decides the order of a shuffle without a seed.
    pub iteration: u64,
    /// The pass over the whole dataset: seeded draws differ from epoch to epoch.
    pub epoch: u64,
    /// The seed of operations that have none of their own.
    pub seed: Option<u64>,
    /// The iteration's plan, which says what files there are. Without one, and without splits, which bring
    /// their own, the executor lists them.
    pub plan: Option<SplitPlan>,
    /// Source of splits; without it, every source is read whole.
    pub splits: Option<Box<dyn SplitSource>>,
    /// The registered names.
    pub functions: Arc<Functions>,
    /// Storage that files are read from.
    pub storage: Storage,
    /// The threads of parallel maps.
    pub pool: Arc<Pool>,
    /// Limit on the bytes of all buffers together.
    pub budget: Budget,
    /// Contents of memory caches, shared by earlier and later executions; without it, caches begin empty.
    pub caches: Option<Caches>,
    /// Stops the pipeline.
    pub cancel: Cancel,
    /// Whether what each stage costs is measured: see [`Executor::stats`](super::Executor::stats). It takes a
    /// few hundredths of the time of the cheapest elements, and nothing that can be measured of others.
    pub measured: bool,
}

impl ExecContext {
    /// A context that reads everything, in epoch 0, without a seed.
    pub fn new(task_id: u64, functions: Arc<Functions>, pool: Arc<Pool>) -> ExecContext {
        ExecContext {
            task_id,
            iteration: 0,
            epoch: 0,
            seed: None,
            plan: None,
            splits: None,
            functions,
            storage: Storage::default(),
            pool,
            budget: Budget::default(),
            caches: None,
            cancel: Cancel::new(),
            measured: false,
        }
    }
}

impl std::fmt::Debug for ExecContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecContext")
            .field("task_id", &self.task_id)
            .field("epoch", &self.epoch)
            .field("seed", &self.seed)
            .field("split_driven", &self.splits.is_some())
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// Context that the operations of one tree share. The body of a function has its own, without a feed, and
/// with other random draws for every element.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) task_id: u64,
    /// Decides the draws that all tasks of an iteration share.
    pub(crate) iteration: u64,
    /// Decides the draws: of the body of a function, no number that anybody else knows.
    pub(crate) epoch: u64,
    /// The pass over a service that is the first one here: the epoch of the execution, and of the body of a
    /// function one more for each pass of the operation that calls it.
    pub(crate) first_pass: u64,
    pub(crate) seed: Option<u64>,
    /// Whether operations that work in parallel keep the order of their elements unless they say otherwise.
    pub(crate) deterministic: bool,
    pub(crate) feed: Option<Feed>,
    pub(crate) ledger: Arc<Ledger>,
    /// Storage whose calls stop waiting once `cancel` is raised.
    pub(crate) storage: Storage,
    pub(crate) pool: Arc<Pool>,
    pub(crate) budget: Budget,
    /// Contents of memory caches that outlive this execution.
    pub(crate) caches: Option<Caches>,
    pub(crate) cancel: Cancel,
    pub(crate) skipped: Skipped,
    pub(crate) statistics: Statistics,
    /// Treatment of elements at which an operation fails.
    pub(crate) on_error: ErrorPolicy,
    /// The operation that this is of, as its graph was defined.
    pub(crate) node: u32,
    /// Tuner of settings that operations leave open; absent if there are none.
    pub(crate) tuner: Option<Arc<Tuner>>,
    /// Treatment of state outside of the dataset when its position is saved.
    pub(crate) external_state: ExternalState,
    /// Meter of the tree, if it is measured.
    pub(crate) meter: Option<Arc<Meter>>,
    /// Stage in which the receiving operation counts the work of its threads.
    pub(crate) stage: Option<Arc<Stage>>,
}

impl Shared {
    /// Returns the seeds of the operation at `node`, whose own seed is `seed`.
    pub(crate) fn seeds(&self, node: usize, seed: Option<u64>) -> Seeds {
        Seeds {
            seed: seed.or(self.seed),
            task_id: self.task_id,
            epoch: self.epoch,
            node: node as u64,
            fixed: false,
        }
    }

    /// Returns the seeds of an operation that permutes a whole source: where splits are dealt out, all tasks
    /// read one order.
    pub(crate) fn order_seeds(&self, node: usize, seed: Option<u64>, fixed: bool) -> Seeds {
        let seeds = self.seeds(node, seed).fixed_if(fixed);
        match self.feed {
            Some(_) => Seeds {
                task_id: self.iteration,
                ..seeds
            },
            None => seeds,
        }
    }

    /// For the operation at `node`, which was defined as `origin`: with its own stage, and what measures its
    /// body.
    pub(crate) fn at(&self, node: usize, origin: u32) -> Shared {
        let mut shared = self.clone();
        shared.node = origin;
        if let Some(meter) = &self.meter {
            shared.stage = meter.stage(node).cloned();
            shared.meter = meter.body(node).cloned();
        }
        shared
    }

    /// Returns the operation's treatment of failures.
    pub(crate) fn faults(&self) -> Faults {
        Faults::new(self.on_error, &self.skipped, &self.cancel)
    }

    /// For the body of a function, of which `call` says with which element, in pass `pass` of the operation
    /// that calls it.
    pub(crate) fn within(&self, call: u64, pass: u64) -> Shared {
        let mut shared = self.clone();
        shared.feed = None;
        // A body is called with many elements, and what it caches is of one of them.
        shared.caches = None;
        shared.epoch = super::random::mix(self.epoch, call);
        shared.first_pass = self.first_pass.wrapping_add(pass);
        shared
    }
}

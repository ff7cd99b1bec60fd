//! The context of an executor, apart from its graph, and the parts of the context that operations share.

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
use super::quarantine::{OperationQuarantine, Quarantine, SplitQuarantine};
use super::random::{Seeds, mix};
use super::skipped::Skipped;
use super::splits::{Feed, SplitSource};
use super::statistics::Statistics;
use super::token::Ledger;
use super::tune::Tuner;

/// The context of an executor: its splits, functions, files, threads and memory.
pub struct ExecContext {
    /// The id of the task. The id decides the draws of operations without a seed, so tasks with different
    /// draws need different ids.
    pub task_id: u64,
    /// The number of the iteration, which all its tasks know. If tasks read splits of one shuffled source,
    /// the number decides the order of a shuffle without a seed.
    pub iteration: u64,
    /// The number of the pass over the whole dataset. Seeded draws differ from epoch to epoch.
    pub epoch: u64,
    /// The seed of operations that have no seed of their own.
    pub seed: Option<u64>,
    /// The iteration's plan, which lists the files. Splits name their own files. Without a plan and without
    /// splits, the executor lists the files.
    pub plan: Option<SplitPlan>,
    /// The source of splits. Without a source of splits, every source of the dataset is read whole.
    pub splits: Option<Box<dyn SplitSource>>,
    /// Whether the dataset runs on each split alone, as in exactly-once jobs. Then every element has
    /// an additional component: see [`numbered_by_split`](super::numbered_by_split). Needs `splits`.
    pub by_split: bool,
    /// The elements that failed in earlier attempts, which this execution leaves out. `Some` lets failures
    /// name their elements: see [`Failure::element`](super::Failure::element). Needs `by_split`.
    pub quarantine: Option<Quarantine>,
    /// The registered functions, by name.
    pub functions: Arc<Functions>,
    /// The storage that files are read from.
    pub storage: Storage,
    /// The threads of parallel maps.
    pub pool: Arc<Pool>,
    /// The limit on the bytes of all buffers together.
    pub budget: Budget,
    /// The contents of memory caches, which earlier and later executions share. Without shared contents,
    /// caches begin empty.
    pub caches: Option<Caches>,
    /// The flag that stops the pipeline.
    pub cancel: Cancel,
    /// Whether the executor measures the cost of each stage: see [`Executor::stats`](super::Executor::stats).
    /// Measuring takes a few percent of the time of the cheapest elements, and no measurable time of other
    /// elements.
    pub measured: bool,
    /// Whether the execution continues with the next element after the failure of one element. Otherwise
    /// every failure ends the execution.
    pub continues: bool,
}

impl ExecContext {
    /// Returns a context that reads every source whole, in epoch 0, without a seed.
    pub fn new(task_id: u64, functions: Arc<Functions>, pool: Arc<Pool>) -> ExecContext {
        ExecContext {
            task_id,
            iteration: 0,
            epoch: 0,
            seed: None,
            plan: None,
            splits: None,
            by_split: false,
            quarantine: None,
            functions,
            storage: Storage::default(),
            pool,
            budget: Budget::default(),
            caches: None,
            cancel: Cancel::new(),
            measured: false,
            continues: false,
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

/// The context that the operations of one tree share. The body of a function has a context of its own,
/// without a feed, and with other random draws for every element.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) task_id: u64,
    /// The number that decides the draws that all tasks of an iteration share.
    pub(crate) iteration: u64,
    /// The number that decides the draws. In the body of a function, the number is a mixture known only to
    /// that body.
    pub(crate) epoch: u64,
    /// The number of the first pass over a service. The number is the epoch of the execution. In the body of
    /// a function, the number increases by one with each pass of the calling operation.
    pub(crate) first_pass: u64,
    pub(crate) seed: Option<u64>,
    /// The number of the split to which the tree is limited, if the dataset runs on each split alone. Draws
    /// then depend on the split instead of the task.
    pub(crate) split: Option<u64>,
    /// The elements of this split that are left out, if failed elements may be quarantined.
    pub(crate) quarantine: Option<SplitQuarantine>,
    /// The number that differs between the calls of bodies, for the ids of elements.
    pub(crate) body: u64,
    /// Whether parallel operations keep the order of their elements, unless they have a setting of their own.
    pub(crate) deterministic: bool,
    pub(crate) feed: Option<Feed>,
    pub(crate) ledger: Arc<Ledger>,
    /// The storage, whose calls stop waiting once `cancel` is raised.
    pub(crate) storage: Storage,
    pub(crate) pool: Arc<Pool>,
    pub(crate) budget: Budget,
    /// The contents of memory caches that outlive this execution.
    pub(crate) caches: Option<Caches>,
    pub(crate) cancel: Cancel,
    pub(crate) skipped: Skipped,
    pub(crate) statistics: Statistics,
    /// The treatment of elements at which an operation fails.
    pub(crate) on_error: ErrorPolicy,
    /// The node of the operation that owns this context, in the graph as it was defined.
    pub(crate) node: u32,
    /// The tuner of settings that operations leave open, or `None` if every setting is fixed.
    pub(crate) tuner: Option<Arc<Tuner>>,
    /// The treatment of state outside of the dataset when a position is saved.
    pub(crate) external_state: ExternalState,
    /// The meter of the tree, if the tree is measured.
    pub(crate) meter: Option<Arc<Meter>>,
    /// The stage in which the receiving operation counts the work of its threads.
    pub(crate) stage: Option<Arc<Stage>>,
}

impl Shared {
    /// Returns the seeds of the operation at `node`, whose own seed is `seed`.
    pub(crate) fn seeds(&self, node: usize, seed: Option<u64>) -> Seeds {
        Seeds {
            seed: seed.or(self.seed),
            task_id: self.task_id,
            epoch: self.split.map_or(self.epoch, |split| mix(self.epoch, split)),
            node: node as u64,
            fixed: false,
        }
    }

    /// Returns the seeds of an operation that permutes a whole source. If the source is read in splits, all
    /// tasks read one order.
    pub(crate) fn order_seeds(&self, node: usize, seed: Option<u64>, fixed: bool) -> Seeds {
        let seeds = self.seeds(node, seed).fixed_if(fixed);
        match self.feed {
            Some(_) => Seeds {
                task_id: self.iteration,
                epoch: self.epoch,
                ..seeds
            },
            None => seeds,
        }
    }

    /// Returns the context for the operation at `node`, which was defined as node `origin`. The context has
    /// the operation's own stage and the meter of the operation's body.
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
        let of_operation = |ids: SplitQuarantine| OperationQuarantine::new(ids, self.body, self.node);
        Faults::new(self.on_error, &self.skipped, &self.cancel)
            .quarantining(self.quarantine.clone().map(of_operation))
    }

    /// Returns the context for the body of a function. `call` identifies the element of the call, and `pass`
    /// the pass of the operation that calls the function.
    pub(crate) fn within(&self, call: u64, pass: u64) -> Shared {
        let mut shared = self.clone();
        shared.feed = None;
        // A body is called with many elements, and its caches hold elements of one call only.
        shared.caches = None;
        shared.epoch = mix(self.epoch, call);
        shared.body = mix(mix(self.body, u64::from(self.node)), call);
        shared.first_pass = self.first_pass.wrapping_add(pass);
        shared
    }
}

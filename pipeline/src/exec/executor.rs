//! The executor of one task: a tree of operations and the count of what it handed out.

use std::sync::Arc;

use millstream_element::ElementSpec;

use crate::graph::Graph;
use crate::plan::plan_splits;

use super::cancel::Cancel;
use super::context::{ExecContext, Shared};
use super::error::ExecError;
use super::item::Item;
use super::iterate::Input;
use super::program::{OpenError, Program};
use super::splits::Feed;
use super::state::{StateError, StateReader, StateWriter};
use super::token::{FinishedSplit, Ledger};

/// Executes one graph for one task, on the thread that calls it and those of its prefetches and parallel maps.
///
/// Elements are handed out one by one ([`Executor::next`]) or written into packs ([`Executor::write`]); either way the
/// count of them is what finished splits refer to. After an error nothing more is handed out.
///
/// Dropping it ends its prefetch threads. A thread inside a user's function that does not return is waited for a second
/// and then left behind, with a warning.
pub struct Executor {
    root: Input,
    spec: ElementSpec,
    ledger: Arc<Ledger>,
    cancel: Cancel,
    /// Elements handed out.
    handed: u64,
    finished: Vec<FinishedSplit>,
    failed: Option<ExecError>,
}

impl Executor {
    /// Prepares `graph` and opens its sources. Blocks on the file system where the context has no plan.
    ///
    /// # Errors
    /// [`OpenError`] saying what is unknown, missing or does not fit.
    pub fn open(graph: &Graph, context: ExecContext) -> Result<Executor, OpenError> {
        let facts = graph.facts(&*context.functions)?;
        if context.splits.is_some() {
            facts.splittable.map_err(OpenError::NotSplittable)?;
        }
        let plan = match context.plan {
            Some(plan) => plan,
            None => plan_splits(graph, &*context.functions)?,
        };
        let program = Program::prepare(graph, &context.functions, None, Some(&plan))?;
        let ledger = Arc::new(Ledger::default());
        let shared = Shared {
            task_id: context.task_id,
            epoch: context.epoch,
            seed: context.seed,
            feed: context.splits.map(Feed::new),
            ledger: Arc::clone(&ledger),
            pool: context.pool,
            budget: context.budget,
            cancel: context.cancel.clone(),
        };
        let root = program.open(&shared, None)?;
        let spec = program.spec().clone();
        Ok(Executor {
            root,
            spec,
            ledger,
            cancel: context.cancel,
            handed: 0,
            finished: Vec::new(),
            failed: None,
        })
    }

    /// What it yields.
    pub fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Elements handed out so far.
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// Stops it, from any thread.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// The next element. The splits it stands for count as handed out when the caller drops it.
    ///
    /// # Errors
    /// [`ExecError`], and the same again whenever asked.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator's end is final, an error here is repeated"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.cancel.check("executor")?;
        match self.root.next() {
            Ok(Some(item)) => {
                self.handed = self.handed.wrapping_add(1);
                Ok(Some(item))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Moves the splits that finished since the last call to `into`: each with the count of elements, from the first one
    /// handed out on, after which it was finished.
    pub fn finished_splits(&mut self, into: &mut Vec<FinishedSplit>) {
        // A failure drops elements that were not handed out.
        if self.failed.is_none() {
            self.ledger.drain(self.handed, &mut self.finished);
        }
        into.append(&mut self.finished);
    }

    /// Everything needed to go on from here in another executor of the same graph. Waits for calls under way; prefetch
    /// threads pause until the next pull.
    ///
    /// # Errors
    /// [`StateError`] when the pipeline is fed splits, reads a service, or buffers too much.
    pub fn save(&mut self) -> Result<Vec<u8>, StateError> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        let mut state = StateWriter::new();
        state.begin("executor")?;
        state.number(self.handed)?;
        self.root.save(&mut state)?;
        Ok(state.into_bytes())
    }

    /// Puts a new executor where [`Executor::save`] left the old one.
    ///
    /// # Errors
    /// [`StateError`] when the state is of another graph. The executor is of no further use then.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        let mut state = StateReader::new(state);
        state.begin("executor")?;
        self.handed = state.number()?;
        self.root.restore(&mut state)
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("spec", &self.spec)
            .field("handed", &self.handed)
            .finish_non_exhaustive()
    }
}

//! The executor of one task: a tree of operations and the count of what it handed out.

use std::sync::Arc;

use millstream_element::{ElementSpec, Layout, PackWriter};

use crate::graph::{Drawing, ErrorPolicy, Graph, Rewrites};

use super::budget::InHand;
use super::cancel::Cancel;
use super::context::{ExecContext, Shared};
use super::error::{ErrorKind, ExecError};
use super::identity::Identity;
use super::item::Item;
use super::iterate::{Filled, Input, Stop};
use super::measure::Stats;
use super::measuring::Measuring;
use super::program::{FilesOf, Find, Means, OpenError, Program};
use super::settings::Settings;
use super::skipped::{Failures, Skipped};
use super::splits::Feed;
use super::state::{StateError, StateReader, StateWriter};
use super::statistics::Statistics;
use super::token::{self, FinishedSplit, Ledger};
use super::write::{Written, write_element};

/// Executes one graph for one task, on the thread that calls it and those of its prefetches and parallel
/// maps.
///
/// Elements are handed out one by one ([`Executor::next`]) or written into packs ([`Executor::write`]);
/// either way the count of them is what finished splits refer to. After an error nothing more is handed out.
///
/// Dropping it ends its prefetch threads. A thread inside a user's function that does not return is waited
/// for a second and then left behind, with a warning.
pub struct Executor {
    root: Input,
    spec: ElementSpec,
    /// Identity that a saved state must match; absent when splits are dealt out, because then nothing can be
    /// saved.
    identity: Option<Identity>,
    ledger: Arc<Ledger>,
    skipped: Skipped,
    statistics: Statistics,
    cancel: Cancel,
    measuring: Measuring,
    /// Elements handed out.
    handed: u64,
    finished: Vec<FinishedSplit>,
    /// Element that [`Executor::next`] returned last, kept until the next call.
    in_hand: InHand,
    /// An element that found no room in the last pack.
    held: Option<Item>,
    failed: Option<ExecError>,
}

impl Executor {
    /// Opens a graph of operations that `find` finds: see [`Executor::open`].
    pub(crate) fn open_with(graph: &Graph, context: ExecContext, find: Find) -> Result<Executor, OpenError> {
        let facts = graph.facts(&*context.functions)?;
        if context.splits.is_some() {
            facts.splittable.map_err(OpenError::NotSplittable)?;
        }
        let storage = context.storage.until(&context.cancel);
        let means = Means {
            functions: &context.functions,
            storage: &storage,
            find,
        };
        let executed = graph.rewritten_for(Rewrites::default(), context.splits.is_some());
        let program = Program::prepare(&executed, &means, None, files_of(&context))?;
        let identity = context
            .splits
            .is_none()
            .then(|| Identity::new(graph, &program, context.task_id, context.epoch, context.seed));
        let measuring = Measuring::new(program.graph(), context.measured);
        let ledger = Arc::new(Ledger::default());
        let skipped = Skipped::default();
        let statistics = Statistics::default();
        if graph.ignores_errors() {
            ledger.forgive();
        }
        let settings = Settings::of(graph, context.pool, context.budget)?;
        let shared = Shared {
            task_id: context.task_id,
            iteration: context.iteration,
            epoch: context.epoch,
            first_pass: context.epoch,
            seed: context.seed,
            deterministic: true,
            feed: context.splits.map(Feed::new),
            ledger: Arc::clone(&ledger),
            storage,
            pool: settings.pool,
            budget: settings.budget,
            caches: context.caches,
            cancel: context.cancel.clone(),
            skipped: skipped.clone(),
            statistics: statistics.clone(),
            on_error: ErrorPolicy::RAISE,
            node: 0,
            tuner: settings.tuner,
            external_state: settings.external_state,
            meter: measuring.meter(),
            stage: None,
        };
        let in_hand = shared.budget.in_hand();
        let root = program.open(&shared, None)?;
        let spec = program.spec().clone();
        Ok(Executor {
            root,
            spec,
            identity,
            ledger,
            skipped,
            statistics,
            cancel: context.cancel,
            measuring,
            handed: 0,
            finished: Vec::new(),
            in_hand,
            held: None,
            failed: None,
        })
    }

    /// Returns the spec of the elements.
    pub fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Elements handed out so far.
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// Elements and records left out so far because they are broken, by operations that were told to
    /// ([`ErrorPolicy`], [`OnError::Skip`](crate::graph::OnError::Skip)). What is read ahead counts.
    pub fn skipped(&self) -> u64 {
        self.skipped.count()
    }

    /// Returns the measurements of the `statistics` operations. Clones show the same values while the
    /// executor runs, and the last values after it is dropped; a saved state has none of them.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the failures that did not end the pipeline, by operation, with the latest of each.
    pub fn failures(&self) -> Failures {
        self.skipped.failures()
    }

    /// Returns the work of each stage since the executor was opened, and the bottleneck. `None` unless the
    /// context asked for it ([`ExecContext::measured`]).
    pub fn stats(&self) -> Option<Stats> {
        self.measuring.stats()
    }

    /// The graph as it is executed, drawn as text or DOT: with what [`Executor::stats`] knows of each stage.
    pub fn explain(&self) -> Drawing {
        self.measuring.drawing()
    }

    /// The next element. The splits it stands for count as handed out when the caller drops it; its bytes
    /// count in the budget until the next one is asked for and found.
    ///
    /// # Errors
    /// [`ExecError`], and the same again whenever asked.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator's end is final, an error here is repeated"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, ExecError> {
        // Looked at where it lies, and not taken out: see `Read`.
        let next = self.pull();
        if let Ok(Some(item)) = &next {
            self.handed = self.handed.wrapping_add(1);
            self.in_hand.set(item.held_bytes());
        } else {
            self.in_hand.set(0);
        }
        next
    }

    /// The only element of a dataset of one, such as a `reduce` yields.
    ///
    /// # Errors
    /// As [`Executor::next`]; of kind `Caller` when there are none or several.
    pub fn into_only(mut self) -> Result<Item, ExecError> {
        let wrong = |found: &str| {
            let message = format!("one element was asked for, and the dataset yields {found}");
            ExecError::new(ErrorKind::Caller, "executor", message)
        };
        let only = self.next()?.ok_or_else(|| wrong("none"))?;
        match self.next()? {
            None => Ok(only),
            Some(_) => Err(wrong("several")),
        }
    }

    /// Writes up to `limit` elements into `pack`, numbered by the count of what was handed out before them.
    /// `layout` is that of [`Executor::spec`]. What finds no room is kept and written first by the next call.
    ///
    /// Blocks for as long as producing them takes: `limit` 1 gives every element away as soon as it is there.
    ///
    /// # Errors
    /// [`ExecError`], and the same again whenever asked. Elements written before it are in the pack and
    /// count.
    pub fn write(
        &mut self,
        layout: &Layout,
        pack: &mut PackWriter,
        limit: usize,
    ) -> Result<Filled, ExecError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.in_hand.set(0);
        if self.held.is_none()
            && let Some(filled) = self.root.fill_pack(pack, self.handed, limit)
        {
            let filled = self.kept(filled)?;
            self.handed = self.handed.wrapping_add(filled.count as u64);
            return Ok(filled);
        }
        let mut count = 0;
        while count < limit {
            let Some(item) = self.pull()? else {
                return Ok(Filled {
                    count,
                    stop: Stop::End,
                });
            };
            let handed = self.handed;
            let written = self
                .measuring
                .writing(|| write_element(&item, layout, pack, handed));
            match written {
                Ok(Written::Done) => {}
                Ok(Written::Full { needed_bytes }) => {
                    self.held = Some(item);
                    return Ok(Filled {
                        count,
                        stop: Stop::Full { needed_bytes },
                    });
                }
                Err(error) => {
                    token::abandon(&item.marks);
                    return self.kept(Err(error));
                }
            }
            count += 1;
            self.handed = self.handed.wrapping_add(1);
            drop(item);
            self.ledger.drain(self.handed, &mut self.finished);
        }
        Ok(Filled {
            count,
            stop: Stop::Limit,
        })
    }

    /// Moves the splits that finished since the last call to `into`: each with the count of elements, from
    /// the first one handed out on, after which it was finished.
    pub fn finished_splits(&mut self, into: &mut Vec<FinishedSplit>) {
        // A failure drops elements that were not handed out.
        if self.failed.is_none() {
            self.ledger.drain(self.handed, &mut self.finished);
        }
        into.append(&mut self.finished);
    }

    /// Everything needed to go on from here in another executor of the same graph. Waits for calls under way;
    /// prefetch threads pause until the next pull.
    ///
    /// # Errors
    /// [`StateError`] when the pipeline is fed splits, reads a service, or buffers too much.
    pub fn save(&mut self) -> Result<Vec<u8>, StateError> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        let mut state = StateWriter::new();
        state.begin("executor")?;
        self.identity.ok_or(StateError::SplitDriven)?.save(&mut state)?;
        state.number(self.handed)?;
        state.flag(self.held.is_some())?;
        if let Some(item) = &self.held {
            state.item(item)?;
        }
        self.root.save(&mut state)?;
        self.skipped.save(&mut state)?;
        Ok(state.into_bytes())
    }

    /// Puts a new executor where [`Executor::save`] left the old one: of the same graph and files, opened for
    /// the same task, epoch and seed.
    ///
    /// # Errors
    /// [`StateError`] when the state is of another executor, or damaged. This one is of no further use then.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        let mut state = StateReader::new(state);
        state.begin("executor")?;
        self.identity.ok_or(StateError::SplitDriven)?.check(&mut state)?;
        self.handed = state.number()?;
        if state.flag()? {
            self.held = Some(state.item()?);
        }
        self.root.restore(&mut state)?;
        self.skipped.restore(&mut state)?;
        state.finish()
    }

    /// The element held back, else the next one of the tree.
    #[inline]
    fn pull(&mut self) -> Result<Option<Item>, ExecError> {
        let next = if let Some(error) = &self.failed {
            Err(error.clone())
        } else if self.held.is_some() {
            Ok(self.held.take())
        } else if let Err(error) = self.cancel.check("executor") {
            Err(error)
        } else {
            self.root.next()
        };
        if let Err(error) = &next {
            self.failed = Some(error.clone());
        }
        next
    }

    /// Keeps an error, so that it is final.
    #[inline]
    fn kept<T>(&mut self, result: Result<T, ExecError>) -> Result<T, ExecError> {
        result.inspect_err(|error| self.failed = Some(error.clone()))
    }
}

/// Returns where the files of the graph's own sources are known from.
fn files_of(context: &ExecContext) -> FilesOf<'_> {
    match (&context.splits, &context.plan) {
        (Some(_), _) => FilesOf::Splits,
        (None, Some(plan)) => FilesOf::Plan(plan),
        (None, None) => FilesOf::Disk,
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

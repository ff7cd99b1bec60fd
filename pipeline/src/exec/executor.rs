//! The executor of one task: a tree of operations, and the count of the elements that it handed out.

use std::sync::Arc;

use millstream_element::{ElementSpec, Layout, PackWriter};

use crate::graph::{Drawing, ErrorPolicy, Graph, Rewrites, SplitCounts};

use super::budget::InHand;
use super::by_split::{BySplit, numbered_by_split};
use super::cancel::Cancel;
use super::context::{ExecContext, Shared};
use super::error::{ErrorKind, ExecError};
use super::identity::Identity;
use super::item::Item;
use super::iterate::{Filled, Input, Stop};
use super::measure::Stats;
use super::measuring::{Measuring, StageWatch};
use super::program::{FilesOf, Find, Means, OpenError, Program};
use super::quarantine::Quarantine;
use super::settings::Settings;
use super::skipped::{Failures, Skipped};
use super::splits::Feed;
use super::state::{StateError, StateReader, StateWriter};
use super::statistics::Statistics;
use super::token::{self, FinishedSplit, Ledger};
use super::write::{Written, write_element};

/// An executor of one graph for one task. An executor runs on the thread that calls it, and on the threads of
/// its prefetches and parallel maps.
///
/// The executor hands elements out one by one ([`Executor::next`]) or writes them into packs
/// ([`Executor::write`]). In both cases finished splits refer to the count of elements handed out. After an
/// error the executor hands out no more elements, unless it [continues](ExecContext::continues).
///
/// Dropping an executor ends its prefetch threads. The drop waits a second for a thread inside a user's
/// function, and then abandons the thread with a warning.
pub struct Executor {
    root: Input,
    spec: ElementSpec,
    /// The identity that a saved state must match. `None` if the executor reads splits, because such an
    /// executor cannot be saved.
    identity: Option<Identity>,
    ledger: Arc<Ledger>,
    skipped: Skipped,
    statistics: Statistics,
    cancel: Cancel,
    measuring: Measuring,
    /// The number of elements handed out.
    handed: u64,
    finished: Vec<FinishedSplit>,
    /// The byte count of the element that [`Executor::next`] returned last, held until the next call.
    in_hand: InHand,
    /// The element that did not fit into the last pack.
    held: Option<Item>,
    failed: Option<ExecError>,
    /// Whether elements follow the failure of one element.
    continues: bool,
}

impl Executor {
    /// Opens a graph whose operations `find` finds: see [`Executor::open`].
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
        let whole = || Identity::new(graph, &program, context.task_id, context.epoch, context.seed);
        let identity = context.splits.is_none().then(whole);
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
            split: None,
            quarantine: None,
            body: 0,
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
        let counts = || graph.split_counts(&*context.functions);
        let counts = context.by_split.then(counts).transpose()?;
        let (root, spec) = opened(program, shared, counts, context.quarantine)?;
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
            continues: context.continues,
        })
    }

    /// Returns the spec of the elements.
    pub fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Returns the number of elements handed out so far.
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// Returns the number of broken elements and records that were left out so far, including those read
    /// ahead. Operations leave elements out only if their policy permits it ([`ErrorPolicy`],
    /// [`OnError::Skip`](crate::graph::OnError::Skip)).
    pub fn skipped(&self) -> u64 {
        self.skipped.count()
    }

    /// Returns the measurements of the `statistics` operations. Clones show the same values while the
    /// executor runs, and the last values after the executor is dropped. A saved state has no measurements.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the failures that did not end the pipeline: for each operation their number and the latest
    /// failure.
    pub fn failures(&self) -> Failures {
        self.skipped.failures()
    }

    /// Returns the work of each stage since the executor was opened, and the bottleneck. Returns `None`
    /// unless the context enabled measuring ([`ExecContext::measured`]).
    pub fn stats(&self) -> Option<Stats> {
        self.measuring.stats()
    }

    /// Returns a view that computes [`Executor::stats`] on other threads. Returns `None` unless the context
    /// enabled measuring. The view keeps the graph in memory. Its time goes on after the end of the executor.
    pub fn watch(&self) -> Option<StageWatch> {
        self.measuring.watch().cloned()
    }

    /// Returns a drawing of the executed graph, as text or DOT, with the measurements of [`Executor::stats`]
    /// at each stage.
    pub fn explain(&self) -> Drawing {
        self.measuring.drawing()
    }

    /// Returns the next element, or `None` at the end. The element's splits count as handed out when the
    /// caller drops the element. The element's bytes count in the budget until a later call finds the next
    /// element.
    ///
    /// # Errors
    /// [`ExecError`] if the pipeline fails. All later calls return the same error.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator's end is final, but this method repeats its error"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, ExecError> {
        // The result is inspected in place and not moved out: see `Read`.
        let mut next = self.pull();
        if let Ok(Some(item)) = &mut next {
            item.numbers_as_component();
            self.handed = self.handed.wrapping_add(1);
            self.in_hand.set(item.held_bytes());
        } else {
            self.in_hand.set(0);
        }
        next
    }

    /// Returns the only element of a dataset of one element, such as the result of `reduce`.
    ///
    /// # Errors
    /// [`ExecError`] under the conditions of [`Executor::next`], or of kind `Caller` if the dataset yields no
    /// element or several.
    pub fn into_only(mut self) -> Result<Item, ExecError> {
        let wrong = |found: &str| {
            let message = format!("expected exactly one element, but the dataset yields {found}");
            ExecError::new(ErrorKind::Caller, "executor", message)
        };
        let only = self.next()?.ok_or_else(|| wrong("none"))?;
        match self.next()? {
            None => Ok(only),
            Some(_) => Err(wrong("several")),
        }
    }

    /// Writes up to `limit` elements into `pack`, and numbers them by the count of elements handed out
    /// before. `layout` must be the layout of [`Executor::spec`]. An element that does not fit is kept, and
    /// the next call writes it first.
    ///
    /// Blocks until the elements have been produced. A `limit` of 1 returns each element as soon as it is
    /// ready.
    ///
    /// # Errors
    /// [`ExecError`] if the pipeline fails. All later calls return the same error. Elements written before
    /// the error are in the pack and count.
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
            // A source that writes a pack by itself cannot continue after a failure.
            let filled = filled.inspect_err(|error| self.failed = Some(error.clone()))?;
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

    /// Moves the splits that finished since the last call to `into`. Each finished split states after how
    /// many elements, counted from the first element handed out, it was finished.
    pub fn finished_splits(&mut self, into: &mut Vec<FinishedSplit>) {
        // A failure drops elements that were not handed out.
        if self.failed.is_none() {
            self.ledger.drain(self.handed, &mut self.finished);
        }
        into.append(&mut self.finished);
    }

    /// Returns the state from which another executor of the same graph can continue. Blocks until running
    /// calls have returned. Prefetch threads pause until the next element is requested.
    ///
    /// # Errors
    /// [`StateError`] if the pipeline reads splits or a service, or buffers too much.
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

    /// Restores the position at which [`Executor::save`] saved another executor. Both executors must have the
    /// same graph and files, and the same task, epoch and seed.
    ///
    /// # Errors
    /// [`StateError`] if the state belongs to another executor, or is damaged. The executor must not be used
    /// after an error.
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

    /// Returns the element held back, or else the next element of the tree.
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
        self.kept(next)
    }

    /// Returns whether elements may follow `error`, which this executor returned.
    pub fn continues_after(&self, error: &ExecError) -> bool {
        self.continues && error.is_passable()
    }

    /// Keeps an error, so that all later calls return the same error.
    #[inline]
    fn kept<T>(&mut self, result: Result<T, ExecError>) -> Result<T, ExecError> {
        if let Err(error) = &result
            && !self.continues_after(error)
        {
            self.failed = Some(error.clone());
        }
        result
    }
}

/// Opens a prepared graph: whole if `counts` is `None`, otherwise on each split alone. `counts` then has the
/// numbers of elements of the splits if they are known. Returns the root of the tree and the element's spec.
fn opened(
    program: Program,
    shared: Shared,
    counts: Option<Option<SplitCounts>>,
    quarantine: Option<Quarantine>,
) -> Result<(Input, ElementSpec), OpenError> {
    let Some(counts) = counts else {
        let spec = program.spec().clone();
        return Ok((program.open(&shared, None)?, spec));
    };
    let Some(feed) = shared.feed.clone() else {
        let reason = "the dataset runs on each split alone, but the context supplies no splits";
        return Err(OpenError::NotSplittable(reason.to_owned()));
    };
    let spec = numbered_by_split(program.spec())?;
    let root = BySplit::new(program, shared, feed, counts, quarantine);
    Ok((Box::new(root), spec))
}

/// Returns the source from which the graph learns its own files.
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

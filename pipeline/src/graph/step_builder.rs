//! The part of the builder that adds operations which need parameters alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::dataset::Dataset;
use super::op::Op;
use super::step::{AssertCardinality, IgnoreErrors, Rebatch, ShuffleAndRepeat, Statistics, Step};

impl Dataset {
    /// The rows of this dataset's elements, batches, cut anew into batches of `size` rows. As `unbatch` and `batch`, without
    /// taking elements apart row by row: what lies within one batch is not copied.
    ///
    /// As `tf.data.Dataset.rebatch`. Rows of two shapes that would meet in a batch are an error of that batch; a size of 0 is
    /// refused.
    pub fn rebatch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.rebatch_sizes([size], drop_remainder)
    }

    /// As [`Dataset::rebatch`], with batches of these sizes by turns.
    ///
    /// As `tf.data.experimental`'s rebatching by sizes.
    pub fn rebatch_sizes(self, sizes: impl IntoIterator<Item = u64>, drop_remainder: bool) -> Dataset {
        let sizes = sizes.into_iter().collect();
        self.step(Step::Rebatch(Rebatch {
            sizes,
            drop_remainder,
        }))
    }

    /// The dataset `count` times over, without end for `None`, each pass shuffled anew by draws from a buffer: the same
    /// elements in the same order as of [`Dataset::shuffle`] and [`Dataset::repeat`], but the buffer takes in the next pass
    /// while this one is drawn to its end. Passes do not mix.
    ///
    /// As `tf.data.experimental.shuffle_and_repeat`.
    pub fn shuffle_and_repeat(self, buffer: u64, count: Option<u64>, seed: Option<u64>) -> Dataset {
        self.step(Step::ShuffleAndRepeat(ShuffleAndRepeat { buffer, count, seed }))
    }

    /// The first of equal elements, of any type. Every distinct one is held in memory, up to the pipeline's byte budget:
    /// beyond it is an error. Where splits are dealt out or the dataset is divided, each task drops what it has seen itself.
    ///
    /// As `tf.data.Dataset.unique`, which knows integers and strings only.
    pub fn unique(self) -> Dataset {
        self.step(Step::Unique)
    }

    /// States that there are so many elements: an end before them, or an element behind them, is an error. Of one task's
    /// share of a dataset nothing can be said, so that splits and shards are not held against it.
    ///
    /// As `tf.data.experimental.assert_cardinality`.
    pub fn assert_cardinality(self, count: u64) -> Dataset {
        let count = Some(count);
        self.step(Step::AssertCardinality(AssertCardinality { count }))
    }

    /// States that there is no end: an end is an error.
    ///
    /// As `assert_cardinality(INFINITE_CARDINALITY)` of tf.data.
    pub fn assert_infinite(self) -> Dataset {
        self.step(Step::AssertCardinality(AssertCardinality { count: None }))
    }

    /// Leaves out elements that fail: that a function refuses, that are corrupt or do not batch, and of a broken file what
    /// follows the damage. They are counted (`Executor::skipped`), and logged if `log_warning`.
    ///
    /// Not ignored is what is no fault of one element: a resource that runs out, a source that cannot go on, a task that is
    /// cancelled.
    ///
    /// As `tf.data.Dataset.ignore_errors`.
    pub fn ignore_errors(self, log_warning: bool) -> Dataset {
        self.step(Step::IgnoreErrors(IgnoreErrors { log_warning }))
    }

    /// Measures what passes here under `name`: elements, bytes, and how long each was waited for
    /// (`Executor::statistics`).
    ///
    /// The counterpart of `tf.data.experimental.StatsAggregator` and its operations: times are in nanoseconds, sizes in bytes.
    pub fn statistics(self, name: impl Into<String>) -> Dataset {
        self.step(Step::Statistics(Statistics { name: name.into() }))
    }

    fn step(self, step: Step) -> Dataset {
        self.then(Op::Step(step))
    }
}

//! The part of the builder that makes one element of several, or a dataset of each group of them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::dataset::Dataset;
use super::definition::Graph;
use super::error::GraphError;
use super::group::{Buckets, Grouping, PaddedBatch, Window, WindowSize};
use super::op::{Batch, Op};
use super::params::Params;
use super::predicate::Predicate;

impl Dataset {
    /// `size` consecutive elements stacked along a new leading dimension. Tensors with unknown dimensions are padded with
    /// zeros, strings with empty ones, to the longest in the batch.
    ///
    /// As `tf.data.Dataset.padded_batch`. Elements of another rank are an error of that batch.
    pub fn padded_batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.padded_batch_with(PaddedBatch {
            size,
            drop_remainder,
            shapes: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Pads and stacks as `batch` says. A tensor that is longer than it is to be padded to is an error.
    pub fn padded_batch_with(self, batch: PaddedBatch) -> Dataset {
        self.then(Op::PaddedBatch(batch))
    }

    /// `size` consecutive elements as one: tensors whose shape is known are stacked along a new leading dimension, others
    /// become ragged tensors with `i64` row splits. The dimensions up to the last unknown one are ragged.
    ///
    /// As `tf.data.Dataset.ragged_batch`.
    pub fn ragged_batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.then(Op::RaggedBatch(Batch { size, drop_remainder }))
    }

    /// The elements before the first one for which the registered predicate `name` does not hold.
    ///
    /// As `tf.data.Dataset.take_while`.
    pub fn take_while(self, name: impl Into<String>, params: Params) -> Dataset {
        self.then(Op::TakeWhile(Predicate::registered(name, params)))
    }

    /// Collects elements by key, and yields the dataset that `reduce` makes of each `size` elements of one key as soon as
    /// they are there; at the end, of what is left of each key, in the order of the keys.
    ///
    /// `key` is handed an element and is a chain of maps that ends in an `i64`. `reduce` is handed the dataset of the
    /// window. At most 2^24 elements are held.
    ///
    /// As `tf.data.Dataset.group_by_window`. What is held beyond the pipeline's byte budget is an error.
    pub fn group_by_window(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: u64,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        self.grouped(key, Ok(WindowSize::Fixed(size)), reduce)
    }

    /// As [`Dataset::group_by_window`], with windows of as many elements as `size` makes of the key: a chain of maps from
    /// `i64` to `i64`, asked at the first element of each window.
    pub fn group_by_window_sized(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: impl FnOnce(Dataset) -> Dataset,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        self.grouped(key, body(size).map(WindowSize::ByKey), reduce)
    }

    /// The datasets that `reduce` makes of windows of the elements, one after the other.
    ///
    /// As `tf.data.Dataset.window`, of which a `flat_map` follows. Sizes, shifts and strides of 0 are refused.
    pub fn window(self, window: Window, reduce: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        match body(reduce) {
            Ok(reduce) => self.then(Op::Window(Box::new(reduce), window)),
            Err(error) => self.failed(error),
        }
    }

    /// Batches of elements of similar length. `length` is handed an element and is a chain of maps that ends in an `i64`.
    /// A batch is yielded as soon as its bucket has as many elements as the bucket's batches; at the end, what is left in
    /// each bucket, the shortest first.
    ///
    /// As `tf.data.Dataset.bucket_by_sequence_length`. Boundaries that do not rise, and as many batch sizes as do not fit them,
    /// are refused.
    pub fn bucket_by_sequence_length(
        self,
        length: impl FnOnce(Dataset) -> Dataset,
        buckets: Buckets,
    ) -> Dataset {
        match body(length) {
            Ok(length) => self.then(Op::Bucket(Box::new(length), buckets)),
            Err(error) => self.failed(error),
        }
    }

    /// The graph of what was built on the placeholder of a function's argument, for whoever wants to know what it yields.
    ///
    /// # Errors
    /// [`GraphError`]: the first mistake in the chain.
    pub fn function_graph(self) -> Result<Graph, GraphError> {
        self.error.map_or_else(|| Graph::function(self.nodes), Err)
    }

    fn grouped(
        self,
        key: impl FnOnce(Dataset) -> Dataset,
        size: Result<WindowSize, GraphError>,
        reduce: impl FnOnce(Dataset) -> Dataset,
    ) -> Dataset {
        match (body(key), size, body(reduce)) {
            (Ok(key), Ok(size), Ok(reduce)) => {
                self.then(Op::GroupByWindow(Box::new(Grouping { key, size, reduce })))
            }
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => self.failed(error),
        }
    }

    pub(super) fn failed(mut self, error: GraphError) -> Dataset {
        self.error.get_or_insert(error);
        self
    }
}

/// The graph of a function's body.
pub(super) fn body(function: impl FnOnce(Dataset) -> Dataset) -> Result<Graph, GraphError> {
    function(Dataset::source(Op::Argument)).function_graph()
}

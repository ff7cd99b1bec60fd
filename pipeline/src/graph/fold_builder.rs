//! The part of the builder that adds operations which carry a state.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::constant::Constant;
use super::dataset::Dataset;
use super::definition::Graph;
use super::error::GraphError;
use super::fold::{Fold, Folding, RejectionResample, Resampling};
use super::group_builder::body;
use super::op::Op;

impl Dataset {
    /// What `function` makes of each element and a state, which begins as `initial` in every pass.
    ///
    /// `function` is handed a dict of `state` and `element` and is a chain of maps that ends in a tuple, or dict, of two: the
    /// next state, of the same structure and dtypes, and the element that is yielded. Where splits are dealt out or the
    /// dataset is divided below, each task has a state of its own. The state is saved with the executor's.
    ///
    /// As `tf.data.Dataset.scan`. A function whose state is of another structure or dtype is refused when the dataset is
    /// analysed.
    pub fn scan(self, initial: Constant, function: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.folded(body(function), |function| {
            Fold::Scan(Box::new(Folding { initial, function }))
        })
    }

    /// One element: what `function` leaves of `initial` after all elements, which of no elements is `initial` itself.
    ///
    /// `function` is handed a dict of `state` and `element` and is a chain of maps that ends in the next state, of the same
    /// structure and dtypes. Where splits are dealt out each task reduces its own, to an element each.
    /// `Executor::into_only` runs such a dataset.
    ///
    /// As `tf.data.Dataset.reduce`.
    pub fn reduce(self, initial: Constant, function: impl FnOnce(Dataset) -> Dataset) -> Dataset {
        self.folded(body(function), |function| {
            Fold::Reduce(Box::new(Folding { initial, function }))
        })
    }

    /// Tuples of the class and the element, so many elements dropped of each class that classes are as frequent as `target`
    /// says, in relation to each other.
    ///
    /// `class` is handed an element and is a chain of maps that ends in an `i64`, an index of `target`. `initial` says how
    /// frequent classes are in this dataset; without it they are counted as elements come, and the first ones are drawn by a
    /// guess. An element is yielded at most once.
    ///
    /// As `tf.data.Dataset.rejection_resample`. A class that `target` does not have is an error of its element.
    pub fn rejection_resample(
        self,
        class: impl FnOnce(Dataset) -> Dataset,
        target: impl Into<Vec<f64>>,
        initial: Option<Vec<f64>>,
        seed: Option<u64>,
    ) -> Dataset {
        let params = RejectionResample {
            target: target.into(),
            initial,
            seed,
        };
        self.folded(body(class), |class| {
            Fold::RejectionResample(Box::new(Resampling { class, params }))
        })
    }

    fn folded(mut self, function: Result<Graph, GraphError>, fold: impl FnOnce(Graph) -> Fold) -> Dataset {
        match function {
            Ok(function) => self.then(Op::Fold(fold(function))),
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }
}

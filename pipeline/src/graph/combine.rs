//! The part of the builder that makes one dataset of several.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::dataset::Dataset;
use super::definition::{Graph, Node};
use super::op::{Choose, Op, Sample, Zip};

impl Dataset {
    /// Tuples of one element of each dataset, in this order, as many as the shortest dataset has elements.
    ///
    /// Where splits are dealt out, each task pairs those it was given: only one worker pairs elements of the same
    /// position.
    ///
    /// As `tf.data.Dataset.zip`.
    pub fn zip(datasets: impl IntoIterator<Item = Dataset>) -> Dataset {
        Dataset::joined(Op::Zip(Zip { names: None }), datasets)
    }

    /// As [`Dataset::zip`], but the elements are dicts in which each dataset's element has its name.
    pub fn zip_named<'a>(datasets: impl IntoIterator<Item = (&'a str, Dataset)>) -> Dataset {
        let (names, datasets): (Vec<String>, Vec<Dataset>) = datasets
            .into_iter()
            .map(|(name, dataset)| (name.to_owned(), dataset))
            .unzip();
        Dataset::joined(Op::Zip(Zip { names: Some(names) }), datasets)
    }

    /// The elements of this dataset and then those of `other`, which yields the same structure and dtypes. Dimensions may
    /// differ, and are unknown of the whole where they do.
    ///
    /// As `tf.data.Dataset.concatenate`; what does not fit is refused when the dataset is analysed.
    pub fn concatenate(self, other: Dataset) -> Dataset {
        let Some(Node {
            op: Op::Concatenate, ..
        }) = self.nodes.last()
        else {
            return Dataset::joined(Op::Concatenate, [self, other]);
        };
        // One operation for a chain of them, however long: depth is limited, inputs are not.
        let mut joined = self;
        let Some(mut node) = joined.nodes.pop() else {
            return joined;
        };
        node.inputs.push(joined.append(other));
        joined.nodes.push(node);
        joined
    }

    /// Elements of these datasets in a random order: each from a dataset drawn in proportion to its weight, anew every
    /// pass, the same on every worker with a seed, each worker's own without. Datasets of weight 0 are left out.
    ///
    /// Once a dataset that has ended is drawn, the whole ends if `stop_on_empty`; else the others go on until all have
    /// ended. They yield the same structure and dtypes, as for [`Dataset::concatenate`].
    ///
    /// As `tf.data.Dataset.sample_from_datasets`. Weights that are negative or all 0 are refused.
    pub fn sample(
        datasets: impl IntoIterator<Item = (f64, Dataset)>,
        seed: Option<u64>,
        stop_on_empty: bool,
    ) -> Dataset {
        let (weights, datasets): (Vec<f64>, Vec<Dataset>) =
            datasets.into_iter().filter(|(weight, _)| *weight != 0.0).unzip();
        let sample = Sample {
            weights,
            seed,
            stop_on_empty,
            fixed: false,
        };
        Dataset::joined(Op::Sample(sample), datasets)
    }

    /// Elements of these datasets in the order that `choices` says, a dataset of `i64` scalars: each the index of the
    /// dataset that yields the next element. It ends with `choices`, or when all datasets have ended.
    ///
    /// Once a dataset that has ended is chosen, the whole ends if `stop_on_empty`; else that choice is passed over.
    /// Where splits are dealt out, those are of `datasets`: every task reads all of `choices`.
    ///
    /// As `tf.data.Dataset.choose_from_datasets`. An index that no dataset has is an error.
    pub fn choose(
        choices: Dataset,
        datasets: impl IntoIterator<Item = Dataset>,
        stop_on_empty: bool,
    ) -> Dataset {
        match choices.error.map_or_else(|| Graph::new(choices.nodes), Err) {
            Ok(choices) => Dataset::joined(Op::Choose(Box::new(choices), Choose { stop_on_empty }), datasets),
            // Stands for what cannot be made; the mistake is what `graph` reports.
            Err(error) => Dataset {
                error: Some(error),
                ..Dataset::joined(Op::Argument, [])
            },
        }
    }

    /// `op` over `datasets`.
    fn joined(op: Op, datasets: impl IntoIterator<Item = Dataset>) -> Dataset {
        let mut joined = Dataset {
            nodes: Vec::new(),
            error: None,
            split_size: None,
        };
        let inputs = datasets
            .into_iter()
            .map(|dataset| joined.append(dataset))
            .collect();
        joined.nodes.push(Node { op, inputs });
        joined
    }

    /// Adds the nodes and the mistakes of `dataset`; the index that its output has then.
    fn append(&mut self, dataset: Dataset) -> u32 {
        // Beyond 2^32 nodes is beyond memory, and refused by `graph` long before.
        let offset = self.nodes.len() as u32;
        for mut node in dataset.nodes {
            node.inputs.iter_mut().for_each(|input| *input += offset);
            self.nodes.push(node);
        }
        if let Some(error) = dataset.error {
            self.error.get_or_insert(error);
        }
        self.split_size = self.split_size.into_iter().chain(dataset.split_size).min();
        (self.nodes.len() as u32).saturating_sub(1)
    }
}
